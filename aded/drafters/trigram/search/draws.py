"""Random draws inside compiled searches: seeded, and the same on every platform."""

from __future__ import annotations

import numpy as np

from aded.compiled import inner


@inner
def uniform(stream: np.ndarray) -> float:
    """A number in [0, 1), by xorshift64*. stream: uint64 [1], the generator's state, never 0."""
    x = stream[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    stream[0] = x
    return ((x * np.uint64(2685821657736338717)) >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@inner
def pick(weights: np.ndarray, n: int, stream: np.ndarray) -> int:
    """Draw one of the first n weights with probability in proportion to it; return its index."""
    mass = 0.0
    for i in range(n):
        mass += weights[i]
    left, drawn = uniform(stream) * mass, 0
    while drawn < n - 1 and left >= weights[drawn]:
        left -= weights[drawn]
        drawn += 1
    return drawn
