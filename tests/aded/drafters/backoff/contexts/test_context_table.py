"""The context table against a dictionary: decay, replacement and forgetting."""

import numpy as np
from from_python import compiled
from hypothesis import given
from hypothesis import strategies as st

from aded.drafters.backoff.contexts import context_table
from aded.drafters.backoff.contexts.context_table import BUCKET, ROW, ContextTable, clear_table, empty_table

count_successor, replace_row = compiled(context_table.count_successor), compiled(context_table.replace_row)
extend_hash, find = compiled(context_table.extend_hash), compiled(context_table.find)


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


def test_a_full_row_replaces_its_smallest_weight() -> None:
    table = empty_table(64)
    for token in range(ROW + 1):
        count_successor(table, hash_of(1), token, 0.9)
    assert sorted(row(table, hash_of(1))) == [*range(1, ROW + 1)]


def test_a_full_bucket_replaces_its_oldest_context() -> None:
    table = empty_table(BUCKET)
    for context in range(BUCKET):
        count_successor(table, hash_of(context), 5, 1.0)
    count_successor(table, hash_of(0), 5, 1.0)
    count_successor(table, hash_of(99), 5, 1.0)
    assert find(table, hash_of(1)) == -1
    assert all(find(table, hash_of(context)) >= 0 for context in [0, *range(2, BUCKET), 99])


def test_a_forgotten_table_is_empty_and_fills_again() -> None:
    table = empty_table(64)
    count_successor(table, hash_of(1, 2), 5, 1.0)
    clear_table(table)
    assert row(table, hash_of(1, 2)) == {}
    count_successor(table, hash_of(1, 2), 6, 1.0)
    assert row(table, hash_of(1, 2)) == {6: 1.0}


def test_replace_row_drops_the_old_row() -> None:
    table = empty_table(64)
    count_successor(table, hash_of(1), 50, 1.0)
    replace_row(table, hash_of(1), np.arange(ROW), np.linspace(0.8, 0.1, ROW).astype(np.float32))
    assert list(row(table, hash_of(1))) == [*range(ROW)]
