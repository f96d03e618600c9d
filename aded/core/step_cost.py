"""What a step over n nodes costs on this machine, and how large a tree is worth its cost.

Let p_i be the probability that the walk reaches node i. A step over the n most probable nodes yields 1 + sum p_i
tokens in t(n) seconds (the hardware-aware budget of Sequoia, arXiv 2402.12374, section 3.3, chosen anew at each
step). We maximise total tokens per second over the run, not per step. That is reached when every step takes the n at
which

    1 + sum p_i - rate * t(n)

is largest, where `rate` is the tokens per second of the run (Dinkelbach 1967): a second spent on one step is worth
what other steps make of it. The rate is learned from the steps themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from time import perf_counter
from weakref import WeakKeyDictionary

import numpy as np

from aded.core.sampler import Greedy
from aded.core.target import Target
from aded.core.tree import DraftTree

CONTEXT = 256
"""Tokens of context at which steps are timed."""
ROUNDS, SMALL = 12, 17
"""How often trees of up to SMALL nodes are timed."""
SIZES = (1, 2, 3, 4, 5, 6, 7, 9, 10, 12, 13, 16, 17, 24, 32, 33, 48, 64, 65, 96, 128, 192, 256)
"""Nodes of the timed trees: those behind which a kernel needs a further pass over the weights, and some between."""


@dataclass(frozen=True)
class StepCost:
    """seconds: float64 [largest tree]; seconds[n - 1] is the time of a tree of n nodes, the root included. It never
    falls with n."""

    seconds: np.ndarray

    @classmethod
    def interpolate(cls, sizes: Sequence[int], seconds: np.ndarray, budget: int) -> StepCost:
        """Costs of trees of 1 to budget + 1 nodes, from measurements at `sizes`, increasing, by straight lines.

        A cost that falls with n is noise, and is levelled.
        """
        return cls(np.interp(np.arange(1, budget + 2), sizes, np.maximum.accumulate(seconds)))

    def best_size(self, probabilities: np.ndarray, rate: float) -> int:
        """How many nodes of a tree to verify.

        probabilities: of the nodes, float64 [n], most probable first; the root's is 1.
        rate: tokens per second that the time yields elsewhere.
        """
        return int(np.argmax(np.cumsum(probabilities) - rate * self.seconds[: len(probabilities)])) + 1

    @cached_property
    def seconds_per_draft(self) -> np.ndarray:
        """float64 [largest tree]: the least cost of one more node in a tree of n nodes, averaged up to some larger
        size; infinite for the largest tree."""
        found, most = np.full(len(self.seconds), np.inf), len(self.seconds)
        for n in range(1, most):
            found[n - 1] = np.min((self.seconds[n:] - self.seconds[n - 1]) / np.arange(1, most - n + 1))
        return found


class TreeSizer:
    """Sizes the trees of a run: StepCost at the rate of the steps so far. The latest thousand or so count most.

    draft_seconds: what a draft takes. Where its nodes are not worth that, steps go without, and a draft is tried now
        and then.
    """

    DECAY = 0.999
    """The weight of earlier steps in the rate shrinks by this factor at each step."""
    GAIN_DECAY = 0.9
    """The same for earlier drafts in what a draft gains."""
    FIRST_GAIN = 2.0
    """The gain that is assumed before the first draft, in multiples of what a draft takes."""
    LONGEST_WAIT = 64
    """Steps without a draft, after which one is tried at the latest."""
    MARGIN = 1.1
    """A node must be worth so many times what it costs: probabilities and times are estimates, and of the nodes that
    seem just worth it most are not. Replayed with exact times, tokens per second change by -0.4 to +0.3 %, with up
    to a fifth fewer nodes; where a node takes longer than was measured, as in large batches, fewer are a guard."""
    LEEWAY = 0.5
    """Drafters go on to nodes that are, by their own word, half as probable as pays: they may be too timid, and what
    is learned of their nodes tells. With 16 requests at once it could not be learned without."""

    def __init__(self, cost: StepCost) -> None:
        self.cost, self.draft_seconds = cost, 0.0
        self.restart()

    def restart(self) -> None:
        """Begin with the rate of autoregressive decoding."""
        self._tokens, self._seconds = 1.0, float(self.cost.seconds[0])
        self._gain: float | None = None
        self._wait = self._waited = 0

    @property
    def rate(self) -> float:
        """Tokens per second; at least the rate without drafts, which is always available."""
        return max(self._tokens / self._seconds, 1.0 / float(self.cost.seconds[0]))

    @property
    def least_probabilities(self) -> np.ndarray:
        """float64 [largest tree]: at n nodes, stop if every remaining candidate is less probable than
        least_probabilities[n - 1]."""
        return self.LEEWAY * self.rate * self.cost.seconds_per_draft

    def is_worth_drafting(self) -> bool:
        """Is a draft worth its time, by what the latest ones gained? If not, is it time to try again?"""
        if self._gain is None or self._gain >= self._price:
            self._wait = 0
        elif self._waited < self._wait:
            self._waited += 1
            return False
        else:
            self._wait, self._waited = min(2 * self._wait + 1, self.LONGEST_WAIT), 0
        return True

    @property
    def _price(self) -> float:
        """Tokens that the time of a draft would yield."""
        return self.rate * self.draft_seconds

    def choose_size(self, probabilities: np.ndarray) -> int:
        """How many nodes of a draft with these probabilities to verify; see StepCost.best_size."""
        n = self.cost.best_size(probabilities, self.MARGIN * self.rate)
        seconds = self.cost.seconds
        gain = float(probabilities[1:n].sum()) - self.rate * float(seconds[n - 1] - seconds[0])
        before = self.FIRST_GAIN * self._price if self._gain is None else self._gain
        self._gain = self.GAIN_DECAY * before + (1 - self.GAIN_DECAY) * gain
        return n

    def learn(self, nodes: int, tokens: float, drafted: bool = True) -> None:
        """A step over `nodes` nodes yielded `tokens` tokens. drafted: was a draft made for it?"""
        seconds = float(self.cost.seconds[nodes - 1]) + drafted * self.draft_seconds
        self._tokens = self.DECAY * self._tokens + tokens
        self._seconds = self.DECAY * self._seconds + seconds


LEAST_MEASURED = 127
"""Drafted nodes: steps are timed up to so many at least, so that methods with other budgets need not wait again."""
_measured: WeakKeyDictionary[Target, StepCost] = WeakKeyDictionary()


def measure(target: Target, budget: int) -> StepCost:
    """The costs on this target, timed once in a process: a second drafter need not wait for them."""
    known = _measured.get(target)
    if known is None or len(known.seconds) <= budget:
        known = _measured[target] = _timed(target, max(budget, LEAST_MEASURED))
    return StepCost(known.seconds[: budget + 1])


def unlikely_chain(nodes: int) -> DraftTree:
    """Of which hardly a node is accepted, so that contexts hardly grow."""
    return DraftTree(np.arange(nodes) % 8, np.arange(nodes) - 1)


def _timed(target: Target, budget: int) -> StepCost:
    """Time trees of several sizes in turn, in rounds; large trees in every fourth round. Only the cache is touched.

    What counts is how sizes compare, and machines have slow seconds. So each time is taken as a share of its round's
    total, and the median share is the size's.
    """
    most = min(budget + 1, target.context_length // 2)
    sizes = sorted({size for size in SIZES if size < most} | {most})
    prompt = np.arange(min(CONTEXT, target.context_length - most), dtype=np.int64) % 8
    small = [size for size in sizes if size <= SMALL]
    room = sum(sizes) + 3 * sum(small) + most
    is_short = len(prompt) + room > target.context_length
    times = np.full((ROUNDS + 1, len(sizes)), np.nan)
    for number, times_of_round in enumerate(times):
        large_too = number > 0 and number % 4 == 0
        if number % 4 == 0 and not is_short:
            target.prefill(prompt, Greedy(), room, ())
        for i, size in enumerate(sizes):
            if size > SMALL and not large_too:
                break
            if is_short:  # each step adds a token at least
                target.prefill(prompt, Greedy(), most, ())
            chain = unlikely_chain(size)
            began = perf_counter()
            target.verify(chain)
            times_of_round[i] = perf_counter() - began
    times = times[1:]  # the first round is warm-up
    rounds = times[:, : len(small)].sum(1, keepdims=True)
    return StepCost.interpolate(sizes, np.nanmedian(times / rounds, 0) * np.median(rounds), budget)
