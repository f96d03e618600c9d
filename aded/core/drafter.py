"""The contract of a drafter: begin, draft, observe, end (and reset, which forgets everything).

A drafter reads tokens and proposes a draft tree; it never asks the model. A drafter that needs logits or hidden
states names those fields of `Step` in `requires`, and gets them in `observe`; what none asks for costs nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from aded.core.sampler import Sampled
from aded.core.step_cost import TreeSizer
from aded.core.target import Step, Target
from aded.core.tree import DraftTree
from aded.errors import BadInput
from aded.settings import STRICT, NonNegative

Teacher = Literal[
    "a corpus", "a smaller model", "other models' answers", "the target's answers", "the target's weights"
]
"""What a method may have learned from before its first prompt. A session is not among them: it is a setting."""
BINS = 20
Histogram = dict[str, list[Any]]
"""nodes: int [BINS]; probabilities: float [BINS], their sum; accepted: int [BINS]."""


@dataclass
class PartUse:
    """What one part of a drafter did for an answer. Counts are of nodes of the verified trees, without the root.

    A row holds it as it is (aded.records.rows).
    """

    __pydantic_config__ = STRICT
    drafted: NonNegative
    """Nodes that it drafted, alone or with others."""
    accepted: NonNegative
    """How many of them were accepted."""
    accepted_alone: NonNegative
    """How many of these no other part drafted."""
    seconds: Annotated[float, Field(ge=0)]
    """Its time in begin, draft and observe."""


class Drafter(ABC):
    """Base class of all methods. Deterministic for a given seed; where it knows nothing, it drafts nothing."""

    requires: frozenset[str] = frozenset()
    """The fields of `Step` that `observe` needs: any of "logits", "hidden", "layers", "prompt_hidden" and
    "prompt_layers". Which layers these are, `setup` tells the target by `read_layers`."""
    learned_from: frozenset[Teacher] | None = None
    """What it, or a file that it reads, was made from; empty: nothing; None: it does not say."""
    adaptation: str = "prompt"
    """How long learned state is kept: off, prompt, or session, where one answer changes the drafts of the next."""
    budget: int = 64
    """Most drafted nodes of a tree; 0: it never drafts."""
    tree_sizer: TreeSizer | None = None
    """Where trees are cut to what pays here: what nodes cost, set before `setup`. By it a drafter may stop a
    search early, or say probabilities only where they are asked for."""

    @property
    def why_no_draft(self) -> str | None:
        """Why it drafted nothing, where it knows: shown beside a run without a drafted node."""
        return None

    @property
    def remembers_answers(self) -> bool:
        """Does an answer change the trees of the next?"""
        return self.adaptation == "session"

    def check_tokenizer(self, tokenizer: Any) -> None:  # noqa: B027 - optional hook
        """Called before `setup` where the target's tokenizer is known: raise BadInput if drafts are of another."""

    def setup(self, target: Target) -> None:  # noqa: B027 - optional hook
        """Called before the first prompt, and again, after `reset`, when the target becomes another. What `target`
        provides may decide `requires`."""

    def draw_by(self, sampler: Sampled | None) -> None:  # noqa: B027 - optional hook
        """Called before each `begin`. Where verification is by rejection, a drafter that has a distribution draws its
        tokens from it, filtered as the sampler filters (DraftTree.drawn); None: it drafts what is most probable."""

    def end_at(self, eos_token_ids: Collection[int]) -> None:  # noqa: B027 - optional hook
        """Called before each `begin`: tokens that end the answer. The loop cuts off what is drafted below them; who
        knows them spends its budget elsewhere."""

    def begin(self, prompt_ids: np.ndarray, seed: int = 0) -> None:  # noqa: B027 - optional hook
        """A new prompt starts, int64 [m]. State of scope `prompt` is dropped here."""

    @abstractmethod
    def draft(self, context: np.ndarray) -> DraftTree:
        """Propose a tree below `context[-1]`, the root. context: prompt and output so far, int64 [m]."""

    def draft_with_candidates(
        self, context: np.ndarray, others: DraftTree, mixing: np.ndarray
    ) -> tuple[DraftTree, np.ndarray] | None:
        """As `draft`, with the candidates of others: may weigh their nodes beside its own, and draft below them.

        others: their nodes with probabilities; mixing: float64 [3, 3], the weights of its own probability and theirs
            (aded.drafters.mixing).
        Returns the tree and, float64 [n], its own probability of each node given the parent, 0 where only others
        draft it. None, by default: it drafts alone.
        """
        return None

    def observe(self, step: Step) -> None:  # noqa: B027 - optional hook
        """Learn from what the target decided.

        `step.tree` need not be the tree that was drafted: nodes too deep for the answer's limit are cut off, a run
        that goes on replays accepted paths alone, and in a hybrid it also has nodes of other drafters and lacks
        some of one's own, in another order. So look nodes up by their tokens (DraftTree.find), not by index.
        """

    def node_parts(self, tree: DraftTree) -> Sequence[str] | None:
        """Which part drafted each node of `tree`, the last one verified: names with commas between, the root's "".

        None: the drafter does not say. Asked after `observe`, outside every clock, only where trees are recorded.
        """
        return None

    def end(self) -> None:  # noqa: B027 - optional hook
        """The answer is complete."""

    def part_uses(self, accept_lengths: Sequence[int]) -> dict[str, PartUse] | None:
        """What each part did for the latest answer, by name; None for a drafter that has no parts.

        accept_lengths: tokens of each step, the bonus token included. The last step has fewer than it decided where
            the answer ended inside it; nodes accepted past that end are not counted.
        """
        return None

    def reset(self) -> None:  # noqa: B027 - optional hook
        """Forget everything that was learned, of every scope: the state of a new object."""

    def describe(self) -> dict[str, str]:
        """Facts for the run's record: fields of aded.records.environment.Environment, as `datastore`."""
        return {}


def set_up(drafter: Drafter, target: Target, key: str, name: str) -> None:
    """Make a method ready for a target. Raises BadInput naming `key` where it needs what the target lacks."""
    drafter.setup(target)
    if missing := drafter.requires - target.provides:
        raise BadInput(key, f"{name} needs {', '.join(sorted(missing))}, which this target does not provide")


def drafted_tree(drafter: Drafter, context: np.ndarray) -> DraftTree:
    """What it drafts. Raises BadInput where that is no tree, as of a class of the user's own."""
    tree: object = drafter.draft(context)
    if not isinstance(tree, DraftTree):
        found = "None" if tree is None else type(tree).__name__
        raise BadInput(
            "drafter",
            f"{type(drafter).__name__}.draft returned {found}; return a DraftTree, as "
            "DraftTree.chain(context[-1], tokens)",
        )
    return tree


class WrappedDrafter(Drafter):
    """`drafter`, as it is: the base of those that cut its trees, share it, or check it."""

    def __init__(self, drafter: Drafter) -> None:
        self.drafter = drafter
        self.requires, self.adaptation, self.budget = drafter.requires, drafter.adaptation, drafter.budget
        self.learned_from = drafter.learned_from

    @property
    def why_no_draft(self) -> str | None:
        return self.drafter.why_no_draft

    @property
    def remembers_answers(self) -> bool:
        return self.drafter.remembers_answers

    def check_tokenizer(self, tokenizer: Any) -> None:
        self.drafter.check_tokenizer(tokenizer)

    def setup(self, target: Target) -> None:
        self.drafter.setup(target)
        self.requires = self.drafter.requires

    def draw_by(self, sampler: Sampled | None) -> None:
        self.drafter.draw_by(sampler)

    def end_at(self, eos_token_ids: Collection[int]) -> None:
        self.drafter.end_at(eos_token_ids)

    def begin(self, prompt_ids: np.ndarray, seed: int = 0) -> None:
        self.drafter.begin(prompt_ids, seed)

    def draft(self, context: np.ndarray) -> DraftTree:
        return drafted_tree(self.drafter, context)

    def draft_with_candidates(
        self, context: np.ndarray, others: DraftTree, mixing: np.ndarray
    ) -> tuple[DraftTree, np.ndarray] | None:
        return self.drafter.draft_with_candidates(context, others, mixing)

    def observe(self, step: Step) -> None:
        self.drafter.observe(step)

    def node_parts(self, tree: DraftTree) -> Sequence[str] | None:
        return self.drafter.node_parts(tree)

    def end(self) -> None:
        self.drafter.end()

    def part_uses(self, accept_lengths: Sequence[int]) -> dict[str, PartUse] | None:
        return self.drafter.part_uses(accept_lengths)

    def reset(self) -> None:
        self.drafter.reset()

    def describe(self) -> dict[str, str]:
        return self.drafter.describe()


def calibration_histogram(walks: Iterable[tuple[np.ndarray | None, Sequence[int]]]) -> Histogram | None:
    """How well a drafter is calibrated: of the nodes with probability p, a share p should be accepted.

    Over the drafted nodes of an answer's trees; None where the drafter has no probabilities. Kept as a histogram, so
    that a row stays small: BINS equal bins of the probability, and in each bin the nodes, the sum of their
    probabilities and how many were accepted (the data of a reliability diagram: Guo et al. 2017, arXiv 1706.04599).

    A walk is the probabilities of a tree's nodes, float [n], the root's first, and the tree's accepted path.
    """
    predicted, accepted = [], []
    for probabilities, path in walks:
        if probabilities is not None:
            on_path = np.zeros(len(probabilities), bool)
            on_path[path] = True
            predicted.append(probabilities[1:])
            accepted.append(on_path[1:])
    return _histogram(np.concatenate(predicted), np.concatenate(accepted)) if predicted else None


def _histogram(probabilities: np.ndarray, accepted: np.ndarray) -> Histogram:
    """probabilities: float [n]; accepted: bool [n]."""
    bins = np.clip((probabilities * BINS).astype(np.int64), 0, BINS - 1)
    return {
        "nodes": np.bincount(bins, minlength=BINS).tolist(),
        "probabilities": np.bincount(bins, probabilities, BINS).round(4).tolist(),
        "accepted": np.bincount(bins, accepted, BINS).astype(int).tolist(),
    }


def total_calibration(histograms: Iterable[Mapping[str, Sequence[float]] | None]) -> np.ndarray | None:
    """float64 [3, BINS]: nodes, probabilities and accepted, summed over rows; None where no row has any."""
    found = [[one[key] for key in ("nodes", "probabilities", "accepted")] for one in histograms if one is not None]
    return np.array(found, float).sum(axis=0) if found else None
