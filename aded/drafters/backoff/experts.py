"""The experts: the evidence of each source for the next token, after the last tokens.

source: where predictions come from: the corpus, the target's own distributions, earlier answers (the session), the
    current prompt and its answer, or the passages of a corpus that are nearest to them
context: the last 1 to 6 tokens (corpus: 1 to 4), or some of the last three: a skip-gram
expert: one source with one kind of context; one more copies the longest match, one counts tokens, and one is the
    look-up model
feature: of a candidate token, by one expert: the token's share of what followed the context, and its count. Features
    are sparse: each expert has some of a few tokens only

The scorer (scorer.py) turns all features into one probability per token.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from aded.compiled import inner
from aded.drafters.backoff.candidates import (
    COPY,
    CORPUS,
    LENGTHS,
    LOOKUP,
    NEAREST,
    PROMPT,
    SESSION,
    SKIP_GRAMS,
    SOURCE_BIAS,
    SOURCES,
    TARGET,
    UNIGRAM,
    Candidates,
    Real,
    add_feature,
    clear,
    propose,
)
from aded.drafters.backoff.contexts import ROW, ContextTable, CorpusNgrams, extend_hash, find, read_context
from aded.drafters.backoff.history import FREQUENT, History, Unigrams, counter_of, token_at
from aded.drafters.backoff.lookup import (
    LEAST,
    PROPOSE_FROM,
    READ_FROM,
    Lookup,
    read_node,
    score_frequent,
    score_of,
    unshared_row,
)
from aded.drafters.backoff.scorer import exponential

LIKELY = 0.05
"""At nodes that are at least as probable, skip-grams are looked up, and frequent tokens proposed. Elsewhere no
tree has room for what they add."""
SCALE = np.float32(1 / 8)
"""Of logarithms: it keeps the inputs of the scorer near 1."""
FROM_NATURAL_LOG = SCALE / np.float32(np.log(2))
"""What turns natural logarithms into those of `scaled_log2`."""
LIKELY_NEXT = np.float32(np.log(0.004))
"""The look-up model proposes tokens of higher logarithms."""


OPTIONS = np.dtype(
    [
        ("longest", np.int64, SOURCES),
        ("copies", np.bool_),
        ("skip_grams", np.bool_),
        ("unigrams", np.bool_),
        ("lookup", np.bool_),
        ("vocabulary", np.int64),
    ],
    align=True,
)
"""Settings of the experts.

longest: the longest context of each source in tokens, 0: the source is off
copies, skip_grams, unigrams: are matches copied, skip-grams looked up, and tokens counted?
lookup: is the look-up model asked?
vocabulary: of the corpus
"""


class Experts(NamedTuple):
    """Everything that predicts.

    nearest: what followed each context in the nearest passages
    options: a record of OPTIONS
    """

    corpus: CorpusNgrams
    target: ContextTable
    session: ContextTable
    prompt: ContextTable
    nearest: ContextTable
    history: History
    unigrams: Unigrams
    lookup: Lookup
    options: np.record


@inner
def scaled_log2(number: Real) -> Real:
    """About log2(number) * SCALE: exact at powers of two, linear between them, read off the bits of the float."""
    bits = np.float32(number).view(np.int32)
    return (np.float32(bits) * np.float32(2.0**-23) - np.float32(127.0)) * SCALE


@inner
def skip_gram_hash(context: np.ndarray, end: int, kind: int) -> np.uint64:
    """The hash of a skip-gram before context[end], end >= 3. Of the last three tokens it has:

    kind 0: the first two; 1: the first and the last; 2: the middle one.
    """
    hashed = np.uint64(kind + 1) * np.uint64(0x9E3779B97F4A7C15)
    hashed = extend_hash(hashed, context[end - 1] if kind == 1 else context[end - 2])
    return hashed if kind == 2 else extend_hash(hashed, context[end - 3])


@inner
def collect_features(
    experts: Experts,
    context: np.ndarray,
    longest: np.ndarray,
    corpus_nodes: np.ndarray,
    match: np.ndarray,
    memory: np.ndarray,
    probability: float,
    candidates: Candidates,
) -> None:
    """Write the candidates for the next token, and all experts' features of them, to `candidates`.

    context: int64 [m], of which the last PAST tokens are read
    longest: int64 [SOURCES], the longest context to look up in each source
    corpus_nodes: int64 [4], the corpus contexts at the end of `context`
    match: int64 [2], the position in the history of the token to copy, or -1, and the match's length
    memory: float32 [HIDDEN], the look-up model's
    probability: of the context
    """
    clear(candidates)
    for source in range(SOURCES):
        candidates.seen[SOURCE_BIAS + source] = experts.options.longest[source] > 0
    if match[0] >= 0:
        matched = scaled_log2(match[1])
        candidates.seen[COPY] = True
        candidates.evidence[COPY, 0], candidates.evidence[COPY, 1] = matched, 1.0
        add_feature(candidates, token_at(experts.history, match[0]), PROMPT, LENGTHS, COPY, np.float32(0.0), matched)
    hashes = candidates.hashes
    shortest = min(LENGTHS, len(context))
    for length in range(1, shortest + 1):
        hashes[length] = extend_hash(hashes[length - 1], context[len(context) - length])
    for length in range(shortest, 0, -1):
        if length <= longest[PROMPT]:
            _table_features(experts.prompt, hashes[length], PROMPT, length, candidates)
        if length <= longest[SESSION]:
            _table_features(experts.session, hashes[length], SESSION, length, candidates)
        if length <= longest[TARGET]:
            _table_features(experts.target, hashes[length], TARGET, length, candidates)
        if length <= longest[NEAREST]:
            _table_features(experts.nearest, hashes[length], NEAREST, length, candidates)
        if length <= longest[CORPUS] and corpus_nodes[length - 1] >= 0:
            _corpus_features(experts.corpus, corpus_nodes[length - 1], length, candidates)
    if experts.options.skip_grams and probability >= LIKELY and len(context) >= 3:
        for kind in range(SKIP_GRAMS):
            hashed = skip_gram_hash(context, len(context), kind)
            if longest[PROMPT] > 0:
                _table_features(experts.prompt, hashed, PROMPT, LENGTHS + 1 + kind, candidates)
            if longest[SESSION] > 0:
                _table_features(experts.session, hashed, SESSION, LENGTHS + 1 + kind, candidates)
    if experts.options.unigrams:
        _unigram_features(experts.unigrams, probability >= LIKELY, candidates)
    if experts.options.lookup and probability >= READ_FROM:
        _lookup_features(experts.lookup, context, memory, probability >= PROPOSE_FROM, candidates)


@inner
def _unigram_features(unigrams: Unigrams, fill: bool, candidates: Candidates) -> None:
    """A feature of each candidate: how often it occurred in the prompt and its answer.

    fill: before that, fill them up to FREQUENT with the session's most frequent tokens that occurred more than once
    """
    if fill:
        for token in unigrams.frequent:
            if token == -1 or unigrams.session[counter_of(token)] < 2 or candidates.sizes[0] >= FREQUENT:
                break
            propose(candidates, token)
    for i in range(candidates.sizes[0]):
        token = candidates.tokens[i]
        times = unigrams.prompt[counter_of(token)]
        if times > 0:
            add_feature(candidates, token, PROMPT, 0, UNIGRAM, np.float32(0.0), scaled_log2(times))


@inner
def _lookup_features(
    lookup: Lookup, context: np.ndarray, memory: np.ndarray, proposes: bool, candidates: Candidates
) -> None:
    """A feature of each candidate: how likely the look-up model finds it; and the mass that all together leave.

    proposes: before that, propose the tokens that it finds likely
    """
    read_node(lookup, context, memory)
    if proposes:
        score_frequent(lookup)
        for i in range(len(lookup.frequent)):
            if lookup.scores[i] > LIKELY_NEXT:
                propose(candidates, lookup.frequent[i])
    largest, mass = LEAST, 0.0
    for i in range(candidates.sizes[0]):
        token = candidates.tokens[i]
        row = unshared_row(lookup.model, token)
        if row >= 0:
            logarithm = score_of(lookup, row)
            largest = max(largest, logarithm)
            mass += exponential(np.float64(logarithm))
            add_feature(candidates, token, PROMPT, 0, LOOKUP, logarithm * FROM_NATURAL_LOG, np.float32(0.0))
    candidates.seen[LOOKUP] = True
    candidates.evidence[LOOKUP, 0] = largest * FROM_NATURAL_LOG
    candidates.evidence[LOOKUP, 1] = scaled_log2(max(0.01, 1.0 - mass))


@inner
def _table_features(table: ContextTable, hashed: np.uint64, source: int, length: int, candidates: Candidates) -> None:
    slot = find(table, hashed)
    if slot < 0:
        return
    row, total = table.rows[slot].weights, np.float32(0.0)
    for i in range(ROW):
        total += row[i]
    _row_features(table.rows[slot].tokens, row, total, source, length, candidates)


@inner
def _corpus_features(corpus: CorpusNgrams, index: int, length: int, candidates: Candidates) -> None:
    read, total, _ = read_context(corpus, index)
    if read > 0:  # else its block is damaged
        tokens, times = corpus.tokens[:read], corpus.times[:read]
        _row_features(tokens, times, np.float32(total), CORPUS, length, candidates)


@inner
def _row_features(
    tokens: np.ndarray, row: np.ndarray, total: Real, source: int, length: int, candidates: Candidates
) -> None:
    """row: the tokens' counts in falling order, 0 where the row is free; total: the count of all successors"""
    expert, known_length = (length - 1) * SOURCES + source, length if length <= LENGTHS else 0
    log_total = scaled_log2(total)
    candidates.seen[expert] = True
    candidates.evidence[expert, 0], candidates.evidence[expert, 1] = log_total, np.float32(row[0]) / total
    for i in range(len(row)):
        if row[i] == 0:
            break
        count = scaled_log2(np.float32(row[i]))
        add_feature(candidates, np.int64(tokens[i]), source, known_length, expert, count - log_total, count)
