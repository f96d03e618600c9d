"""Which engine runs, and what happens where the compiled one cannot."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny import Obedient, random_tree, tiny_model
from torch._inductor.runtime.cache_dir_utils import default_cache_dir

from aded.kernels.linear import PackedLinear
from aded.kernels.ops import COMPILED_CODE
from aded.targets.compiled_cpu import CompiledCpuTarget
from aded.targets.eager import EagerTarget
from aded.targets.engine import with_engine
from aded.targets.load import checked_target
from aded.targets.self_check import SelfCheck


def test_eager_is_the_target_itself() -> None:
    target = EagerTarget(tiny_model())
    assert with_engine(target, "eager", "cache") is target
    assert target.describe() == {"engine": "eager", "trace": False}


def test_without_a_compiler_eager_goes_on_and_one_line_says_why(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """The model stays as it was: neither another layer or attention, nor a hook, nor another number of threads."""

    def no_compiler(*_: object) -> None:
        raise RuntimeError("no C++ compiler found\nit was looked for in ...")

    model = tiny_model()
    for parameter in model.parameters():
        parameter.data = parameter.data.bfloat16().float()
    target = checked_target(model, SelfCheck(model), "exact")
    layers, threads = [type(module) for module in model.modules()], torch.get_num_threads()
    assert PackedLinear in layers
    monkeypatch.setattr(CompiledCpuTarget, "_compile", no_compiler)
    with caplog.at_level(logging.WARNING):
        again = with_engine(target, "compiled", str(tmp_path))
    (record,) = (record for record in caplog.records if record.name == "aded.targets.engine")
    assert record.message.endswith("RuntimeError: no C++ compiler found")
    assert isinstance(again, EagerTarget)
    assert again.describe() == {"engine": "eager", "trace": False}
    assert [type(module) for module in model.modules()] == layers
    assert model.config._attn_implementation == "tree"
    assert torch.get_num_threads() == threads
    assert len(again.output_projection._forward_pre_hooks) == 1
    again.self_check()


@pytest.mark.parametrize(("named", "kept"), [(None, "cache/inductor"), ("elsewhere", "elsewhere")])
def test_compiled_code_is_kept_below_the_cache(
    named: str | None, kept: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Torch names a temporary folder when it is imported; only a folder that the user named is left."""
    monkeypatch.setenv(COMPILED_CODE, str(tmp_path / named) if named else default_cache_dir())
    monkeypatch.setattr("aded.targets.engine._compiled", lambda target: target)
    monkeypatch.setattr(EagerTarget, "compile_seconds", 0.0, raising=False)
    with_engine(EagerTarget(tiny_model()), "compiled", str(tmp_path / "cache"))
    assert os.environ[COMPILED_CODE] == str(tmp_path / kept)


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
