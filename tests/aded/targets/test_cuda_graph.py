"""Padded steps and moves of rows: run here without being captured."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch
from tiny import VOCABULARY, random_tree, tiny_model

from aded.core.decode import decode
from aded.core.decoding import Decoding
from aded.core.sampler import Greedy, Recorded, Sampled, Sampler
from aded.core.tree import DraftTree
from aded.errors import BadInput
from aded.targets.cuda_graph import SIZES, CudaGraphTarget
from aded.targets.eager import FIELDS, EagerTarget
from aded.targets.engine import with_engine
from baselines.autoregressive import Autoregressive
from baselines.logits.token_recycling import TokenRecycling

PROMPT = np.arange(10, 22, dtype=np.int64)


@cache
def graphs() -> CudaGraphTarget:
    return CudaGraphTarget(tiny_model(), backend="eager")


@cache
def eager() -> EagerTarget:
    return EagerTarget(tiny_model())


@pytest.mark.parametrize("decoding", [Decoding(), Decoding(0.9, 0.9, 1)], ids=["greedy", "sampled"])
@pytest.mark.parametrize("length", [1, 2, 12])
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


@pytest.mark.parametrize("nodes", [1, 2, 3, 9, 40])
def test_logits_and_hidden_states_are_those_of_the_eager_engine(nodes: int) -> None:
    tree, steps = random_tree(np.random.default_rng(nodes), nodes, 5), []
    for target in (eager(), graphs()):
        target.read_layers([0, 1])
        target.prefill(PROMPT, Greedy(), 60, FIELDS)
        step = target.verify(tree)
        assert step.logits is not None and step.hidden is not None and step.layers is not None  # noqa: PT018
        steps.append([step.logits, step.hidden, step.layers[0], step.layers[1]])
    for wanted, found in zip(*steps, strict=True):
        torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("sampler", [Greedy(), Sampled(1.0, 1.0, 0), Recorded([3] * 400)])
def test_every_size_is_made_before_the_clock_starts_and_none_after(sampler: Sampler) -> None:
    target = graphs()
    target.prepare(len(PROMPT) + 300, sampler)
    before = dict(target._programs), dict(target._moves)
    target.prefill(PROMPT, sampler, 300)
    for nodes in (1, 5, 64, 100, 1):
        target.verify(random_tree(np.random.default_rng(nodes), nodes, 3))
    assert (target._programs, target._moves) == before


def test_each_size_keeps_what_its_own_capture_computed() -> None:
    """A replay on a GPU writes where the capture did, and runs no Python."""
    target = CudaGraphTarget(tiny_model(), backend="eager")
    target.read_layers([0, 1])
    target.prepare(len(PROMPT) + 300, Recorded([3] * 400))
    assert {key[0] for key in target._programs} == set(SIZES)
    for (nodes, _), program in target._programs.items():
        assert [len(program.logits), len(program.hidden)] == [nodes, nodes]
        assert {layer: len(rows) for layer, rows in program.layers.items()} == {0: nodes, 1: nodes}


def test_a_tree_beyond_the_largest_size_is_refused() -> None:
    target = graphs()
    target.prefill(PROMPT, Greedy(), 400)
    with pytest.raises(BadInput, match="a tree of 300 nodes"):
        target.verify(DraftTree(np.arange(300) % VOCABULARY, np.arange(300) - 1))


def test_a_model_with_windows_is_refused() -> None:
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
