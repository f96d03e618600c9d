"""A hybrid: the trees of several drafters merged into one under one budget, chosen by calibrated probability.

Each part drafts a tree of its own. Its probability of each node is calibrated by what the target decided
(aded.drafters.acceptance). Equal paths are one node. Where several parts drafted at the same place, their
probabilities are mixed (aded.drafters.mixing), part by part; both are learned online, by the same code for each part.
The most probable nodes are verified. All parts observe every step, whoever drafted its nodes.

A part whose search can weigh other drafters' nodes beside its own comes last, and does so: it drafts below them too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np

from aded.core.drafter import Drafter, PartUse, Step, Teacher
from aded.core.target import Target
from aded.core.tree import DraftTree, most_probable
from aded.drafters.acceptance import AcceptanceTable
from aded.drafters.hybrid.merge import MergedTree
from aded.drafters.mixing import learn_mixing, mixed_where, new_mixing
from aded.errors import BadInput
from aded.settings import Budget, LearningScope


class HybridPart:
    """A drafter in a hybrid, the calibration of its probabilities, and what it did in the answer."""

    def __init__(self, drafter: Drafter) -> None:
        self.drafter, self.calibration, self.mixing = drafter, AcceptanceTable(), new_mixing()
        self.start()

    def start(self) -> None:
        """Before an answer."""
        self.use = PartUse(0, 0, 0, 0.0)
        self.tree: DraftTree | None = None

    def forget(self) -> None:
        self.calibration, self.mixing = AcceptanceTable(), new_mixing()

    @property
    def weighs_others(self) -> bool:
        return type(self.drafter).draft_with_candidates is not Drafter.draft_with_candidates

    @contextmanager
    def timed(self) -> Iterator[Drafter]:
        """A block in which the drafter works."""
        began = perf_counter()
        yield self.drafter
        self.use.seconds += perf_counter() - began

    def draft(self, context: np.ndarray, merged: MergedTree) -> np.ndarray:
        """Draft into the merged tree. Returns which of its nodes the part drafted, int64."""
        weighed = None
        with self.timed() as drafter:
            if self.weighs_others and len(merged) > 1:
                weighed = drafter.draft_with_candidates(context, merged.tree(), self.mixing.weights)
            self.tree = drafter.draft(context) if weighed is None else weighed[0]
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

    def observe(self, step: Step, reachable: np.ndarray, chosen: np.ndarray) -> None:
        """reachable, chosen: bool [n], of the merged tree: could the target choose the node, and did it?"""
        if self.tree is not None:
            self.calibration.learn(self.tree, self.cells, np.array(step.new_tokens, np.int64))
            known = np.flatnonzero(self.both & reachable[: len(self.both)])
            learn_mixing(self.mixing, self.own[known], self.others[known], chosen[known])
        with self.timed() as drafter:
            drafter.observe(step)


class Hybrid(Drafter):
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
        if not parts:
            raise BadInput("method.parts", "must name a method")
        made = {name: HybridPart(drafter) for name, drafter in parts.items()}
        # Who weighs what others draft comes after them.
        self.parts = dict(sorted(made.items(), key=lambda item: item[1].weighs_others))
        self.budget, self.scope = budget, adaptation
        self.adaptation = (
            "session" if "session" in {adaptation, *(one.adaptation for one in parts.values())} else adaptation
        )
        self.requires = self._required()
        learned = [drafter.learned_from for drafter in parts.values()]
        self.learned_from = None if None in learned else frozenset[Teacher]().union(*filter(None, learned))
        self._tree: DraftTree | None = None
        self._accepted_by: list[np.ndarray] = []

    def _required(self) -> frozenset[str]:
        return frozenset[str]().union(*(part.drafter.requires for part in self.parts.values()))

    def check_tokenizer(self, tokenizer: Any) -> None:
        for part in self.parts.values():
            part.drafter.check_tokenizer(tokenizer)

    def setup(self, target: Target) -> None:
        for name, part in self.parts.items():
            part.drafter.setup(target)
            if missing := part.drafter.requires - target.provides:
                raise BadInput(
                    "method.parts", f"{name} needs {', '.join(sorted(missing))}, which this target does not provide"
                )
        self.requires = self._required()  # by what the target provides

    def begin(self, prompt_ids: np.ndarray, seed: int = 0) -> None:
        self._tree, self._accepted_by = None, []
        for part in self.parts.values():
            part.start()
            if self.scope == "prompt":
                part.forget()
            with part.timed() as drafter:
                drafter.begin(prompt_ids, seed)

    def draft(self, context: np.ndarray) -> DraftTree:
        merged = MergedTree(int(context[-1]))
        drafted = [part.draft(context, merged) for part in self.parts.values()]
        reached = merged.reach()
        chosen = most_probable(reached, self.budget)
        self._tree, self._merged = merged.subtree(chosen, reached), merged
        by = np.zeros((len(drafted), len(merged)), bool)
        for row, nodes in zip(by, drafted, strict=True):
            row[nodes] = True
        self._drafted_by = by[:, chosen]
        return self._tree

    def observe(self, step: Step) -> None:
        reachable = chosen = np.zeros(0, bool)
        if self._tree is not None:
            self._account(self._tree, step)
            reachable, chosen = self._merged.walked(np.array(step.new_tokens, np.int64))
        for part in self.parts.values():
            part.observe(step, reachable, chosen)

    def _account(self, drafted: DraftTree, step: Step) -> None:
        """Note who drafted the nodes that were verified, and those that were accepted, bool [parts, accepted]."""
        path = step.tree.tokens[step.path]
        accepted = drafted.find(DraftTree(path, np.arange(-1, len(path) - 1)))[1:]
        by = self._drafted_by
        for part, mine in zip(self.parts.values(), by, strict=True):
            part.use.drafted += int(mine[1:].sum())
        self._accepted_by.append(by[:, accepted])

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
        self._tree, self._accepted_by = None, []
        for part in self.parts.values():
            part.start()
            part.forget()
            part.drafter.reset()

    def describe(self) -> dict[str, str]:
        facts: dict[str, str] = {}
        for part in self.parts.values():
            for key, fact in part.drafter.describe().items():
                facts[key] = fact if facts.get(key, fact) == fact else f"{facts[key]}, {fact}"
        return facts
