"""Everything read and written so far: where its last tokens occurred before, and how often each token occurred.

A match may have any length. The hash of the last MIN_MATCH tokens leads to the latest position where they occurred,
and each position to the one before it with the same hash. The longest match among the latest few is the one to copy
from. The history is a ring: the newest tokens overwrite the oldest. Unigram counts are of the prompt and its answer,
and of the session.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from aded.compiled import inner, new_record
from aded.drafters.backoff.contexts import extend_hash

MIN_MATCH = 5
"""Tokens of the shortest match. The context tables handle shorter contexts."""
MAX_MATCH = 63
"""Tokens of a match that are compared."""
MAX_COMPARED = 16
"""Positions that are compared with the history's end."""


class History(NamedTuple):
    """A ring of N tokens, N a power of 2; position p lies at index p mod N. 0 stands for no position.

    tokens: int32 [N]
    latest: int64 [N], per hash of MIN_MATCH tokens, the position after their latest occurrence
    previous: int64 [N], per position, the one before it with the same hash
    length: int64 [1], tokens so far, the overwritten ones included
    """

    tokens: np.ndarray
    latest: np.ndarray
    previous: np.ndarray
    length: np.ndarray


def empty_history(tokens: int) -> History:
    """A history of `tokens` tokens, rounded up to a power of 2."""
    size = 1 << (max(2 * MAX_MATCH, tokens) - 1).bit_length()
    return History(
        np.zeros(size, np.int32), np.zeros(size, np.int64), np.zeros(size, np.int64), np.zeros(1, np.int64)
    )


def clear_history(history: History) -> None:
    """Forget all tokens."""
    history.latest[:] = 0
    history.length[0] = 0


@inner
def _hash_slot(history: History) -> np.int64:
    """The index in `latest` of the last MIN_MATCH tokens."""
    mask = len(history.tokens) - 1
    hashed = np.uint64(0)
    for i in range(1, MIN_MATCH + 1):
        hashed = extend_hash(hashed, history.tokens[(history.length[0] - i) & mask])
    return np.int64(hashed & np.uint64(mask))


@inner
def append(history: History, token: int) -> None:
    """Add a token to the end."""
    mask = len(history.tokens) - 1
    history.tokens[history.length[0] & mask] = token
    history.length[0] += 1
    if history.length[0] >= MIN_MATCH:
        slot = _hash_slot(history)
        history.previous[history.length[0] & mask] = history.latest[slot]
        history.latest[slot] = history.length[0]


@inner
def longest_match(history: History, match: np.ndarray) -> None:
    """Write the longest earlier match of the history's last tokens to `match`, int64 [2].

    match[0]: the position after the match, whose token is the one to copy; -1 without a match
    match[1]: the match's length in tokens
    """
    match[0], match[1] = -1, 0
    end, mask = history.length[0], len(history.tokens) - 1
    if end <= MIN_MATCH:
        return
    position = history.previous[end & mask]
    for _ in range(MAX_COMPARED):
        # Leave out positions that the ring has overwritten or soon overwrites.
        if position <= 0 or position <= end - len(history.tokens) + MAX_MATCH:
            return
        length = 0
        while (
            length < MAX_MATCH
            and length < position
            and history.tokens[(position - 1 - length) & mask] == history.tokens[(end - 1 - length) & mask]
        ):
            length += 1
        if length >= MIN_MATCH and length > match[1]:
            match[0], match[1] = position, length
        position = history.previous[position & mask]


@inner
def token_at(history: History, position: int) -> int:
    """The token at a position that the ring has not overwritten."""
    return history.tokens[position & (len(history.tokens) - 1)]


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
