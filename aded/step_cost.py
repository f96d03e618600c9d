"""What a step over n nodes costs on this machine, and how large a tree it is worth.

With chances p_i that the walk reaches node i, a step over the n likeliest nodes yields 1 + sum p_i tokens in t(n)
seconds; the best n is where tokens per second peak (the hardware-aware budget of Sequoia, arXiv 2402.12374, section
3.3, a step at a time).
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter

import numpy as np

from aded.choice import Greedy
from aded.target import Target
from aded.tree import DraftTree

CONTEXT = 256
ROUNDS = 5
SIZES = (1, 2, 3, 4, 5, 6, 8, 9, 12, 13, 16, 17, 24, 32, 33, 48, 64, 65, 96, 128, 192, 256)


@dataclass(frozen=True)
class StepCost:
    """seconds: float64 [most rows], seconds[n - 1] for a tree of n nodes, the root included; never falling."""

    seconds: np.ndarray

    def best_size(self, chances: np.ndarray) -> int:
        """Nodes to verify of a tree whose nodes have these chances, float64 [n], likeliest first, the root's 1."""
        rate = np.cumsum(chances) / self.seconds[: len(chances)]
        return int(np.argmax(rate)) + 1


def measure(target: Target, budget: int) -> StepCost:
    """Time trees of several sizes in turn, the median of a few rounds each; sizes between lie on a line.

    A cost that falls with n is noise, and is levelled. Leaves nothing behind but a used cache.
    """
    most = min(budget + 1, target.context_length // 2)
    sizes = sorted({size for size in SIZES if size < most} | {most})
    prompt = np.arange(min(CONTEXT, target.context_length - most), dtype=np.int64) % 8
    times = np.empty((ROUNDS + 1, len(sizes)))
    for times_of_round in times:
        target.prefill(prompt, Greedy(), sum(sizes) + most, ())
        for i, size in enumerate(sizes):
            chain = DraftTree(np.arange(size) % 8, np.arange(size) - 1)
            began = perf_counter()
            target.verify(chain)
            times_of_round[i] = perf_counter() - began
    medians = np.maximum.accumulate(np.median(times[1:], 0))  # the first round warms up
    return StepCost(np.interp(np.arange(1, budget + 2), sizes, medians))
