"""What the scorer learns from: at each token of an answer, all candidates' features, and which token it was."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numba import njit

from aded.core.drafter import Drafter, Step
from aded.core.target import Target
from aded.core.tree import DraftTree
from aded.drafters.backoff.candidates import EXPERTS, MOST_FEATURES, NEAREST
from aded.drafters.backoff.drafter import BackoffDrafter
from aded.drafters.backoff.learning import NumbaState, read
from aded.drafters.backoff.retrieval import retrieve_for_answer
from aded.drafters.backoff.tree_search import ROOT, move_root, predict

PROBABILITIES, SHARES = (1.0, 0.06, 0.01), (0.65, 0.2, 0.15)
"""Of the nodes that tokens are taken as, and how many are taken as each: at the less probable ones the look-up model
proposes nothing, at the least probable ones it is not asked."""


class Examples(NamedTuple):
    """Room for p examples, with k features in all. The fields are as in Candidates.

    candidates: int16 [p], how many there are
    decided: int16 [p], the candidate that the target chose; candidates[i]: another token
    seen: bool [p, EXPERTS]
    evidence: float32 [p, EXPERTS, 2]
    feature_starts: int64 [p + 1], where the features of each example begin
    feature_candidates, feature_experts: int16 [k]
    feature_values: float32 [k, 2]
    """

    candidates: np.ndarray
    decided: np.ndarray
    seen: np.ndarray
    evidence: np.ndarray
    feature_starts: np.ndarray
    feature_candidates: np.ndarray
    feature_experts: np.ndarray
    feature_values: np.ndarray


def room(examples: int, features: int) -> Examples:
    return Examples(
        np.zeros(examples, np.int16),
        np.zeros(examples, np.int16),
        np.zeros((examples, EXPERTS), np.bool_),
        np.zeros((examples, EXPERTS, 2), np.float32),
        np.zeros(examples + 1, np.int64),
        np.zeros(features, np.int16),
        np.zeros(features, np.int16),
        np.zeros((features, 2), np.float32),
    )


@njit(cache=True)
def _collect(
    state: NumbaState, context: np.ndarray, first: int, keep: float, taken_as: np.ndarray, into: Examples, p: int
) -> int:
    """Read context[first:]; write the predictions before the tokens that are taken as example p and so on.

    taken_as: float64 [len(context) - first], the probability of the node that a token is taken as, 0: it is not taken
    Return how many examples there are then.
    """
    experts, scorer, scratch = state.parts
    candidates = scratch.candidates
    for i in range(first, len(context)):
        if taken_as[i - first] > 0:
            scratch.nodes[ROOT].probability = taken_as[i - first]
            n = predict(experts, scorer, scratch, ROOT)
            m, start = candidates.sizes[1], into.feature_starts[p]
            into.candidates[p], into.decided[p] = n, n
            for k in range(n):
                if candidates.tokens[k] == context[i]:
                    into.decided[p] = k
            for expert in range(EXPERTS):
                into.seen[p, expert] = candidates.seen[expert]
                if candidates.seen[expert]:
                    into.evidence[p, expert] = candidates.evidence[expert]
            into.feature_candidates[start : start + m] = candidates.feature_candidates[:m]
            into.feature_experts[start : start + m] = candidates.feature_experts[:m]
            into.feature_values[start : start + m] = candidates.feature_values[:m]
            p += 1
            into.feature_starts[p] = start + m
        read(experts, context[: i + 1], i, keep)
        move_root(experts, scratch, context[i])
    return p


class FeatureCollector(Drafter):
    """Reads answers with a drafter, drafts nothing, and keeps examples of a share of the tokens."""

    def __init__(self, drafter: BackoffDrafter, share: float, seed: int) -> None:
        self.drafter, self.adaptation = drafter, drafter.adaptation
        self._share, self._random = share, np.random.default_rng(seed)
        self._examples, self._count = room(1024, 1024 * MOST_FEATURES), 0
        self._late: Step | None = None

    @property
    def examples(self) -> Examples:
        """All that were kept."""
        p, kept = self._count, self._examples
        m = kept.feature_starts[p]
        ends = (p, p, p, p, p + 1, m, m, m)
        return Examples(*(array[:end] for array, end in zip(kept, ends, strict=True)))

    def setup(self, target: Target) -> None:
        self.drafter.setup(target)

    def begin(self, prompt_ids: np.ndarray, seed: int = 0) -> None:
        self.drafter.begin(prompt_ids, seed)
        self._late = None

    def draft(self, context: np.ndarray) -> DraftTree:
        drafter = self.drafter
        first = len(drafter.context)
        read = len(context) - first
        taken_as = self._random.choice(PROBABILITIES, read, p=SHARES) * (self._random.random(read) < self._share)
        self._make_room(read)
        self._count = _collect(drafter.state, context, first, drafter.keep, taken_as, self._examples, self._count)
        if drafter.retrieval_file is not None:
            retrieve_for_answer(drafter.nearest, context, first, drafter.experts.options.longest[NEAREST])
        # The target's distribution names the token that was just read: only now may the drafter know it.
        if self._late is not None:
            drafter.observe(self._late)
            drafter.learn_observed(context)
        drafter.context = context
        return DraftTree(context[-1:], np.array([-1]), np.ones(1))

    def observe(self, step: Step) -> None:
        self._late = step

    def reset(self) -> None:
        self.drafter.reset()
        self._count = 0

    def _make_room(self, more: int) -> None:
        p, kept = self._count + more, self._examples
        features = len(kept.feature_values)
        if p > len(kept.decided) or kept.feature_starts[self._count] + more * MOST_FEATURES > features:
            grown = room(2 * len(kept.decided) + more, 2 * features + more * MOST_FEATURES)
            for old, new in zip(kept, grown, strict=True):
                new[: len(old)] = old
            self._examples = grown


class FeatureCollectors(Drafter):
    """Several collectors read the same answers."""

    adaptation = "session"

    def __init__(self, collectors: Sequence[FeatureCollector]) -> None:
        self.collectors = collectors

    def setup(self, target: Target) -> None:
        for collector in self.collectors:
            collector.setup(target)

    def begin(self, prompt_ids: np.ndarray, seed: int = 0) -> None:
        for collector in self.collectors:
            collector.begin(prompt_ids, seed)

    def draft(self, context: np.ndarray) -> DraftTree:
        trees = [collector.draft(context) for collector in self.collectors]
        return trees[0]

    def observe(self, step: Step) -> None:
        for collector in self.collectors:
            collector.observe(step)

    def reset(self) -> None:
        for collector in self.collectors:
            collector.reset()

    def __deepcopy__(self, memo: object) -> FeatureCollectors:
        """A replay works with a copy of a drafter; what these collect is wanted, so it works with them."""
        return self


def joined(groups: Sequence[Examples]) -> Examples:
    """All examples in one."""
    starts = np.cumsum([0, *(examples.feature_starts[-1] for examples in groups)])
    feature_starts = [examples.feature_starts[:-1] + start for examples, start in zip(groups, starts, strict=False)]
    arrays = Examples(*(np.concatenate(arrays) for arrays in zip(*groups, strict=True)))
    return arrays._replace(feature_starts=np.concatenate([*feature_starts, starts[-1:]]))
