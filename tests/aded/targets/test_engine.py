"""Engines: which runs, what happens where the compiled one cannot, steps for a GPU without being captured; twins."""

import logging
import os
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny import VOCABULARY, Obedient, random_tree, tiny_model
from torch._inductor.runtime.cache_dir_utils import default_cache_dir

from aded.core.decode import decode
from aded.core.sampler import Decoding, Greedy
from aded.core.tree import DraftTree
from aded.errors import BadInput
from aded.kernels.linear import PackedLinear
from aded.kernels.ops import COMPILED_CODE
from aded.targets.compiled_target import SIZES, CompiledCpuTarget, CudaGraphTarget
from aded.targets.eager import FIELDS, EagerTarget
from aded.targets.engine import with_engine
from aded.targets.load import checked_target, twin_of, twin_with_layers
from aded.targets.self_check import SelfCheck
from baselines.autoregressive import Autoregressive
from baselines.logits.token_recycling import TokenRecycling


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
    assert with_engine(target, "eager", "cache") is target
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


def logits_of(model: torch.nn.Module) -> torch.Tensor:
    with torch.inference_mode():
        return model(input_ids=torch.arange(12)[None] % VOCABULARY).logits


@pytest.mark.parametrize("name", ["llama", "qwen2-window", "gemma3-window"])
@pytest.mark.parametrize("chosen", [[0, 1], [1, 3]], ids=str)
def test_chosen_layers_are_a_model_of_those_layers(name: str, chosen: list[int]) -> None:
    """The same as a model that was built with so few layers and given their weights."""
    kinds = {"layer_types": ["sliding_attention", "full_attention"] * 2} if name == "gemma3-window" else {}
    model = tiny_model(name, num_hidden_layers=4, **kinds)
    before = logits_of(model)
    twin = twin_with_layers(model, chosen)
    own = {key: [kinds["layer_types"][number] for number in chosen] for key in kinds}
    if name == "qwen2-window":  # its layers slide from max_window_layers on
        own = {"layer_types": [model.config.layer_types[number] for number in chosen]}
    few = tiny_model(name, num_hidden_layers=len(chosen), **own)
    weights = model.state_dict()
    for key in few.state_dict():
        parts = key.split(".")
        if "layers" in parts:
            at = parts.index("layers") + 1
            parts[at] = str(chosen[int(parts[at])])
        few.get_parameter(key).data = weights[".".join(parts)]
    torch.testing.assert_close(logits_of(twin), logits_of(few), rtol=0, atol=0)
    torch.testing.assert_close(logits_of(model), before, rtol=0, atol=0)
    EagerTarget(twin).self_check()


def test_a_twin_has_the_same_memory_and_hooks_of_its_own() -> None:
    model = tiny_model()
    places = {parameter.data_ptr() for parameter in model.parameters()}
    target = EagerTarget(model)
    for twin in (twin_of(model), twin_with_layers(model, [1])):
        assert {parameter.data_ptr() for parameter in twin.parameters()} <= places
        target.states.last = None
        logits_of(twin)
        assert target.states.last is None
    model.config.num_hidden_layers = 7
    with pytest.raises(BadInput, match=r"^model: LlamaForCausalLM has no list of its 7 layers"):
        twin_with_layers(model, [0])


PROMPT = np.arange(10, 22, dtype=np.int64)


@cache
def graphs() -> CudaGraphTarget:
    return CudaGraphTarget(tiny_model(), backend="eager")


@cache
def eager() -> EagerTarget:
    return EagerTarget(tiny_model())


@pytest.mark.parametrize(("decoding", "length"), [(Decoding(), 1), (Decoding(0.9, 0.9, 1), 12)])
def test_answers_are_those_of_the_eager_engine(decoding: Decoding, length: int) -> None:
    """Token Recycling accepts paths that are no chains, so compaction counts."""
    prompt = np.arange(10, 10 + length)
    answers = [
        decode(target, drafter, prompt, decoding.sampler(0), max_new_tokens=60)
        for target in (eager(), graphs())
        for drafter in (Autoregressive(), TokenRecycling(budget=30))
    ]
    assert all(answer.token_ids == answers[0].token_ids for answer in answers)
    assert answers[1].accept_lengths == answers[3].accept_lengths
    assert max(answers[3].accept_lengths) > 1


@pytest.mark.parametrize("nodes", [1, 9, 40])
def test_logits_and_hidden_states_are_those_of_the_eager_engine(nodes: int) -> None:
    tree, steps = random_tree(np.random.default_rng(nodes), nodes, 5), []
    for target in (eager(), graphs()):
        target.read_layers([0, 1])
        target.prefill(PROMPT, Greedy(), 60, FIELDS)
        step: Any = target.verify(tree)
        steps.append([step.logits, step.hidden, step.layers[0], step.layers[1]])
    for wanted, found in zip(*steps, strict=True):
        torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-4)


def test_every_size_is_made_before_the_clock_starts_and_keeps_what_its_own_capture_computed() -> None:
    """A replay on a GPU writes where the capture did, and runs no Python."""
    target = graphs()
    target.read_layers([0, 1])
    target.prepare(len(PROMPT) + 300, Greedy())
    before = dict(target._programs), dict(target._moves)
    target.prefill(PROMPT, Greedy(), 300)
    for nodes in (1, 5, 64, 100, 1):
        target.verify(random_tree(np.random.default_rng(nodes), nodes, 3))
    assert (target._programs, target._moves) == before
    assert {key[0] for key in target._programs} == set(SIZES)
    for (nodes, _), program in target._programs.items():
        assert [len(program.logits), len(program.hidden)] == [nodes, nodes]
        assert {layer: len(rows) for layer, rows in program.layers.items()} == {0: nodes, 1: nodes}
    other = target.fork()
    other.prefill(PROMPT, Greedy(), 300)
    assert not {*map(id, other._programs.values())} & {*map(id, target._programs.values())}, "each has its own cache"
    # A tree beyond the largest size and a model with windows are refused.
    target.prefill(PROMPT, Greedy(), 400)
    with pytest.raises(BadInput, match="a tree of 300 nodes"):
        target.verify(DraftTree(np.arange(300) % VOCABULARY, np.arange(300) - 1))
    with pytest.raises(BadInput, match="without sliding windows"):
        CudaGraphTarget(tiny_model("mistral-window"), backend="eager")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_captured_steps_allocate_nothing_and_answer_as_eager_ones_do() -> None:
    model = tiny_model(max_position_embeddings=4096)
    torch.nn.Module.to(model, "cuda")
    target = with_engine(EagerTarget(model), "compiled", "cache")
    assert isinstance(target, CudaGraphTarget)
    reference = EagerTarget(model)
    answers = [
        decode(each, TokenRecycling(budget=30), PROMPT, Greedy(), max_new_tokens=100).token_ids
        for each in (reference, target)
    ]
    assert answers[0] == answers[1]
    target.prefill(PROMPT, Greedy(), 900)
    target.verify(DraftTree.root(1))
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    for number in range(200):
        target.verify(random_tree(np.random.default_rng(number), 1 + number % 60, 3))
    assert torch.cuda.memory_allocated() == before
