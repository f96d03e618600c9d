"""What a step over n nodes costs on this machine, and how large a tree it is worth.

With probabilities p_i that the walk reaches node i, a step over the n most probable nodes yields 1 + sum p_i tokens in t(n)
seconds (the hardware-aware budget of Sequoia, arXiv 2402.12374, section 3.3, but a step at a time). What is to peak
is not each step's own rate but that of all, tokens over seconds. It does when every step takes the n at which

    1 + sum p_i - rate * t(n)

is largest, where `rate` is what the steps then reach (Dinkelbach 1967): a second spent on one step is worth what
another step would make of it. The rate is learned from the steps themselves.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from time import perf_counter

import numpy as np

from aded.core.sampler import Greedy
from aded.core.target import Target
from aded.core.tree import DraftTree
from aded.errors import BadInput

CONTEXT = 256
ROUNDS, SMALL = 12, 17
"""How often trees of up to SMALL nodes are timed."""
SIZES = (1, 2, 3, 4, 5, 6, 7, 9, 10, 12, 13, 16, 17, 24, 32, 33, 48, 64, 65, 96, 128, 192, 256)


@dataclass(frozen=True)
class StepCost:
    """seconds: float64 [most rows], seconds[n - 1] for a tree of n nodes, the root included; never falling."""

    seconds: np.ndarray

    def best_size(self, probabilities: np.ndarray, rate: float) -> int:
        """Nodes to verify of a tree whose nodes have these probabilities, float64 [n], most probable first, the root's 1; rate:
        tokens a second that the time could yield elsewhere."""
        return int(np.argmax(np.cumsum(probabilities) - rate * self.seconds[: len(probabilities)])) + 1

    @cached_property
    def seconds_a_draft(self) -> np.ndarray:
        """float64 [most rows]: the least that a further node adds to a tree of so many, on the average up to some
        larger size; infinite where there is none."""
        found, most = np.full(len(self.seconds), np.inf), len(self.seconds)
        for n in range(1, most):
            found[n - 1] = np.min((self.seconds[n:] - self.seconds[n - 1]) / np.arange(1, most - n + 1))
        return found


class TreeSize:
    """Sizes the trees of a run: StepCost at the rate of the steps so far, the latest hundred or so counting most."""

    KEPT = 0.99
    """How much of an earlier step's weight remains at each step."""

    def __init__(self, cost: StepCost) -> None:
        self.cost = cost
        self.restart()

    def restart(self) -> None:
        """Begin with the rate of autoregressive decoding."""
        self._tokens, self._seconds = 1.0, float(self.cost.seconds[0])

    @property
    def rate(self) -> float:
        """Tokens a second; never less than without drafts, which can be had at any time."""
        return max(self._tokens / self._seconds, 1.0 / float(self.cost.seconds[0]))

    @property
    def least_probabilities(self) -> np.ndarray:
        """float64 [most rows]: when no further draft is likelier than this, a tree of so many nodes is worth more
        than any larger one."""
        return self.rate * self.cost.seconds_a_draft

    def of(self, probabilities: np.ndarray) -> int:
        """Nodes to verify of a tree with these probabilities, see StepCost.best_size."""
        return self.cost.best_size(probabilities, self.rate)

    def learn(self, nodes: int, tokens: float) -> None:
        """A step over `nodes` nodes yielded `tokens` tokens."""
        self._tokens = self.KEPT * self._tokens + tokens
        self._seconds = self.KEPT * self._seconds + float(self.cost.seconds[nodes - 1])


def measure(target: Target, budget: int) -> StepCost:
    """Time trees of several sizes in turn, in rounds, large ones in every fourth; leaves nothing but a used cache.

    What counts is how sizes compare, and machines have slow seconds: each time is taken as a part of its round's, and
    the median of these is the size's.
    """
    most = min(budget + 1, target.context_length // 2)
    sizes = sorted({size for size in SIZES if size < most} | {most})
    prompt = np.arange(min(CONTEXT, target.context_length - most), dtype=np.int64) % 8
    small = [size for size in sizes if size <= SMALL]
    times = np.full((ROUNDS + 1, len(sizes)), np.nan)
    for number, times_of_round in enumerate(times):
        large_too = number % 4 == 0
        if large_too:
            target.prefill(prompt, Greedy(), sum(sizes) + 3 * sum(small) + most, ())
        for i, size in enumerate(sizes):
            if size > SMALL and not large_too:
                break
            chain = DraftTree(np.arange(size) % 8, np.arange(size) - 1)
            began = perf_counter()
            target.verify(chain)
            times_of_round[i] = perf_counter() - began
    times = times[1:]  # the first round warms up
    rounds = times[:, : len(small)].sum(1, keepdims=True)
    return _between(sizes, np.nanmedian(times / rounds, 0) * np.median(rounds), budget)


def read_table(path: str | Path, engine: object, budget: int, key: str = "method.cost") -> StepCost:
    """The table that scripts.bench_verify wrote, of the engine, at the context nearest to CONTEXT.

    Raises BadInput naming the key when the file is no such table or does not reach as far as the budget.
    """
    try:
        tables = json.loads(Path(path).expanduser().read_text())["engines"]
        contexts = {table["engine"]: table["ms_by_context"] for table in tables}
        known = {
            name: {int(context): {int(n): float(ms) for n, ms in row.items()} for context, row in table.items()}
            for name, table in contexts.items()
        }
    except OSError as error:
        raise BadInput(
            key, f"{path} cannot be read ({error.strerror}); it must be measured, none or a file"
        ) from None
    except (ValueError, TypeError, KeyError, AttributeError):
        raise BadInput(key, f"{path} is no cost table; write one with python -m scripts.bench_verify --out") from None
    if engine is None and known:  # a replay without a model: sized as the fastest engine would have it
        engine = list(known)[-1]
    if engine not in known:
        raise BadInput(key, f"{path} has no times of the engine {engine}, only of {', '.join(known)}")
    row = known[str(engine)][min(known[str(engine)], key=lambda context: abs(context - CONTEXT))]
    sizes = sorted(row)
    if not sizes or sizes[0] != 1 or sizes[-1] < budget + 1:
        raise BadInput(key, f"{path} must reach from 1 to {budget + 1} nodes, the largest tree of this budget")
    return _between(sizes, np.array([row[n] / 1e3 for n in sizes]), budget)


def _between(sizes: Sequence[int], seconds: np.ndarray, budget: int) -> StepCost:
    """Sizes between lie on a line. A cost that falls with n is noise, and is levelled."""
    return StepCost(np.interp(np.arange(1, budget + 2), sizes, np.maximum.accumulate(seconds)))
