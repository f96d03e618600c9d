"""Batched verification: every request has the answer that it has alone, whatever stands beside it."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from own_drafters import Hiding, Knowing
from tiny import VOCABULARY, random_tree, tiny_model

from aded.core.decode import Answer, Request, decode, decode_batch
from aded.core.sampler import Greedy, Sampled, Sampler
from aded.errors import BadInput
from aded.targets.batch import EagerBatchTarget
from aded.targets.eager import EagerTarget
from baselines.autoregressive import Autoregressive

ROWS, TOKENS = 160, 24


@cache
def target() -> EagerTarget:
    return EagerTarget(tiny_model())


def prompts(lengths: list[int]) -> list[np.ndarray]:
    random = np.random.default_rng(len(lengths))
    return [random.integers(VOCABULARY, size=length) for length in lengths]


def answers(batch_target: EagerBatchTarget, requests: list[Request], **options: Any) -> dict[int, Answer]:
    steps = list(decode_batch(batch_target, requests, **options))
    found = {index: answer for completed in steps for index, answer in completed.items()}
    assert len(found) == sum(map(len, steps)), "each once"
    return found


@given(
    st.lists(st.tuples(st.integers(1, 60), st.integers(0, 63)), min_size=1, max_size=5),
    st.integers(1, 4),
    st.booleans(),
)
@settings(max_examples=12)
def test_each_request_has_the_answer_that_it_has_alone(
    requests: list[tuple[int, int]], slots: int, greedy: bool
) -> None:
    """Prompts of different lengths, trees of 1 to 64 nodes, more requests than slots."""
    asked = prompts([length for length, _ in requests])
    samplers: list[Sampler] = [Greedy() if greedy else Sampled(1.0, 0.9, seed) for seed in range(len(asked))]
    alone = [
        decode(target(), Autoregressive(), prompt, sampler, max_new_tokens=TOKENS).token_ids
        for prompt, sampler in zip(asked, samplers, strict=True)
    ]
    batch = [
        Request(prompt, Hiding(answer, 3, nodes), sampler, TOKENS)
        for prompt, sampler, answer, (_, nodes) in zip(asked, samplers, alone, requests, strict=True)
    ]
    found = answers(EagerBatchTarget(target(), slots, ROWS), batch)
    assert [found[number].token_ids for number in range(len(batch))] == alone


def test_a_step_serves_all_requests_and_accepts_what_each_drafted_well() -> None:
    asked = prompts([5, 30, 17])
    alone = [decode(target(), Autoregressive(), one, Greedy(), max_new_tokens=TOKENS).token_ids for one in asked]
    drafters, loads = [Knowing(answer, 3) for answer in alone], list[int]()
    batch = [Request(asked[n], drafters[n], Greedy(), TOKENS, seed) for n, seed in enumerate((0, 7, 4))]
    found = answers(EagerBatchTarget(target(), 3, ROWS), batch, before_step=loads.append)
    assert (set(loads), [drafter.seed for drafter in drafters]) == ({3}, [0, 7, 4])
    assert [found[number].token_ids for number in range(3)] == alone
    assert {len(answer.accept_lengths) for answer in found.values()} == {6}  # 23 tokens, 4 a step


def test_a_tree_of_more_nodes_than_its_slot_has_room_for_is_refused() -> None:
    """It would be written into the rows of the next request, which would answer otherwise."""
    drafter, random = Autoregressive(), np.random.default_rng(0)
    drafter.budget = 30
    one, other = prompts([8, 8])
    batch = [Request(one, drafter, Greedy(), TOKENS), Request(other, Autoregressive(), Greedy(), TOKENS)]
    running = decode_batch(EagerBatchTarget(target(), 2, ROWS), batch)
    next(running)
    drafter.draft = lambda context: random_tree(random, 40, int(context[-1]))  # type: ignore[method-assign]
    with pytest.raises(BadInput, match=r"^drafter: .*nodes.*`budget`"):
        list(running)


def test_what_a_batch_cannot_do_is_refused() -> None:
    """A prompt that fills its slot, a drafter that reads hidden states, a model with a sliding window."""
    drafter = Autoregressive()
    drafter.budget = 3
    with pytest.raises(BadInput, match="leaves no room"):
        answers(EagerBatchTarget(target(), 1, 44), [Request(prompts([40])[0], drafter, Greedy(), TOKENS)])
    drafter.requires = frozenset({"logits", "hidden"})
    with pytest.raises(BadInput, match=r"^methods: one reads hidden"):
        answers(EagerBatchTarget(target(), 1, ROWS), [Request(prompts([4])[0], drafter, Greedy(), TOKENS)])
    with pytest.raises(BadInput, match="attention to all rows"):
        EagerBatchTarget(EagerTarget(tiny_model("mistral-window")), 2, ROWS)
