"""What drafts by its parts: `Hybrid`, which merges their trees, and `Layered`, which takes one of them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from itertools import combinations
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny import paths_of, trees

from aded.core.drafter import Drafter, Step
from aded.core.sampler import Sampled
from aded.core.tree import DraftTree, most_probable
from aded.drafters.hybrid import Hybrid, Layered, MergedTree
from aded.errors import BadInput

PROMPT = np.array([7, 8])
Made = type[Hybrid] | type[Layered]


class Fixed(Drafter):
    """Drafts the same tree below each root: tokens, parents and their probabilities."""

    ends: Collection[int] = ()
    sampler: Sampled | None = None

    def __init__(self, tokens: list[int], parents: list[int], probabilities: list[float] | None = None) -> None:
        self.drafted, self.parents, self.probabilities = tokens, parents, probabilities
        self.steps: list[Step] = []

    def draft(self, context: np.ndarray) -> DraftTree:
        probabilities = None if self.probabilities is None else np.array([1.0, *self.probabilities])
        return DraftTree(np.array([context[-1], *self.drafted]), np.array([-1, *self.parents]), probabilities)

    def observe(self, step: Step) -> None:
        self.steps.append(step)

    def draw_by(self, sampler: Sampled | None) -> None:
        self.sampler = sampler

    def end_at(self, eos_token_ids: Collection[int]) -> None:
        self.ends = eos_token_ids


class Draws(Fixed):
    def draft(self, context: np.ndarray) -> DraftTree:
        return replace(super().draft(context), drawn={0: np.full(10, 0.1)})


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


def chain(*tokens: int) -> Fixed:
    return Fixed(list(tokens), list(range(len(tokens))))


def made(kind: Made, *parts: Drafter, **settings: Any) -> Any:
    one = kind({f"part {number}": part for number, part in enumerate(parts)}, **settings)
    one.begin(PROMPT)
    return one


def decided(drafter: Drafter, tokens: list[int]) -> DraftTree:
    """One step in which the target decides these tokens. Returns what was drafted."""
    tree, path = drafter.draft(PROMPT), [0]
    for token in tokens[:-1]:
        child = tree.child(path[-1], token)
        assert child is not None
        path.append(child)
    drafter.observe(Step(tree, path, tokens[-1]))
    return tree


def drafted_by(drafter: Drafter) -> list[int]:
    return drafter.draft(PROMPT).tokens[1:].tolist()


@given(st.lists(trees(vocabulary=4), min_size=1, max_size=4))
def test_a_merged_tree_has_every_path_once_and_says_where_it_is(parts: list[DraftTree]) -> None:
    merged = MergedTree(int(parts[0].tokens[0]))
    nodes = [merged.add(part) for part in parts]
    whole = [(), *paths_of(merged.tree())]  # which checks that parents precede children and siblings differ
    assert sorted(whole) == sorted({path for part in parts for path in [(), *paths_of(part)]})
    for part, mine in zip(parts, nodes, strict=True):
        assert [whole[node] for node in mine] == [(), *paths_of(part)]


@given(trees(most=8), st.data())
def test_no_subtree_of_as_many_nodes_is_more_probable(tree: DraftTree, data: st.DataObject) -> None:
    merged = MergedTree(int(tree.tokens[0]))
    merged.add(tree)
    given_parent = st.floats(0, 1).map(lambda one: round(one, 2))
    merged.given_parent[1:] = data.draw(st.lists(given_parent, min_size=tree.drafted, max_size=tree.drafted))
    budget, reached = data.draw(st.integers(0, len(tree))), merged.reach()
    chosen = most_probable(reached, budget)
    subtree = merged.subtree(chosen, reached)
    assert subtree.drafted == min(budget, tree.drafted)
    assert subtree.probabilities is not None

    def is_tree(nodes: tuple[int, ...]) -> bool:
        return all(merged.parents[node] in (0, *nodes) for node in nodes)

    best = max(
        reached[list(nodes)].sum() for nodes in combinations(range(1, len(tree)), subtree.drafted) if is_tree(nodes)
    )
    np.testing.assert_allclose(subtree.probabilities[1:].sum(), best, atol=1e-12)
    assert subtree.given_parent[0] == 1


def test_equal_nodes_are_one_and_more_probable_than_those_of_one_part() -> None:
    tree = made(Hybrid, Fixed([1, 2], [0, 1], [0.4, 0.3]), Fixed([1, 3], [0, 0], [0.4, 0.4])).draft(PROMPT)
    assert sorted(tree.tokens[1:].tolist()) == [1, 2, 3]
    node, other = tree.child(0, 1), tree.child(0, 3)
    assert tree.probabilities[node] > 0.4 > tree.probabilities[other], "the first part's silence counts"
    below = tree.child(node, 2)
    assert tree.given_parent[below] == pytest.approx(0.75, abs=0.05), "there the other part drafted nothing"


def test_a_part_that_is_right_gains_room_and_one_that_is_wrong_loses_it() -> None:
    boastful, modest = Fixed([1], [0], [0.9]), Fixed([2], [0], [0.1])
    mine = made(Hybrid, boastful, modest, budget=1)
    assert decided(mine, [2]).tokens[1:].tolist() == [1]
    for _ in range(200):
        decided(mine, [2])
    assert drafted_by(mine) == [2]


def test_the_record_and_each_node_say_who_drafted_and_what_was_accepted() -> None:
    mine = made(Hybrid, Fixed([1, 2], [0, 1], [0.5, 0.4]), Fixed([1, 3], [0, 0], [0.5, 0.2]), Fixed([], []))
    assert mine.node_parts(DraftTree.root(8)) is None, "nothing is drafted yet"
    tree, wanted = decided(mine, [1, 2, 9]), {8: "", 1: "part 0, part 1", 2: "part 0", 3: "part 1"}
    for one in (tree, tree.up_to_depth(1)):
        assert mine.node_parts(one) == [wanted[token] for token in one.tokens.tolist()]
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
        mine = made(Hybrid, Fixed([1, 2], [0, 1], [0.5, 0.4]), Fixed([1], [0], [0.5]))
        decided(mine, [1, 9])
        decided(mine, [1, 2, 9])
        uses = mine.part_uses([2, length]).values()
        assert [(use.drafted, use.accepted) for use in uses] == [(4, 1 + length - 1), (2, 1 + min(1, length - 1))]
    # A resumed run replays accepted paths alone: nodes of the verified tree are found by their tokens.
    mine = made(Hybrid, Fixed([4, 1, 2], [0, 0, 2], [0.6, 0.5, 0.4]))
    mine.draft(PROMPT)
    mine.observe(Step(DraftTree.chain(8, [1, 2]), [0, 1, 2], 9))
    assert [(use.drafted, use.accepted) for use in mine.part_uses([3]).values()] == [(2, 2)]
    # A step that nobody drafts for, as where a draft is not worth its time, is of no part and teaches nothing.
    skipping, asked = (made(Hybrid, Fixed([1, 2], [0, 1], [0.6, 0.5])) for _ in range(2))
    alone = Step(DraftTree.root(8), [0], 3)
    skipping.observe(alone)  # the prompt
    skipping.observe(alone)
    for mine in (skipping, asked):
        decided(mine, [1, 4])
    skipping.observe(alone)
    assert [(use.drafted, use.accepted) for use in skipping.part_uses([1, 2, 1]).values()] == [(2, 1)]
    assert np.array_equal(skipping.draft(PROMPT).given_parent, asked.draft(PROMPT).given_parent)


def test_a_part_that_weighs_others_drafts_below_their_nodes_whatever_its_place() -> None:
    weighs, other = Beside([4], [0]), Fixed([1, 2], [0, 0], [0.5, 0.3])
    for parts in ((weighs, other), (other, weighs)):
        mine = made(Hybrid, *parts)
        tree = decided(mine, [1, 5, 9])
        assert sorted(tree.tokens[1:].tolist()) == [1, 2, 5, 5]
        uses = mine.part_uses([3])
        assert [use.accepted for use in uses.values()] == [1, 1], "what it took over is not its own"
    assert drafted_by(made(Hybrid, weighs)) == [4], "without others it drafts alone"


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
    parts = [chain(*tokens) for tokens in chains]
    assert drafted_by(made(Layered, *parts, least=least)) == wanted
    for budget in range(3):
        assert drafted_by(made(Layered, *parts, least=least, budget=budget)) == wanted[:budget]


@pytest.mark.parametrize("kind", [Hybrid, Layered])
def test_a_part_that_drafts_no_tree_is_named(kind: Made) -> None:
    part = chain(1)
    part.draft = lambda context: [1]  # type: ignore[assignment, method-assign, return-value]
    with pytest.raises(BadInput, match=r"Fixed.draft returned list"):
        made(kind, part).draft(PROMPT)


def test_what_was_drawn_is_never_left_out_for_its_size() -> None:
    """A token that is only kept where another follows it would be drafted less often than its probability says."""
    assert drafted_by(made(Layered, Draws([1], [0]), chain(3, 4), least=2)) == [1]
    # The record says which layer drafted.
    mine = made(Layered, chain(), chain(3, 4))
    tree = decided(mine, [3, 9])
    assert mine.node_parts(tree) == ["", "part 1", "part 1"]
    counts = [(use.drafted, use.accepted, use.accepted_alone) for use in mine.part_uses([2]).values()]
    assert counts == [(0, 0, 0), (2, 1, 1)]


@pytest.mark.parametrize("kind", [Hybrid, Layered])
def test_all_parts_are_told_of_every_step_before_the_first_draft_too_and_of_what_ends(kind: Made) -> None:
    parts = chain(1), chain(1)
    mine = made(kind, *parts)
    mine.end_at({7})
    prefill, sampler = Step(DraftTree.root(8), [0], 1), Sampled(1.0, 1.0, 0)
    mine.observe(prefill)
    decided(mine, [1, 3])
    mine.draw_by(sampler)
    for part in parts:
        assert part.ends == {7}
        assert len(part.steps) == 2
        assert part.steps[0] is prefill
        assert (part.sampler is sampler) == (kind is Layered), "whose trees stay as they are"
    # It asks for what its parts ask for, and names the one that cannot have it.
    asks = chain(2)
    asks.requires, asks.adaptation = frozenset({"hidden"}), "session"
    mine = made(kind, chain(1), asks, adaptation="prompt")
    mine.setup(SimpleNamespace(provides=frozenset({"hidden"})))
    assert (mine.requires, mine.adaptation) == ({"hidden"}, "session"), "as long as the part that learns longest"
    with pytest.raises(BadInput, match=r"^method.parts: part 1 needs hidden, which this target does not provide$"):
        mine.setup(SimpleNamespace(provides=frozenset({"logits"})))
    assert made(kind, chain(1), adaptation="prompt").adaptation == "prompt"
    assert made(Hybrid, chain(1)).adaptation == "session"
