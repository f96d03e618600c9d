"""Which engine runs, and what happens where the compiled one cannot."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny import Obedient, random_tree, tiny_model

from aded.core.sampler import Greedy
from aded.errors import BadInput
from aded.targets.compiled_cpu import CompiledCpuTarget
from aded.targets.eager import EagerTarget
from aded.targets.engine import with_engine


def test_an_unknown_engine_is_refused() -> None:
    with pytest.raises(BadInput, match="engine: 'fast' must be one of eager, compiled"):
        with_engine(EagerTarget(tiny_model()), "fast", "cache")


def test_eager_is_the_target_itself() -> None:
    target = EagerTarget(tiny_model())
    assert with_engine(target, "eager", "cache") is target
    assert target.describe() == {"engine": "eager", "trace": False}


def test_without_a_compiler_eager_goes_on_and_one_line_says_why(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    def no_compiler(model: object) -> None:
        raise RuntimeError("no C++ compiler found\nit was looked for in ...")

    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("aded.kernels.install.prepare", no_compiler)
    before = EagerTarget(tiny_model())
    with caplog.at_level(logging.WARNING):
        target = with_engine(before, "compiled", str(tmp_path))
    assert target.describe() == {"engine": "eager", "trace": False}
    (record,) = (record for record in caplog.records if record.name == "aded.targets.engine")
    assert record.message == "engine=compiled cannot be had, eager goes on: RuntimeError: no C++ compiler found"
    steps = []
    for each in (before, target):
        step = each.prefill(np.arange(9), Greedy(), 20)
        steps.append(each.verify(random_tree(np.random.default_rng(0), 5, step.next_token)).new_tokens)
    assert steps[0] == steps[1]


def test_longer_prompts_make_the_cache_grow_and_others_leave_it_alone() -> None:
    model, sampler = tiny_model(max_position_embeddings=4096), Obedient()
    compiled, eager = CompiledCpuTarget(model, backend="eager"), EagerTarget(model)
    capacities = []
    for length in (20, 1500, 30):
        prompt = np.random.default_rng(length).integers(60, size=length)
        logits = []
        for target in (compiled, eager):
            target.prefill(prompt, sampler, 64, {"logits"})
            step = target.verify(random_tree(np.random.default_rng(1), 6, 3))
            assert step.logits is not None
            logits.append(step.logits)
        torch.testing.assert_close(*logits, atol=1e-4, rtol=1e-4)
        assert compiled._cache is not None
        capacities.append(compiled._cache.capacity)
    assert capacities == [1024, 2048, 2048]
