"""What followed a context, counted in each of four ways, against dictionaries and searches of the whole text."""

from collections import Counter, defaultdict

import numpy as np
import pytest
from from_python import compiled
from hypothesis import given
from hypothesis import strategies as st
from small_ngrams import write_small_ngrams

from aded.drafters.backoff import contexts
from aded.drafters.backoff import history as histories
from aded.drafters.backoff.contexts import (
    BUCKET,
    LONGEST_CONTEXT,
    ROW,
    ContextTable,
    CorpusNgrams,
    clear_table,
    empty_table,
    locate,
    open_corpus,
    read_context,
)
from aded.drafters.backoff.history import (
    FREQUENT,
    MAX_MATCH,
    MIN_MATCH,
    clear_history,
    clear_unigrams,
    counter_of,
    empty_history,
    empty_unigrams,
)
from aded.files.datastores.ngram_file import open_ngrams

count_successor, replace_row = compiled(contexts.count_successor), compiled(contexts.replace_row)
extend_hash, find = compiled(contexts.extend_hash), compiled(contexts.find)
append, longest_match = compiled(histories.append), compiled(histories.longest_match)
VOCABULARY = 7
STREAM = np.random.default_rng(0).integers(5, size=400)
COUNTS = empty_unigrams()


def row(table: ContextTable, hashed: np.uint64) -> dict[int, float]:
    slot = find(table, hashed)
    if slot < 0:
        return {}
    tokens, weights = table.rows[slot]["tokens"], table.rows[slot]["weights"]
    return {int(t): float(w) for t, w in zip(tokens, weights, strict=True) if w > 0}


def hash_of(*context: int) -> np.uint64:
    hashed = np.uint64(0)
    for token in reversed(context):
        hashed = np.uint64(extend_hash(hashed, token))
    return hashed


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, ROW - 1)), max_size=60))
def test_weights_are_decayed_counts(seen: list[tuple[int, int]]) -> None:
    table = empty_table(64)
    expected: dict[int, dict[int, float]] = {}
    for context, token in seen:
        count_successor(table, hash_of(context), token, 0.5)
        weights = expected.setdefault(context, {})
        for other in weights:
            weights[other] *= 0.5
        weights[token] = weights.get(token, 0.0) + 1.0
    for context in range(4):
        found = row(table, hash_of(context))
        weights = expected.get(context, {})
        assert found.keys() == weights.keys()
        assert all(abs(found[token] - weight) < 1e-5 for token, weight in weights.items())
        assert list(found.values()) == sorted(found.values(), reverse=True)


def test_full_rows_and_buckets_lose_the_smallest_weight_and_the_oldest_context() -> None:
    table = empty_table(BUCKET)
    for token in range(ROW + 1):
        count_successor(table, hash_of(0), token, 0.9)
    assert sorted(row(table, hash_of(0))) == [*range(1, ROW + 1)]
    for context in (*range(1, BUCKET), 0, 99):
        count_successor(table, hash_of(context), 5, 1.0)
    assert find(table, hash_of(1)) == -1
    assert all(find(table, hash_of(context)) >= 0 for context in [0, *range(2, BUCKET), 99])
    assert row(table, hash_of(99)) == {5: 1.0}, "nothing of the old row is left"
    # A replaced row and a forgotten table keep nothing.
    table, here = empty_table(64), hash_of(1, 2)
    count_successor(table, here, 50, 1.0)
    replace_row(table, here, np.arange(ROW), np.linspace(0.8, 0.1, ROW).astype(np.float32))
    assert list(row(table, here)) == [*range(ROW)]
    clear_table(table)
    assert row(table, here) == {}
    count_successor(table, here, 6, 1.0)
    assert row(table, here) == {6: 1.0}


def match_length(tokens: list[int], position: int) -> int:
    length = 0
    while length < min(MAX_MATCH, position) and tokens[position - 1 - length] == tokens[len(tokens) - 1 - length]:
        length += 1
    return length


@given(st.lists(st.integers(0, 1), max_size=40))
def test_the_match_is_the_longest_among_the_latest(tokens: list[int]) -> None:
    history, match = empty_history(256), np.zeros(2, np.int64)
    for token in tokens:
        append(history, token)
    longest_match(history, match)
    position, length = match.tolist()
    positions = [at for at in range(1, len(tokens)) if match_length(tokens, at) >= MIN_MATCH]
    assert (position >= 0) == bool(positions)
    if positions:
        assert length == match_length(tokens, position)
        # Sixteen positions are compared; some of them only share the hash.
        assert length >= max(match_length(tokens, at) for at in positions[-8:])
    clear_history(history)
    longest_match(history, match)
    assert match[0] == -1


def test_a_full_ring_matches_no_overwritten_tokens() -> None:
    history, stream = empty_history(128), np.random.default_rng(0).integers(3, size=2000).tolist()
    size, match = len(history.tokens), np.zeros(2, np.int64)
    for n, token in enumerate(stream, 1):
        append(history, token)
        longest_match(history, match)
        if match[0] >= 0:
            assert match[0] > n - size
            length = int(match[1])
            assert stream[match[0] - length : match[0]] == stream[n - length : n]
            assert histories.token_at(history, int(match[0])) == stream[match[0]]


@given(st.lists(st.integers(0, 60), max_size=400))
def test_the_most_frequent_tokens_come_first(tokens: list[int]) -> None:
    clear_unigrams(COUNTS)
    for token in tokens:
        histories.count_token(COUNTS, token)
    times = Counter(tokens)
    assert {token: int(COUNTS.prompt[counter_of(token)]) for token in times} == times
    frequent = COUNTS.frequent[COUNTS.frequent >= 0].tolist()
    assert len(set(frequent)) == len(frequent) == min(FREQUENT, len(times))
    assert [times[token] for token in frequent] == sorted(times.values(), reverse=True)[:FREQUENT]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> CorpusNgrams:
    path = write_small_ngrams(tmp_path_factory.mktemp("corpus") / "tiny.ngrams", [STREAM], VOCABULARY)
    return open_corpus(open_ngrams(path), LONGEST_CONTEXT, VOCABULARY)


@pytest.fixture(scope="module")
def known() -> dict[tuple[int, ...], Counter[int]]:
    """context -> counts of its successors, for contexts of 1 to 4 tokens."""
    counts: dict[tuple[int, ...], Counter[int]] = defaultdict(Counter)
    stream = STREAM.tolist()
    for length in range(1, LONGEST_CONTEXT + 1):
        for i in range(len(stream) - length):
            counts[tuple(stream[i : i + length])][stream[i + length]] += 1
    return counts


def successors(corpus: CorpusNgrams, index: int) -> Counter[int]:
    read, total, distinct = read_context(corpus, index)
    assert read == distinct
    assert corpus.times[:read].sum() == total
    return Counter(dict(zip(corpus.tokens[:read].tolist(), corpus.times[:read].tolist(), strict=True)))


@given(st.lists(st.integers(0, VOCABULARY + 1), min_size=1, max_size=6))
def test_every_context_is_found_and_no_other(
    corpus: CorpusNgrams, known: dict[tuple[int, ...], Counter[int]], context: list[int]
) -> None:
    indices = np.zeros(LONGEST_CONTEXT, np.int64)
    locate(corpus, VOCABULARY, np.array(context), indices)
    for length in range(1, LONGEST_CONTEXT + 1):
        expected = known.get(tuple(context[-length:])) if length <= len(context) else None
        index = int(indices[length - 1])
        assert (successors(corpus, index) if index >= 0 else None) == expected
