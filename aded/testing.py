"""For tests of a drafter of your own: `check_drafter` tries what every drafter must do, on a tiny random model.

    def test_my_drafter():
        aded.testing.check_drafter(MyDrafter)

It takes up to a minute, and raises AssertionError with one line that says what is wrong.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import torch
from transformers import CONFIG_MAPPING, AutoModelForCausalLM

from aded.api.drafter import as_drafter, drafter
from aded.core.decode import Answer, decode
from aded.core.drafter import Drafter, Step, WrappedDrafter, set_up
from aded.core.sampler import Decoding, Greedy, Recorded, Sampler
from aded.core.target import Target
from aded.core.tree import DraftTree
from aded.errors import BadInput, first_line
from aded.targets.eager import EagerTarget
from aded.targets.weightless import WeightlessTarget

VOCABULARY = 64
TOKENS = 40
SESSION = 12_000
"""Tokens of the long session; a drafter that reads logits or hidden states gets a quarter."""
LEAST_GROWTH = 3
"""Bytes a token, in the second half of a long session whose text repeats: less is no growth."""
NOISE = 24 << 10
"""Bytes that libraries may keep meanwhile."""
STRETCHES = 6
"""How often memory must grow: what a drafter of many tables keeps at first ends after five."""
_PHRASE = np.random.default_rng(0).integers(5, VOCABULARY - 4, size=12)
PROMPTS = [np.tile(_PHRASE, 3), np.tile(_PHRASE, 2)[5:20], _PHRASE[:2], _PHRASE[3:4]]


def check_drafter(given: str | Drafter | type[Drafter] | Callable[[], Drafter]) -> None:
    """Raise AssertionError unless the drafter keeps its contract (docs/add_a_method.md).

    given: a class or function that makes a new one, a drafter that has learned nothing yet (copies of it are tried),
        or a method's name. The model has 64 tokens, of which the last four occur in no prompt.
    """
    make = _maker(given)
    for check in (*QUICK_CHECKS, memory_is_bounded):
        check(make)


def _maker(given: Any) -> Callable[[], Drafter]:
    """Of the drafter itself: to what trees are cut depends on the machine."""
    if isinstance(given, str | Drafter):
        named = as_drafter(given)
        return lambda: named.fresh().unsized
    found: Callable[[], Drafter] = given
    return found


@cache
def tiny_target() -> EagerTarget:
    """A random float32 model of two layers, whose greedy answers vary."""
    sizes: dict[str, Any] = {
        "vocab_size": VOCABULARY,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 128,
        "initializer_range": 0.5,
        "tie_word_embeddings": False,
        "eos_token_id": None,
    }
    config = CONFIG_MAPPING["llama"](**sizes)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return EagerTarget(AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval())


class Watched(WrappedDrafter):
    """Passes every call on, checks each tree, and keeps it."""

    def __init__(self, drafter: Drafter) -> None:
        super().__init__(drafter)
        self.trees = list[tuple[list[int], list[int]]]()

    def draft(self, context: np.ndarray) -> DraftTree:
        before = context.copy()
        with _refused():
            tree = super().draft(context)
        assert np.array_equal(context, before), "draft changed its context; copy what you change"
        assert tree.tokens[0] == context[-1], f"the root is {tree.tokens[0]}; it must be context[-1], {context[-1]}"
        assert tree.tokens.max() < VOCABULARY, f"token {tree.tokens.max()} was drafted; the model has {VOCABULARY}"
        assert tree.drafted <= self.budget, f"{tree.drafted} nodes were drafted; the budget is {self.budget}"
        self.trees.append((tree.tokens.tolist(), tree.parents.tolist()))
        return tree

    def observe(self, step: Step) -> None:
        self.drafter.observe(step)
        parts = self.drafter.node_parts(step.tree)
        assert parts is None or (len(parts) == len(step.tree) and parts[0] == ""), (
            f"node_parts returned {parts} for {len(step.tree)} nodes; name a part for each, and none for the root"
        )


def _watched(made: Drafter) -> Watched:
    watched = Watched(made)
    with _refused():
        set_up(watched, tiny_target(), "method", type(made).__name__)
    return watched


@contextmanager
def _refused() -> Iterator[None]:
    """What a run would refuse is wrong."""
    try:
        yield
    except ValueError as error:
        raise AssertionError(first_line(error)) from error


def _answered(watched: Drafter, prompt: np.ndarray, sampler: Sampler) -> Answer:
    return decode(tiny_target(), watched, prompt, sampler, max_new_tokens=TOKENS, seed=7)


@cache
def _targets_own(target: EagerTarget, decoding: Decoding) -> list[list[int]]:
    """The answers to PROMPTS of tiny_target(), the `target`, by itself."""
    return [_answered(drafter("autoregressive"), prompt, decoding.sampler()).token_ids for prompt in PROMPTS]


def _trees(made: Drafter, prompt: np.ndarray = PROMPTS[0]) -> list[tuple[list[int], list[int]]]:
    watched = _watched(made)
    _answered(watched, prompt, Greedy())
    return watched.trees


def answers_are_the_targets(make: Callable[[], Drafter]) -> None:
    """Greedy and drawn, one drafter for all prompts: what it learns changes no answer. Each tree is checked."""
    watched = _watched(make())
    for decoding in (Decoding(), Decoding(0.9, 0.9, 1)):
        for prompt, wanted in zip(PROMPTS, _targets_own(tiny_target(), decoding), strict=True):
            answer = _answered(watched, prompt, decoding.sampler())
            assert answer.token_ids == wanted, "an answer is not that of autoregressive decoding"


def drafts_are_the_same_each_time(make: Callable[[], Drafter]) -> None:
    assert _trees(make()) == _trees(make()), "two new drafters draft differently; draw with the seed that begin gets"


def nothing_outlives_its_scope(make: Callable[[], Drafter]) -> None:
    used, fresh = make(), _trees(make())
    scope = used.adaptation
    assert scope in ("off", "prompt", "session"), f"adaptation is {scope!r}; it must be off, prompt or session"
    _trees(used, PROMPTS[1])
    if scope != "session":
        assert _trees(used) == fresh, (
            f"adaptation is {scope}, and an earlier answer changes the drafts; clear in begin"
        )
    used.reset()
    assert _trees(used) == fresh, "reset does not forget everything"


def no_token_is_made_up(make: Callable[[], Drafter]) -> None:
    """Of tokens that it has never seen it knows nothing."""
    for prompt in ([VOCABULARY - 2], [VOCABULARY - 3, VOCABULARY - 2]):
        made = _watched(make())
        made.begin(np.array(prompt))
        drafted = made.draft(np.array(prompt)).tokens[1:].tolist()
        assert set(drafted) <= set(prompt), f"{drafted} was drafted after {prompt} alone; draft the root alone"


def memory_is_bounded(make: Callable[[], Drafter]) -> None:
    """A session of answers made of the same few phrases: after half of it there is nothing new to keep.

    What a drafter keeps grows in every stretch; what libraries keep meanwhile does not.
    """
    made = make()
    target: Target = tiny_target() if made.requires else WeightlessTarget()
    try:
        made.setup(target)
    except BadInput:  # it drafts with the model's own layers
        target = tiny_target()
        made.setup(target)
    rng = np.random.default_rng(1)
    phrases = rng.integers(5, VOCABULARY - 4, size=(8, 16))
    tokens, room = (SESSION // 4, 48) if target is tiny_target() else (SESSION, 240)

    def answer_for(many: int) -> None:
        for _ in range(many // room):
            text = phrases[rng.integers(8, size=room // 16 + 3)].ravel()
            decode(target, made, text[:32], Recorded(text[32:].tolist()), max_new_tokens=room)

    answer_for(tokens // 2)
    tracemalloc.start()
    try:
        answer_for(2 * room)  # what a first call keeps
        for _ in range(STRETCHES):
            before = tracemalloc.get_traced_memory()[0]
            answer_for(tokens // 2)
            grown = (tracemalloc.get_traced_memory()[0] - before - NOISE) / (tokens // 2)
            if grown < LEAST_GROWTH:
                return
    finally:
        tracemalloc.stop()
    raise AssertionError(f"memory grows by {grown:.0f} bytes a token; bound what is kept over a session")


QUICK_CHECKS = (
    answers_are_the_targets,
    drafts_are_the_same_each_time,
    nothing_outlives_its_scope,
    no_token_is_made_up,
)
"""What takes a second or two; memory takes ten times as long."""
