"""How often each token was said: in the prompt and its answer, and in all that was read."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from aded.compiled import INLINED

SIZE = 1 << 16
"""Tokens that agree in their last 16 bits are counted as one."""
FREQUENT = 32


class SaidTokens(NamedTuple):
    """here, ever: float32 [SIZE], counts in the prompt and its answer, and since all was forgotten, by `place`
    frequent: int64 [FREQUENT], the tokens with the highest counts of `ever`, highest first; -1: there is none
    """

    here: np.ndarray
    ever: np.ndarray
    frequent: np.ndarray


def nothing_said() -> SaidTokens:
    return SaidTokens(np.zeros(SIZE, np.float32), np.zeros(SIZE, np.float32), np.full(FREQUENT, -1))


def forget_all(said: SaidTokens) -> None:
    said.here[:], said.ever[:], said.frequent[:] = 0, 0, -1


@njit(cache=True, inline="always")
def place(token: int) -> int:
    return token & (SIZE - 1)


@njit(**INLINED)
def say(said: SaidTokens, token: int) -> None:
    """Count a token."""
    ever, frequent = said.ever, said.frequent
    said.here[place(token)] += 1
    ever[place(token)] += 1
    count, at = ever[place(token)], 0
    while at < FREQUENT - 1 and frequent[at] != token:
        at += 1
    if frequent[at] not in (token, -1) and ever[place(frequent[at])] >= count:
        return
    while at > 0 and (frequent[at - 1] == -1 or ever[place(frequent[at - 1])] <= count):
        frequent[at] = frequent[at - 1]
        at -= 1
    frequent[at] = token
