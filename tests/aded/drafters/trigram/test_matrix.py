"""The matrix and its overlay against dictionaries, and the published drafter, which adapts it at every step."""

from collections import Counter, defaultdict
from itertools import product
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_ngrams import write_small_ngrams
from trigram_matrices import ORDERS, trigram_matrix

from aded.core.drafter import Step
from aded.core.tree import DraftTree
from aded.drafters.trigram.best_first import BestFirst
from aded.drafters.trigram.drafter import AdedDrafter
from aded.drafters.trigram.matrix import TrigramMatrix
from aded.files.datastores.ngram_file import no_ngrams, open_ngrams

DOCUMENTS = st.lists(st.lists(st.integers(0, 4), max_size=25), max_size=5)
State = tuple[int, ...]


def read(matrix: TrigramMatrix, state: State) -> list[tuple[int, float]]:
    tokens, weights = matrix.row(*state)
    return list(zip(tokens.tolist(), weights.tolist(), strict=True))


def successors(ids: list[int], order: int) -> list[tuple[State, int]]:
    ends = range(order - 1, len(ids))
    return [(tuple(ids[end - order + 1 : end]), ids[end]) for end in ends]


def base_rows(documents: list[list[int]], order: int) -> dict[State, Counter[int]]:
    rows: dict[State, Counter[int]] = defaultdict(Counter)
    for ids in documents:
        for state, token in successors(ids, order):
            rows[state][token] += 1
    return rows


class ReferenceMatrix:
    """The overlay as a dictionary of dictionaries."""

    def __init__(self, documents: list[list[int]], order: int = 3, gain: float = 0.04, cap: float = 3.0) -> None:
        self.base = {
            state: {token: times / row.total() for token, times in row.items()}
            for state, row in base_rows(documents, order).items()
        }
        self.rows: dict[State, dict[int, float]] = {}
        self.order, self.gain, self.cap = order, gain, cap

    def adapt(self, context: list[int]) -> None:
        for state, token in successors(context[-16:], self.order):
            row = self.rows.setdefault(state, dict(self.base.get(state, {})))
            row[token] = min(row.get(token, 0.0) + self.gain, self.cap)

    def row(self, state: State) -> dict[int, float]:
        return self.rows.get(state, self.base.get(state, {}))


@given(DOCUMENTS, st.integers(1, 6), ORDERS)
def test_base_rows_are_the_counts_of_the_documents(documents: list[list[int]], top_k: int, order: int) -> None:
    """The top k do not change the probabilities: they are shares of all successors. No n-gram spans two documents."""
    matrix, rows = trigram_matrix(documents, 5, top_k=top_k, order=order), base_rows(documents, order)
    for state in product(range(5), repeat=order - 1):
        row = rows[state]
        commonest = sorted(row.items(), key=lambda item: (-item[1], item[0]))[:top_k]
        assert read(matrix, state) == [(c, pytest.approx(times / row.total())) for c, times in commonest]
    for place in range(order - 1):
        state = tuple(5 if at == place else 2 for at in range(order - 1))
        assert read(matrix, state) == [], "a token beyond the vocabulary has no row"


@given(DOCUMENTS, st.lists(st.integers(0, 4), min_size=1, max_size=60), ORDERS)
def test_the_overlay_is_a_dictionary_of_rows(documents: list[list[int]], context: list[int], order: int) -> None:
    matrix, reference = trigram_matrix(documents, 5, order=order), ReferenceMatrix(documents, order)
    for end in range(1, len(context) + 1):
        matrix.adapt(np.array(context[:end], np.int64))
        reference.adapt(context[:end])
    for state in product(range(5), repeat=order - 1):
        row = read(matrix, state)
        weights = [weight for _, weight in row]
        assert dict(row) == pytest.approx(reference.row(state), abs=1e-4)
        assert len(dict(row)) == len(row)
        assert weights == sorted(weights, reverse=True)


def test_the_published_constants() -> None:
    """A tri-gram gains 0.04 per step while it is in the window, up to 3.0; the overlay copies the top k of a row."""
    matrix, context = trigram_matrix([[1, 2, 3], [1, 2, 4]], 5), np.array([1, 2, 3], np.int64)
    for steps, weight in ((1, 0.54), (100, 3.0)):
        for _ in range(steps):
            matrix.adapt(context)
        assert read(matrix, (1, 2)) == [(3, pytest.approx(weight)), (4, pytest.approx(0.5))]
    matrix = trigram_matrix([[1, 2, c] for c in (0, 1, 3, 4)], 5, top_k=2)
    matrix.adapt(np.array([1, 2, 4], np.int64))
    assert read(matrix, (1, 2)) == [(0, 0.25), (1, 0.25), (4, pytest.approx(0.04))]
    # A full row replaces its smallest weight.
    matrix = trigram_matrix([], 64)
    for c in range(3, 50):
        for _ in range(1 if c < 20 else 2):
            matrix.adapt(np.array([1, 2, c], np.int64))
    row = read(matrix, (1, 2))
    assert len(row) == 32
    assert row[0][1] == pytest.approx(0.08)
    assert {c for c, _ in row} >= set(range(20, 50)), "tokens that came twice stay"
    assert 49 in dict(row), "the newest token enters"


def test_the_overlay_grows_beyond_its_first_1024_pairs() -> None:
    rng = np.random.default_rng(0)
    documents = [rng.integers(64, size=3000).tolist()]
    matrix, reference = trigram_matrix(documents, 64), ReferenceMatrix(documents)
    context = rng.integers(64, size=4000)
    for end in range(3, len(context) + 1, 5):
        matrix.adapt(context[:end])
        reference.adapt(context[:end].tolist())
    assert len(reference.rows) > 2048
    for state in product(range(64), repeat=2):
        assert dict(read(matrix, state)) == pytest.approx(reference.row(state), abs=1e-4)


@pytest.mark.parametrize("most", [100, 1500])
def test_an_overlay_with_all_rows_that_it_may_have_starts_empty_again(most: int) -> None:
    matrix, stream = trigram_matrix([], 2, max_pairs=most), np.arange(3000, dtype=np.int64)
    for end in range(3, len(stream) + 1):
        matrix.adapt(stream[:end])
        assert len(matrix.overlay.sizes) <= most
    kept = [first for first in range(2998) if read(matrix, (first, first + 1))]
    assert 0 < len(kept) <= most
    assert kept == list(range(kept[0], 2998)), "the latest pairs are kept"


@given(DOCUMENTS, st.lists(st.integers(0, 4), min_size=3, max_size=20), ORDERS, st.data())
def test_a_path_is_reached_with_the_product_of_its_weights(
    documents: list[list[int]], context: list[int], order: int, data: st.DataObject
) -> None:
    """Each weight is at most 1, and 0 where the row lacks the token."""
    matrix = trigram_matrix(documents, 5, order=order)
    matrix.adapt_to_prompt(np.array(context * 3, np.int64))
    paths, tokens, parents = [context], [context[-1]], [-1]
    for size in range(1, 8):
        parent = data.draw(st.integers(0, size - 1))
        token = data.draw(st.integers(0, 4))
        paths.append([*paths[parent], token])
        tokens.append(token)
        parents.append(parent)
    expected = [1.0]
    for path, parent in zip(paths[1:], parents[1:], strict=True):
        weight = dict(read(matrix, tuple(path[:-1]))).get(path[-1], 0.0)
        expected.append(expected[parent] * min(1.0, weight))
    found = matrix.reached(np.array(context, np.int64), np.array(tokens, np.int64), np.array(parents, np.int64))
    assert found == pytest.approx(expected)


def test_a_search_draws_by_the_seed_of_its_prompt() -> None:
    maker = Mock(spec=BestFirst)
    AdedDrafter(no_ngrams(), maker).begin(np.arange(3), 7)
    maker.seed.assert_called_once_with(7)


def test_steps_without_a_draft_adapt_the_matrix_too(tmp_path: Path) -> None:
    path = write_small_ngrams(tmp_path / "tiny.ngrams", [np.tile(np.arange(10), 30)], 50)
    mine = AdedDrafter(open_ngrams(path), BestFirst(), adaptation="session", window=8)
    text = np.random.default_rng(1).integers(50, size=40)
    mine.begin(text[:5])
    plain = TrigramMatrix(mine.datastore.up_to(3), top_k=12, gain=0.04, cap=3.0, window=8, max_pairs=100)
    for end in range(6, 40):
        mine.observe(Step(DraftTree.root(int(text[end - 2])), [0], int(text[end - 1])))
        plain.adapt(text[:end])
        if end == 20:
            mine.draft(text[:end])
    for pair in zip(text[4:37].tolist(), text[5:38].tolist(), strict=True):
        for one, other in zip(mine.matrix.row(*pair), plain.row(*pair), strict=True):
            assert one.tolist() == other.tolist()
