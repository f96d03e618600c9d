"""Retrieval: the passages of a corpus that are most like the text so far, and what follows their contexts.

A corpus's sorted suffixes list all occurrences of an n-gram side by side, so they are the index of retrieval, and no
other is stored. A frequent n-gram says little and occurs often; so each place of a text is looked up with the
shortest n-gram that begins there and is rare.

A passage is PASSAGE tokens of the corpus. The text's rare n-grams rank the passages by BM25 (Robertson and Zaragoza,
2009; inverse document frequency as in Lucene). All passages have one length, so BM25's correction for it falls away:

    score(passage) = sum over rare n-grams g of the text   idf(g) * tf * (K1 + 1) / (tf + K1)
    idf(g) = log(1 + (P - df + 0.5) / (df + 0.5))

with tf the occurrences of g in the passage, df the number of passages with g, and P that of all passages. The
MOST_PASSAGES passages of the highest scores are read into a table of contexts, like the prompt. The ranking is made
after the prompt and again every REFRESH tokens of the answer; passages that are new among the highest are read a few
at each step.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from aded.compiled import UNCOUNTED, inner
from aded.drafters.backoff.contexts import (
    ContextTable,
    count_successor,
    empty_table,
    extend_hash,
    reset_table,
)
from aded.files.datastores.array_file import no_blocks
from aded.files.datastores.suffix_file import Suffixes, SuffixFile, are_tokens_whole, suffix_at, token_at

SPAN = 4
"""Tokens of the longest n-gram."""
RARE = 1000
"""Most occurrences of a rare n-gram."""


class Library(NamedTuple):
    """A corpus to look n-grams up in.

    firsts: int64 [vocabulary, 2], the suffixes that begin with each token, as the first one and the one after the
        last; -1: not looked up yet
    """

    corpus: Suffixes
    firsts: np.ndarray


def open_library(corpus: Suffixes, vocabulary: int) -> Library:
    return Library(corpus, np.full((vocabulary, 2), -1))


def no_library() -> Library:
    """A library without a corpus."""
    tokens, suffixes = np.empty(0, np.uint16), np.empty(0, np.int32)
    tokens.flags.writeable = suffixes.flags.writeable = False
    return open_library(Suffixes(tokens, suffixes, np.zeros(2, np.int64), no_blocks()), 0)


@inner
def _first_from(corpus: Suffixes, start: int, end: int, offset: int, token: int) -> int:
    """The first suffix from `start` on that has `token` or a larger one at `offset`; before it they agree."""
    while start < end:
        middle = (start + end) >> 1
        if token_at(corpus, suffix_at(corpus, middle) + offset) < token:
            start = middle + 1
        else:
            end = middle
    return start


@inner
def rare_ngram(library: Library, context: np.ndarray, at: int) -> tuple[int, int]:
    """The shortest rare n-gram that begins at context[at], int64 [m >= at + SPAN], as its suffixes: `start` to
    `end` - 1. No suffix: every one of up to SPAN tokens is frequent, or it does not occur."""
    corpus, firsts = library.corpus, library.firsts
    token = context[at]
    if not 0 <= token < len(firsts):
        return 0, 0
    if firsts[token, 0] < 0:
        firsts[token, 0] = _first_from(corpus, 0, len(corpus.suffixes), 0, token)
        firsts[token, 1] = _first_from(corpus, firsts[token, 0], len(corpus.suffixes), 0, token + 1)
    start, end = firsts[token, 0], firsts[token, 1]
    for offset in range(1, SPAN):
        if end - start <= RARE:
            break
        token = context[at + offset]
        start = _first_from(corpus, start, end, offset, token)
        end = _first_from(corpus, start, end, offset, token + 1)
    return (start, end) if end - start <= RARE else (0, 0)


PASSAGE = 256
"""Tokens."""
MOST_PASSAGES = 64
"""Passages that are read at once."""
REFRESH = 32
"""Tokens from one ranking to the next."""
EACH_STEP = 4
"""Passages read at each step."""
K1 = 1.2
TABLE_CONTEXTS = 1 << 17
"""Contexts of the table."""
UNRANKED, WAITING, DONE = 0, 1, 2
"""Indices of Nearest.counters."""


class Nearest(NamedTuple):
    """What retrieval knows of the text.

    table: what followed each context in the passages that were read
    scores: float32 [P], of each passage
    idf: float32 [RARE + 1], by df
    found: int64 [RARE], the passage of each occurrence of an n-gram
    times: int32 [P], occurrences of that n-gram in each passage, 0 between two n-grams
    was_read: bool [P]
    queue: int64 [MOST_PASSAGES], passages, those of the highest scores first
    best: float32 [MOST_PASSAGES], their scores
    counters: int64 [3], tokens since the last ranking; passages in the queue; how many of them are done with
    """

    library: Library
    table: ContextTable
    scores: np.ndarray
    idf: np.ndarray
    found: np.ndarray
    times: np.ndarray
    was_read: np.ndarray
    queue: np.ndarray
    best: np.ndarray
    counters: np.ndarray


def open_nearest(file: SuffixFile | None) -> Nearest:
    """Retrieval from a corpus; None: there is none, and nothing is ever near."""
    library = no_library() if file is None else open_library(file.corpus, file.vocabulary)
    passages = -(-len(library.corpus.tokens) // PASSAGE)
    df = np.minimum(np.arange(RARE + 1), passages)
    return Nearest(
        library,
        empty_table(TABLE_CONTEXTS if passages else 1),
        np.zeros(passages, np.float32),
        # Rounded: a logarithm's last digit differs between machines.
        np.log1p((passages - df + 0.5) / (df + 0.5)).round(4).astype(np.float32),
        np.zeros(RARE, np.int64),
        np.zeros(passages, np.int32),
        np.zeros(passages, np.bool_),
        np.zeros(MOST_PASSAGES, np.int64),
        np.zeros(MOST_PASSAGES, np.float32),
        np.zeros(3, np.int64),
    )


def forked(nearest: Nearest) -> Nearest:
    """Retrieval from the same corpus for another text."""
    names = ("scores", "was_read", "queue", "best", "counters")
    own = {name: np.zeros_like(getattr(nearest, name)) for name in names}
    return nearest._replace(table=empty_table(len(nearest.table.tags)), **own)


def clear_text(nearest: Nearest) -> None:
    """A new text begins. The table becomes as new: contexts crowd in it, and which ones stay must not depend on the
    texts before."""
    reset_table(nearest.table)
    nearest.scores[:], nearest.was_read[:], nearest.counters[:] = 0, False, 0


@inner
def update_bm25_scores(nearest: Nearest, context: np.ndarray, i: int) -> None:
    """The text went on to context[i]: score the passages with the rare n-gram that begins SPAN - 1 tokens before."""
    nearest.counters[UNRANKED] += 1
    if i < SPAN - 1:
        return
    corpus, found, times = nearest.library.corpus, nearest.found, nearest.times
    start, end = rare_ngram(nearest.library, context, i - SPAN + 1)
    df, last = 0, len(times) - 1
    for k in range(end - start):
        # Bounded: a crafted file may name places that its text does not have.
        found[k] = min(max(0, suffix_at(corpus, start + k)) // PASSAGE, last)
        df += times[found[k]] == 0
        times[found[k]] += 1
    for k in range(end - start):
        tf = np.float32(times[found[k]])
        if tf > 0:
            nearest.scores[found[k]] += nearest.idf[df] * tf * np.float32(K1 + 1) / (tf + np.float32(K1))
            times[found[k]] = 0


@inner
def rank(nearest: Nearest) -> None:
    """Put the passages of the highest scores into the queue."""
    queue, best, n = nearest.queue, nearest.best, 0
    for passage in range(len(nearest.scores)):
        score = nearest.scores[passage]
        if score > (best[MOST_PASSAGES - 1] if n == MOST_PASSAGES else np.float32(0)):
            at = min(n, MOST_PASSAGES - 1)
            while at > 0 and best[at - 1] < score:
                queue[at], best[at] = queue[at - 1], best[at - 1]
                at -= 1
            queue[at], best[at] = passage, score
            n = min(n + 1, MOST_PASSAGES)
    nearest.counters[UNRANKED], nearest.counters[WAITING], nearest.counters[DONE] = 0, n, 0


@inner
def read_waiting(nearest: Nearest, longest: int, most: int) -> None:
    """Read at most `most` passages of the queue into the table. longest: tokens of the longest context"""
    counters = nearest.counters
    while counters[DONE] < counters[WAITING] and most > 0:
        passage = int(nearest.queue[counters[DONE]])
        counters[DONE] += 1
        if not nearest.was_read[passage]:
            nearest.was_read[passage] = True
            _read_passage(nearest, passage, longest)
            most -= 1


@inner
def _read_passage(nearest: Nearest, passage: int, longest: int) -> None:
    corpus, separator = nearest.library.corpus, len(nearest.library.firsts)
    first, end = passage * PASSAGE, min((passage + 1) * PASSAGE, len(corpus.tokens))
    if not are_tokens_whole(corpus, first, end):
        return
    begin = first  # of the document
    for i in range(first, end):
        token = int(np.int64(corpus.tokens[i]))
        if token == separator:
            begin = i + 1
            continue
        hashed = np.uint64(0)
        for length in range(1, min(longest, i - begin) + 1):
            hashed = extend_hash(hashed, int(np.int64(corpus.tokens[i - length])))
            count_successor(nearest.table, hashed, token, 1.0)


@njit(**UNCOUNTED)
def retrieve_for_prompt(nearest: Nearest, context: np.ndarray, first: int, longest: int) -> None:
    """The text went on by the prompt, context[first:]: rank, and read all passages that are nearest."""
    for i in range(first, len(context)):
        update_bm25_scores(nearest, context, i)
    rank(nearest)
    read_waiting(nearest, longest, MOST_PASSAGES)


@njit(**UNCOUNTED)
def retrieve_for_answer(nearest: Nearest, context: np.ndarray, first: int, longest: int) -> None:
    """The text went on by context[first:], between two searches: rank when enough tokens came since, else read a few
    passages."""
    for i in range(first, len(context)):
        update_bm25_scores(nearest, context, i)
    if nearest.counters[UNRANKED] >= REFRESH:
        rank(nearest)
    else:
        read_waiting(nearest, longest, EACH_STEP)
