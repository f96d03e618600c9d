"""Several drafters as one: their trees merged under one budget, or the tree of the first that finds something.

Each part of a hybrid drafts a tree of its own. Its probability of each node is calibrated by what the target decided
(aded.drafters.acceptance). Equal paths are one node. Where several parts drafted at the same place, their
probabilities are mixed (aded.drafters.mixing), part by part; both are learned online, by the same code for each part.
The most probable nodes are verified. A part whose search can weigh other drafters' nodes beside its own comes last,
and does so: it drafts below them too.

Layered parts have a fixed order. So engines combine drafters by rule, n-grams before heads or a model: llama.cpp,
docs/speculative.md and common_speculative_draft in common/speculative.cpp (MIT), where a draft below `--draft-min`
tokens counts as none.

All parts observe every step, whoever drafted its nodes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from time import perf_counter
from typing import Any, Generic, TypeVar

import numpy as np
from numba import njit

from aded.core.drafter import Drafter, PartUse, Step, Teacher, drafted_tree, set_up
from aded.core.sampler import Sampled
from aded.core.target import Target
from aded.core.tree import DraftTree, most_probable, reach, renumbered_parents, walked
from aded.drafters.acceptance import AcceptanceTable
from aded.drafters.mixing import learn_mixing, mixed_where, new_mixing
from aded.errors import BadInput
from aded.settings import Budget, Count, LearningScope


class MergedTree:
    """All nodes of several trees with one root, which is node 0; parents precede their children.

    tokens, parents: int64 [n]
    given_parent: float64 [n], the probability of each node given that its parent is accepted
    """

    def __init__(self, root: int) -> None:
        self.tokens, self.parents = np.array([root], np.int64), np.array([-1], np.int64)
        self.given_parent = np.ones(1)
        self._latest, self._before = np.array([-1], np.int64), np.array([-1], np.int64)

    def __len__(self) -> int:
        return len(self.tokens)

    def add(self, tree: DraftTree) -> np.ndarray:
        """Add the nodes that are not yet here, with probability 0. Returns where each of the tree's is, int64."""
        room = np.full(tree.drafted, -1)
        links = (self.tokens, self.parents, self._latest, self._before)
        tokens, parents, latest, before = (np.concatenate([array, room]) for array in links)
        n, nodes = _add(tokens, parents, latest, before, len(self), tree.tokens, tree.parents)
        self.given_parent = np.concatenate([self.given_parent, np.zeros(n - len(self))])
        self.tokens, self.parents, self._latest, self._before = tokens[:n], parents[:n], latest[:n], before[:n]
        return nodes

    def siblings_of(self, drafted: np.ndarray) -> np.ndarray:
        """bool [n]: the nodes with a parent below which there is one of these nodes, bool [n]. Not the root."""
        above = np.zeros(len(self), bool)
        above[self.parents[1:][drafted[1:]]] = True
        siblings = above[self.parents]
        siblings[0] = False
        return siblings

    def reach(self) -> np.ndarray:
        """float64 [n]: the probability that the walk reaches each node."""
        return reach(self.parents, self.given_parent)

    def tree(self) -> DraftTree:
        """All nodes."""
        return DraftTree(self.tokens, self.parents, self.reach())

    def subtree(self, chosen: np.ndarray, reached: np.ndarray) -> DraftTree:
        """The tree of some nodes, int64 [m], in their order: parents before children. reached: of all nodes."""
        return DraftTree(self.tokens[chosen], renumbered_parents(self.parents, chosen), reached[chosen])


@njit(cache=True)
def _add(
    tokens: np.ndarray,
    parents: np.ndarray,
    latest: np.ndarray,
    before: np.ndarray,
    n: int,
    new: np.ndarray,
    new_parents: np.ndarray,
) -> tuple[int, np.ndarray]:
    """Add a tree's nodes that are not yet among the n: (how many there are now, where each one is, int64).

    latest: int64, of each node the child that was added last, or -1
    before: int64, of each node the sibling that was added before it, or -1
    """
    nodes = np.zeros(len(new), np.int64)
    for i in range(1, len(new)):
        parent = nodes[new_parents[i]]
        node = latest[parent]
        while node >= 0 and tokens[node] != new[i]:
            node = before[node]
        if node < 0:
            node = n
            tokens[n], parents[n], latest[n], before[n] = new[i], parent, -1, latest[parent]
            latest[parent] = n
            n += 1
        nodes[i] = node
    return n, nodes


class Part:
    """A drafter that is part of another, and what it did in the answer."""

    def __init__(self, drafter: Drafter) -> None:
        self.drafter = drafter
        self.start()

    def start(self) -> None:
        """Before an answer."""
        self.use = PartUse(0, 0, 0, 0.0)

    @contextmanager
    def timed(self) -> Iterator[Drafter]:
        """A block in which the drafter works."""
        began = perf_counter()
        yield self.drafter
        self.use.seconds += perf_counter() - began


AnyPart = TypeVar("AnyPart", bound=Part)


class DrafterOfParts(Drafter, Generic[AnyPart]):
    """A subclass says in `draft` what it makes of the parts' trees, and calls `note_draft` with it.

    parts: by their names
    budget: most drafted nodes per step
    adaptation: how long it learns itself
    """

    def __init__(self, parts: Mapping[str, AnyPart], budget: int, adaptation: str) -> None:
        if not parts:
            raise BadInput("method.parts", "must name a method")
        self.parts, self.budget = dict(parts), budget
        drafters = [part.drafter for part in self.parts.values()]
        self.adaptation = (
            "session" if "session" in {adaptation, *(one.adaptation for one in drafters)} else adaptation
        )
        self.requires = self._required()
        learned = [drafter.learned_from for drafter in drafters]
        self.learned_from = None if None in learned else frozenset[Teacher]().union(*filter(None, learned))
        self._forget_answer()

    def _forget_answer(self) -> None:
        self._tree: DraftTree | None = None
        """The latest draft."""
        self._awaits_step = self._prefilled = False
        self._accepted_by: list[np.ndarray] = []

    def _required(self) -> frozenset[str]:
        return frozenset[str]().union(*(part.drafter.requires for part in self.parts.values()))

    def check_tokenizer(self, tokenizer: Any) -> None:
        for part in self.parts.values():
            part.drafter.check_tokenizer(tokenizer)

    def setup(self, target: Target) -> None:
        for name, part in self.parts.items():
            set_up(part.drafter, target, "method.parts", name)
        self.requires = self._required()  # by what the target provides

    def end_at(self, eos_token_ids: Collection[int]) -> None:
        for part in self.parts.values():
            part.drafter.end_at(eos_token_ids)

    def begin(self, prompt_ids: np.ndarray, seed: int = 0) -> None:
        self._forget_answer()
        for part in self.parts.values():
            part.start()
            with part.timed() as drafter:
                drafter.begin(prompt_ids, seed)

    def note_draft(self, tree: DraftTree, by: np.ndarray) -> DraftTree:
        """Note who drafted each node of the tree, bool [parts, n]. Returns the tree."""
        self._tree, self._drafted_by, self._awaits_step = tree, by, True
        return tree

    def observe(self, step: Step) -> None:
        if self._awaits_step and self._tree is not None:
            self._accepted_by.append(self._account(self._tree, step))
        elif self._prefilled:  # nothing was asked for
            self._accepted_by.append(np.zeros((len(self.parts), 0), bool))
        self._awaits_step, self._prefilled = False, True
        for part in self.parts.values():
            with part.timed() as drafter:
                drafter.observe(step)

    def _account(self, tree: DraftTree, step: Step) -> np.ndarray:
        """Count who drafted the nodes that were verified; bool [parts, accepted], who drafted those on the path."""
        by = np.pad(self._drafted_by, ((0, 0), (0, 1)))  # nobody here drafted node -1, which is another's
        verified = by[:, tree.find(step.tree)]
        for part, mine in zip(self.parts.values(), verified, strict=True):
            part.use.drafted += int(mine[1:].sum())
        return verified[:, step.path[1:]]

    def node_parts(self, tree: DraftTree) -> list[str] | None:
        """The parts of the latest draft, which `tree` is, or its upper levels."""
        if self._tree is None:
            return None
        by = self._drafted_by[:, self._tree.find(tree)]
        names = [", ".join(name for name, mine in zip(self.parts, column, strict=True) if mine) for column in by.T]
        return ["", *names[1:]]

    def end(self) -> None:
        for part in self.parts.values():
            part.drafter.end()

    def part_uses(self, accept_lengths: Sequence[int]) -> dict[str, PartUse]:
        steps = zip(self._accepted_by, accept_lengths, strict=True)
        none = np.zeros((len(self.parts), 0), bool)
        by = np.concatenate([none, *(accepted[:, : length - 1] for accepted, length in steps)], axis=1)
        alone = by & (by.sum(0) == 1)
        return {
            name: replace(part.use, accepted=int(mine.sum()), accepted_alone=int(only.sum()))
            for (name, part), mine, only in zip(self.parts.items(), by, alone, strict=True)
        }

    def reset(self) -> None:
        self._forget_answer()
        for part in self.parts.values():
            part.start()
            part.drafter.reset()

    def describe(self) -> dict[str, str]:
        facts: dict[str, str] = {}
        for part in self.parts.values():
            for key, fact in part.drafter.describe().items():
                facts[key] = fact if facts.get(key, fact) == fact else f"{facts[key]}, {fact}"
        return facts


class HybridPart(Part):
    """A part with the calibration of its probabilities."""

    def __init__(self, drafter: Drafter) -> None:
        super().__init__(drafter)
        self.forget()

    def start(self) -> None:
        super().start()
        self.tree: DraftTree | None = None

    def forget(self) -> None:
        self.calibration, self.mixing = AcceptanceTable(), new_mixing()

    @property
    def weighs_others(self) -> bool:
        return type(self.drafter).draft_with_candidates is not Drafter.draft_with_candidates

    def draft(self, context: np.ndarray, merged: MergedTree) -> np.ndarray:
        """Draft into the merged tree. Returns which of its nodes the part drafted, int64."""
        weighed = None
        with self.timed() as drafter:
            if self.weighs_others and len(merged) > 1:
                weighed = drafter.draft_with_candidates(context, merged.tree(), self.mixing.weights)
            self.tree = drafted_tree(drafter, context) if weighed is None else weighed[0]
        self.cells = self.calibration.cells_of(self.tree)
        calibrated = self.calibration.given_parent(self.tree, self.cells)
        nodes = merged.add(self.tree)
        self.others, self.own = merged.given_parent.copy(), np.zeros(len(merged))
        self.own[nodes] = calibrated if weighed is None else weighed[1]
        self.both = merged.siblings_of(self.own > 0.0) & merged.siblings_of(self.others > 0.0)
        merged.given_parent = mixed_where(self.both, self.mixing.weights, self.own, self.others)
        if weighed is not None:  # the search has mixed them
            merged.given_parent[nodes] = calibrated
        return np.flatnonzero(self.own)

    def learn(self, decided: np.ndarray, reachable: np.ndarray, chosen: np.ndarray) -> None:
        """decided: int64 [m], the tokens of the step
        reachable, chosen: bool [n], of the merged tree: could the target choose the node, and did it?
        """
        assert self.tree is not None
        self.calibration.learn(self.tree, self.cells, decided)
        known = np.flatnonzero(self.both & reachable[: len(self.both)])
        learn_mixing(self.mixing, self.own[known], self.others[known], chosen[known])


class Hybrid(DrafterOfParts[HybridPart]):
    """Drafts the most probable nodes of its parts' trees.

    parts: drafters, by their names
    budget: most drafted nodes per step; each part has a budget of its own
    adaptation: how long the calibration is kept: prompt (cleared at each prompt) or session (kept across questions).
        How long a part learns is the part's setting
    """

    def __init__(
        self,
        parts: Mapping[str, Drafter],
        *,
        budget: Budget = 64,
        adaptation: LearningScope = "session",
    ) -> None:
        made = {name: HybridPart(drafter) for name, drafter in parts.items()}
        # Who weighs what others draft comes after them.
        super().__init__(dict(sorted(made.items(), key=lambda item: item[1].weighs_others)), budget, adaptation)
        self.scope = adaptation

    def begin(self, prompt_ids: np.ndarray, seed: int = 0) -> None:
        if self.scope == "prompt":
            self._forget_calibration()
        super().begin(prompt_ids, seed)

    def _forget_calibration(self) -> None:
        for part in self.parts.values():
            part.forget()

    def draft(self, context: np.ndarray) -> DraftTree:
        self._merged = merged = MergedTree(int(context[-1]))
        drafted = [part.draft(context, merged) for part in self.parts.values()]
        reached = merged.reach()
        kept = most_probable(reached, self.budget)
        by = np.zeros((len(drafted), len(merged)), bool)
        for row, nodes in zip(by, drafted, strict=True):
            row[nodes] = True
        return self.note_draft(merged.subtree(kept, reached), by[:, kept])

    def observe(self, step: Step) -> None:
        if self._awaits_step:
            decided = np.array(step.new_tokens, np.int64)
            reachable, chosen = walked(self._merged.tokens, self._merged.parents, decided)
            for part in self.parts.values():
                part.learn(decided, reachable, chosen)
        super().observe(step)

    def reset(self) -> None:
        super().reset()
        self._forget_calibration()


class Layered(DrafterOfParts[Part]):
    """Drafts the tree of one part, the first whose tree is large enough.

    parts: drafters, by their names, in this order
    budget: most drafted nodes per step: the first ones of a larger tree. Each part has a budget of its own
    least: nodes that a tree must have to be drafted; of the last part, and where tokens are drawn, one is enough
    adaptation: for aded.config.methods, which makes the parts: with prompt, none learns across questions, unless
        its own settings say so
    """

    def __init__(
        self,
        parts: Mapping[str, Drafter],
        *,
        budget: Budget = 64,
        least: Count = 1,
        adaptation: LearningScope = "session",
    ) -> None:
        super().__init__({name: Part(drafter) for name, drafter in parts.items()}, budget, "prompt")
        self.least = least

    def draw_by(self, sampler: Sampled | None) -> None:
        for part in self.parts.values():
            part.drafter.draw_by(sampler)

    def draft(self, context: np.ndarray) -> DraftTree:
        for part in self.parts.values():
            with part.timed() as drafter:
                tree = drafted_tree(drafter, context)
            # What was drawn may not be left out for what it is, and how large its tree is depends on that.
            if tree.drafted >= (self.least if tree.drawn is None else 1):
                break
        if tree.drafted > self.budget:
            tree = tree.part(np.arange(self.budget + 1), tree.probabilities)
        by = [[one is part] * len(tree) for one in self.parts.values()]
        return self.note_draft(tree, np.array(by))
