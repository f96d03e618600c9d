"""Trees sized by cost: any drafter's tree, cut to the nodes that are worth their time on this machine.

How probable the nodes are, the drafter says, or what was accepted of its earlier drafts; what they cost, the setting
`cost` of a method. A draft that is not worth its own time is not made: the step is then one of autoregressive
decoding, and later steps try again. A draft whose tokens were drawn at random is always made, and stays whole, since
what was drawn may not be left out for what it is. What the target decides is never asked for before it is decided,
so answers stay those of autoregressive decoding.
"""

from __future__ import annotations

from os.path import expanduser
from pathlib import Path
from time import perf_counter

import numpy as np

from aded.core.drafter import Drafter, WrappedDrafter
from aded.core.step_cost import StepCost, TreeSizer, measure
from aded.core.target import Target
from aded.core.tree import DraftTree, most_probable, reach
from aded.drafters.acceptance import AcceptanceTable
from aded.errors import BadInput
from aded.files.cost_table import read_cost_table

NONE, MEASURED = "none", "measured"
DRAFTS_TIMED = 8
"""The median of so many drafts is what a draft takes. A drafter's first one, which compiles or reads from disk, is
none of them."""


def check_cost(cost: str, key: str) -> str:
    """Raises BadInput naming `key` unless it is measured, none, or a file."""
    if cost not in (MEASURED, NONE) and not Path(expanduser(cost)).is_file():
        raise BadInput(key, f"{cost!r} must be measured, none or the file of a cost table")
    return cost


class SizedDrafter(WrappedDrafter):
    """Cuts the trees of `drafter`.

    cost: measured (by step times measured on this machine; where no model decodes, trees stay whole) or a file of
        scripts.bench.verify (by the step times in it)
    """

    def __init__(self, drafter: Drafter, cost: str) -> None:
        super().__init__(drafter)
        self.cost = cost
        self.tree_sizer: TreeSizer | None = None
        self._timed, self._has_drafted, self._draft_times = False, False, list[float]()
        self._has_drafts = False
        """Did a draft have a node?"""
        self._forget()

    def _forget(self) -> None:
        self._acceptance = AcceptanceTable()
        self._begin()
        if self.tree_sizer is not None:
            self.tree_sizer.restart()

    def _begin(self) -> None:
        """No step of this answer has been drafted for."""
        self._nodes, self._length = 0, 0
        self._latest_draft: DraftTree | None = None

    @property
    def remembers_answers(self) -> bool:
        return self.tree_sizer is not None or self.drafter.remembers_answers

    @property
    def why_no_draft(self) -> str | None:
        cut = self._has_drafts and self.tree_sizer is not None
        return "no drafted node was worth its time (method.cost=none keeps all)" if cut else super().why_no_draft

    def setup(self, target: Target) -> None:
        timed = "seconds" in target.provides
        cost: StepCost | None = None
        if self.cost != MEASURED:
            cost = read_cost_table(self.cost, target.describe()["engine"], self.budget)
        elif timed:
            cost = measure(target, self.budget)
        self._timed, self._has_drafted, self._draft_times = timed, False, []
        self.size_trees_by(None if cost is None else TreeSizer(cost))
        super().setup(target)

    def size_trees_by(self, sizer: TreeSizer | None) -> None:
        """Cut trees by these costs; None: leave them whole."""
        self.tree_sizer = self.drafter.tree_sizer = sizer

    def learn_with(self, other: SizedDrafter) -> None:
        """Cut trees by the costs of `other`, and by what the drafts of both take and what is accepted of them."""
        self.size_trees_by(other.tree_sizer)
        self._draft_times = other._draft_times
        self._acceptance = other._acceptance.fork()

    def begin(self, prompt_ids: np.ndarray, seed: int = 0) -> None:
        self._begin()
        super().begin(prompt_ids, seed)

    def draft(self, context: np.ndarray) -> DraftTree:
        sizer = self.tree_sizer
        if sizer is None:
            return super().draft(context)
        self._learn(sizer, context[self._length :])
        tree = self._cut(sizer, context) if sizer.is_worth_drafting() else DraftTree.root(int(context[-1]))
        self._nodes, self._length = len(tree), len(context)
        return tree

    def _cut(self, sizer: TreeSizer, context: np.ndarray) -> DraftTree:
        """The part of the drafter's tree that is worth most."""
        began = perf_counter()
        tree = super().draft(context)
        if self._timed and self._has_drafted and len(self._draft_times) < DRAFTS_TIMED:
            self._draft_times.append(perf_counter() - began)
            sizer.draft_seconds = float(np.median(self._draft_times))
        self._has_drafted, self._has_drafts = True, self._has_drafts or len(tree) > 1
        if tree.drawn is not None:
            return tree
        self._latest_draft, self._cells = tree, self._acceptance.cells_of(tree)
        reached = reach(tree.parents, self._acceptance.given_parent(tree, self._cells))
        best = most_probable(reached, self.budget)
        return tree.part(best[: sizer.choose_size(reached[best])], reached)

    def _learn(self, sizer: TreeSizer, decided: np.ndarray) -> None:
        """Learn from the step before. decided: int64 [m], the tokens that it yielded.

        Only what rows hold is learned from: so a run that goes on, or decodes an answer again, has the same trees.
        """
        if self._nodes > 0:
            sizer.learn(self._nodes, len(decided), self._latest_draft is not None)
        if self._latest_draft is not None:
            self._acceptance.learn(self._latest_draft, self._cells, decided)
            self._latest_draft = None

    def reset(self) -> None:
        self._forget()
        if self._draft_times:
            self._timed = False  # the answers that follow are to have the same trees whenever they are decoded
        super().reset()
