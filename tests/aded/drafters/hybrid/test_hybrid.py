from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from aded.core.drafter import Drafter, Step
from aded.core.tree import DraftTree
from aded.drafters.hybrid.drafter import Hybrid
from aded.errors import BadInput

PROMPT = np.array([7, 8])


class Fixed(Drafter):
    """Drafts the same tree below each root: tokens, parents and their probabilities."""

    def __init__(self, tokens: list[int], parents: list[int], probabilities: list[float] | None = None) -> None:
        self.drafted, self.parents, self.probabilities = tokens, parents, probabilities
        self.steps: list[Step] = []

    def draft(self, context: np.ndarray) -> DraftTree:
        probabilities = None if self.probabilities is None else np.array([1.0, *self.probabilities])
        return DraftTree(np.array([context[-1], *self.drafted]), np.array([-1, *self.parents]), probabilities)

    def observe(self, step: Step) -> None:
        self.steps.append(step)


def hybrid(*parts: Drafter, **settings: Any) -> Hybrid:
    made = Hybrid({f"part {number}": part for number, part in enumerate(parts)}, **settings)
    made.begin(PROMPT)
    return made


def decided(drafter: Hybrid, tokens: list[int]) -> DraftTree:
    """One step in which the target decides these tokens. Returns what was drafted."""
    tree, path = drafter.draft(PROMPT), [0]
    for token in tokens[:-1]:
        child = tree.child(path[-1], token)
        assert child is not None
        path.append(child)
    drafter.observe(Step(tree, path, tokens[-1]))
    return tree


def test_equal_nodes_are_one_and_more_probable_than_those_of_one_part() -> None:
    tree = hybrid(Fixed([1, 2], [0, 1], [0.4, 0.3]), Fixed([1, 3], [0, 0], [0.4, 0.4])).draft(PROMPT)
    assert sorted(tree.tokens[1:].tolist()) == [1, 2, 3]
    node, other = tree.child(0, 1), tree.child(0, 3)
    assert node is not None
    assert other is not None
    assert tree.probabilities is not None
    assert tree.probabilities[node] > 0.4 > tree.probabilities[other], "the first part's silence counts"
    below = tree.child(node, 2)
    assert below is not None
    assert tree.given_parent[below] == pytest.approx(0.75, abs=0.05), "there the other part drafted nothing"


def test_the_most_probable_nodes_of_all_parts_fill_the_budget() -> None:
    one, other = Fixed([1, 2, 3], [0, 0, 0], [0.6, 0.1, 0.01]), Fixed([4, 5], [0, 1], [0.5, 0.4])
    whole = hybrid(one, other, budget=9).draft(PROMPT)
    assert sorted(whole.tokens[1:].tolist()) == [1, 2, 3, 4, 5]
    assert whole.probabilities is not None
    assert (np.diff(whole.probabilities) <= 0).all()
    for budget in range(6):
        assert hybrid(one, other, budget=budget).draft(PROMPT).tokens.tolist() == whole.tokens[: budget + 1].tolist()


def test_a_part_that_is_right_gains_room_and_one_that_is_wrong_loses_it() -> None:
    boastful, modest = Fixed([1], [0], [0.9]), Fixed([2], [0], [0.1])
    mine = hybrid(boastful, modest, budget=1)
    assert decided(mine, [2]).tokens[1:].tolist() == [1]
    for _ in range(200):
        decided(mine, [2])
    assert mine.draft(PROMPT).tokens[1:].tolist() == [2]


def test_the_record_says_who_drafted_what_was_accepted() -> None:
    mine = hybrid(Fixed([1, 2], [0, 1], [0.5, 0.4]), Fixed([1, 3], [0, 0], [0.5, 0.2]), Fixed([], []))
    decided(mine, [1, 2, 9])
    decided(mine, [3, 9])
    uses = mine.part_uses([3, 2])
    counts = {name: (use.drafted, use.accepted, use.accepted_alone) for name, use in uses.items()}
    assert counts == {"part 0": (4, 2, 1), "part 1": (4, 2, 1), "part 2": (0, 0, 0)}
    assert all(use.seconds > 0 for use in uses.values())
    mine.begin(PROMPT)
    assert all(use.drafted == use.accepted == 0 for use in mine.part_uses([]).values()), "of the latest answer"


def test_nodes_accepted_past_the_end_of_an_answer_do_not_count() -> None:
    """As in the row: of a step's tokens the last one is its bonus token."""
    for length in (3, 2, 1):
        mine = hybrid(Fixed([1, 2], [0, 1], [0.5, 0.4]), Fixed([1], [0], [0.5]))
        decided(mine, [1, 9])
        decided(mine, [1, 2, 9])
        uses = mine.part_uses([2, length]).values()
        assert [(use.drafted, use.accepted) for use in uses] == [(4, 1 + length - 1), (2, 1 + min(1, length - 1))]


def test_each_node_has_the_names_of_the_parts_that_drafted_it() -> None:
    mine = hybrid(Fixed([1, 2], [0, 1], [0.5, 0.4]), Fixed([1, 3], [0, 0], [0.5, 0.2]))
    assert mine.node_parts(DraftTree.root(8)) is None, "nothing is drafted yet"
    tree = decided(mine, [1, 2, 9])
    wanted = {8: "", 1: "part 0, part 1", 2: "part 0", 3: "part 1"}
    for one in (tree, tree.up_to_depth(1)):
        assert mine.node_parts(one) == [wanted[token] for token in one.tokens.tolist()]


def test_a_resumed_run_replays_accepted_paths_alone() -> None:
    """The verified tree is not the drafted one: nodes are found by their tokens."""
    mine = hybrid(Fixed([4, 1, 2], [0, 0, 2], [0.6, 0.5, 0.4]))
    mine.draft(PROMPT)
    mine.observe(Step(DraftTree.chain(8, [1, 2]), [0, 1, 2], 9))
    assert [(use.drafted, use.accepted) for use in mine.part_uses([3]).values()] == [(2, 2)]


def test_a_step_that_nobody_drafts_for_is_of_no_part_and_teaches_nothing() -> None:
    """As where a draft is not worth its time (aded.drafters.sized), right after the prompt too."""
    skipping, asked = (hybrid(Fixed([1, 2], [0, 1], [0.6, 0.5])) for _ in range(2))
    alone = Step(DraftTree.root(8), [0], 3)
    skipping.observe(alone)  # the prompt
    skipping.observe(alone)
    for mine in (skipping, asked):
        decided(mine, [1, 4])
    skipping.observe(alone)
    assert [(use.drafted, use.accepted) for use in skipping.part_uses([1, 2, 1]).values()] == [(2, 1)]
    assert np.array_equal(skipping.draft(PROMPT).given_parent, asked.draft(PROMPT).given_parent)


def test_all_parts_observe_every_step_before_the_first_draft_too() -> None:
    parts = Fixed([1], [0]), Fixed([2], [0])
    mine = hybrid(*parts)
    prefill = Step(DraftTree.root(8), [0], 1)
    mine.observe(prefill)
    decided(mine, [2, 3])
    assert [len(part.steps) for part in parts] == [2, 2]
    assert parts[0].steps[0] is prefill


class Asks(Fixed):
    requires = frozenset({"hidden"})
    adaptation = "session"


def test_a_hybrid_asks_for_what_its_parts_ask_for_and_learns_as_long_as_the_longest() -> None:
    mine = hybrid(Fixed([1], [0]), Asks([2], [0]), adaptation="prompt")
    mine.setup(SimpleNamespace(provides=frozenset({"hidden"})))
    assert (mine.requires, mine.adaptation) == ({"hidden"}, "session")
    assert hybrid(Fixed([1], [0]), adaptation="prompt").adaptation == "prompt"
    assert hybrid(Fixed([1], [0])).adaptation == "session"


def test_a_part_that_needs_what_the_target_lacks_is_named() -> None:
    mine = hybrid(Fixed([1], [0]), Asks([2], [0]))
    with pytest.raises(BadInput, match=r"^method.parts: part 1 needs hidden, which this target does not provide$"):
        mine.setup(SimpleNamespace(provides=frozenset({"logits"})))


class Beside(Fixed):
    """Drafts token 5 below each node that others draft."""

    def draft_with_candidates(
        self, context: np.ndarray, others: DraftTree, mixing: np.ndarray
    ) -> tuple[DraftTree, np.ndarray]:
        count = others.drafted
        assert others.probabilities is not None
        tree = DraftTree(
            np.append(others.tokens, [5] * count),
            np.append(others.parents, np.arange(1, count + 1)),
            np.append(others.probabilities, others.probabilities[1:] / 2),
        )
        return tree, 0.5 * (np.arange(len(tree)) > count)


def test_a_part_that_weighs_others_drafts_below_their_nodes_whatever_its_place() -> None:
    for parts in (
        [Beside([4], [0]), Fixed([1, 2], [0, 0], [0.5, 0.3])],
        [Fixed([1, 2], [0, 0], [0.5, 0.3]), Beside([4], [0])],
    ):
        mine = hybrid(*parts)
        tree = decided(mine, [1, 5, 9])
        assert sorted(tree.tokens[1:].tolist()) == [1, 2, 5, 5]
        uses = mine.part_uses([3])
        assert [use.accepted for use in uses.values()] == [1, 1], "what it took over is not its own"
    alone = hybrid(Beside([4], [0])).draft(PROMPT)
    assert alone.tokens[1:].tolist() == [4], "without others it drafts alone"
