"""How often each token was said: in the prompt and its answer, and in all that was read."""

from __future__ import annotations

import numpy as np

from aded.compiled import inner, new_record

SIZE = 1 << 16
"""Tokens that agree in their last 16 bits are counted as one."""
FREQUENT = 32


SaidTokens = np.record
"""A record of COUNTS."""
COUNTS = np.dtype([("here", np.float32, SIZE), ("ever", np.float32, SIZE), ("frequent", np.int64, FREQUENT)])
"""
here, ever: counts in the prompt and its answer, and since all was forgotten, by `place`
frequent: the tokens with the highest counts of `ever`, highest first; -1: there is none
"""


def nothing_said() -> SaidTokens:
    said: SaidTokens = new_record(COUNTS)
    said.frequent[:] = -1
    return said


def forget_all(said: SaidTokens) -> None:
    said.here[:], said.ever[:], said.frequent[:] = 0, 0, -1


@inner
def place(token: int) -> int:
    return token & (SIZE - 1)


@inner
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
