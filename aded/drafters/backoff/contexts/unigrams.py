"""Unigram counts: how often each token occurred in the prompt and its answer, and in the session."""

from __future__ import annotations

import numpy as np

from aded.compiled import inner, new_record

SIZE = 1 << 18
"""Tokens that agree in their last 18 bits are counted as one."""
FREQUENT = 32
"""Most tokens whose order is kept."""

Unigrams = np.record
"""A record of UNIGRAM_COUNTS."""
UNIGRAM_COUNTS = np.dtype(
    [("prompt", np.float32, SIZE), ("session", np.float32, SIZE), ("frequent", np.int64, FREQUENT)]
)
"""
prompt, session: counts in the prompt and its answer, and since all was forgotten, by `counter_of`
frequent: the tokens with the highest counts of `session`, highest first; -1: there is none
"""


def empty_unigrams() -> Unigrams:
    unigrams: Unigrams = new_record(UNIGRAM_COUNTS)
    unigrams.frequent[:] = -1
    return unigrams


def clear_unigrams(unigrams: Unigrams) -> None:
    unigrams.prompt[:], unigrams.session[:], unigrams.frequent[:] = 0, 0, -1


@inner
def counter_of(token: int) -> int:
    """Where a token is counted: by its last 18 bits."""
    return token & (SIZE - 1)


@inner
def count_token(unigrams: Unigrams, token: int) -> None:
    """Count one more, and move the token to its rank among the most frequent ones."""
    session, frequent = unigrams.session, unigrams.frequent
    unigrams.prompt[counter_of(token)] += 1
    session[counter_of(token)] += 1
    count, at = session[counter_of(token)], 0
    while at < FREQUENT - 1 and frequent[at] != token:
        at += 1
    if frequent[at] not in (token, -1) and session[counter_of(frequent[at])] >= count:
        return
    while at > 0 and (frequent[at - 1] == -1 or session[counter_of(frequent[at - 1])] <= count):
        frequent[at] = frequent[at - 1]
        at -= 1
    frequent[at] = token
