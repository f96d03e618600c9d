"""A drafter that has others as its parts: what they ask for, and who drafted what.

All parts observe every step, whoever drafted its nodes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from time import perf_counter
from typing import Any, Generic, TypeVar

import numpy as np

from aded.core.drafter import Drafter, PartUse, Step, Teacher, set_up
from aded.core.target import Target
from aded.core.tree import DraftTree
from aded.errors import BadInput


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
