"""t(batch, nodes): a step that verifies the trees of several requests together, on contexts of different lengths."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter

import numpy as np

from aded.core.sampler import Greedy
from aded.core.step_cost import unlikely_chain
from aded.targets.batch import EagerBatchTarget
from aded.targets.eager import EagerTarget

SPREAD = (0.5, 1.0, 1.5, 1.0)
"""Contexts of the requests, in turn, relative to each other."""


def measure_batches(
    target: EagerTarget, batches: Sequence[int], context: int, nodes: Sequence[int], rounds: int
) -> dict[int, dict[int, list[float]]]:
    """batch -> nodes of each request's tree -> seconds of each round. Batches and sizes take turns.

    context: tokens in the KV cache of each request, on average.
    """
    room = (rounds + 1) * len(nodes) * 2 + max(nodes)
    together = {batch: _filled(target, contexts_of(batch, context), room) for batch in batches}
    times: dict[int, dict[int, list[float]]] = {batch: {size: [] for size in nodes} for batch in batches}
    for number in range(rounds + 1):  # the first round warms up
        for batch, filled in together.items():
            for size in nodes:
                trees = dict.fromkeys(range(batch), unlikely_chain(size))
                began = perf_counter()
                filled.verify(trees)
                if number:
                    times[batch][size].append(perf_counter() - began)
    return times


def contexts_of(batch: int, mean: int) -> list[int]:
    """Tokens in the KV cache of each request, different and with this mean."""
    relative = np.array([SPREAD[number % len(SPREAD)] for number in range(batch)])
    return [max(1, int(length)) for length in mean * relative / relative.mean()]


def _filled(target: EagerTarget, contexts: Sequence[int], room: int) -> EagerBatchTarget:
    """A target whose every slot has read a prompt. room: tokens that are verified after it."""
    filled = EagerBatchTarget(target, len(contexts), max(contexts) + room)
    random = np.random.default_rng(len(contexts))
    for slot, length in enumerate(contexts):
        filled.prefill(slot, random.integers(8, size=length), Greedy())
    return filled
