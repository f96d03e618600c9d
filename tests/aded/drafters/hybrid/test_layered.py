from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from aded.core.drafter import Drafter, Step
from aded.core.sampler import Sampled
from aded.core.tree import DraftTree
from aded.drafters.hybrid.layered import Layered
from aded.errors import BadInput

PROMPT = np.array([7, 8])


class Fixed(Drafter):
    """Drafts the same chain below each root."""

    def __init__(self, tokens: list[int], requires: frozenset[str] = frozenset(), drawn: bool = False) -> None:
        self.chain, self.requires, self.drawn = tokens, requires, drawn
        self.steps: list[Step] = []
        self.sampler: Sampled | None = None

    def draw_by(self, sampler: Sampled | None) -> None:
        self.sampler = sampler

    def end_at(self, eos_token_ids: Collection[int]) -> None:
        self.ends = eos_token_ids

    def draft(self, context: np.ndarray) -> DraftTree:
        tree = DraftTree.chain(int(context[-1]), self.chain)
        return replace(tree, drawn={0: np.full(10, 0.1)}) if self.drawn else tree

    def observe(self, step: Step) -> None:
        self.steps.append(step)


def layered(*parts: Drafter, **settings: Any) -> Layered:
    made = Layered({f"part {number}": part for number, part in enumerate(parts)}, **settings)
    made.begin(PROMPT)
    return made


@pytest.mark.parametrize(
    ("chains", "least", "wanted"),
    [
        ([[1, 2], [3]], 1, [1, 2]),
        ([[], [3, 4], [5]], 1, [3, 4]),
        ([[1, 2], [3]], 3, [3]),
        ([[1], [3, 4], [5]], 2, [3, 4]),
        ([[], []], 1, []),
    ],
)
def test_the_first_part_that_finds_enough_drafts_and_else_the_last(
    chains: list[list[int]], least: int, wanted: list[int]
) -> None:
    tree = layered(*map(Fixed, chains), least=least).draft(PROMPT)
    assert tree.tokens.tolist() == [8, *wanted]


def test_what_was_drawn_is_never_left_out_for_its_size() -> None:
    """A token that is only kept where another follows it would be drafted less often than its probability says."""
    tree = layered(Fixed([1], drawn=True), Fixed([3, 4]), least=2).draft(PROMPT)
    assert tree.tokens.tolist() == [8, 1]


def test_a_larger_tree_is_cut_to_its_first_nodes() -> None:
    for budget in range(4):
        assert layered(Fixed([1, 2, 3]), budget=budget).draft(PROMPT).tokens.tolist() == [8, *[1, 2, 3][:budget]]


def test_the_record_says_which_part_drafted_and_all_observe() -> None:
    first, second = Fixed([]), Fixed([3, 4])
    mine = layered(first, second)
    tree = mine.draft(PROMPT)
    mine.observe(Step(tree, [0, 1], 9))
    assert mine.node_parts(tree) == ["", "part 1", "part 1"]
    counts = [(use.drafted, use.accepted, use.accepted_alone) for use in mine.part_uses([2]).values()]
    assert counts == [(0, 0, 0), (2, 1, 1)]
    assert len(first.steps) == len(second.steps) == 1


def test_parts_draw_by_the_sampler_since_their_trees_stay_as_they_are() -> None:
    parts = Fixed([1]), Fixed([2])
    sampler = Sampled(1.0, 1.0, 0)
    layered(*parts).draw_by(sampler)
    assert all(part.sampler is sampler for part in parts)


def test_parts_know_what_ends_the_answer() -> None:
    parts = Fixed([1]), Fixed([2])
    layered(*parts).end_at({7})
    assert all(part.ends == {7} for part in parts)


def test_it_asks_for_what_its_parts_ask_for_and_names_the_one_that_cannot_have_it() -> None:
    mine = layered(Fixed([1]), Fixed([2], frozenset({"hidden"})))
    assert mine.requires == {"hidden"}
    with pytest.raises(BadInput, match=r"^method.parts: part 1 needs hidden, which this target does not provide$"):
        mine.setup(SimpleNamespace(provides=frozenset({"logits"})))
