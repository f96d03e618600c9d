"""A hybrid: the trees of several drafters merged into one under one budget, chosen by calibrated probability.

Each part drafts a tree of its own. Its probability of each node is calibrated by what the target decided
(aded.drafters.acceptance). Equal paths are one node. Where several parts drafted at the same place, their
probabilities are mixed (aded.drafters.mixing), part by part; both are learned online, by the same code for each part.
The most probable nodes are verified.

A part whose search can weigh other drafters' nodes beside its own comes last, and does so: it drafts below them too.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from aded.core.drafter import Drafter, Step, drafted_tree
from aded.core.tree import DraftTree, most_probable, walked
from aded.drafters.acceptance import AcceptanceTable
from aded.drafters.hybrid.merge import MergedTree
from aded.drafters.hybrid.parts import DrafterOfParts, Part
from aded.drafters.mixing import learn_mixing, mixed_where, new_mixing
from aded.settings import Budget, LearningScope


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
