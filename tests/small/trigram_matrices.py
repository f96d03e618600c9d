"""Small tri-gram matrices."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from aded.drafters.trigram.matrix import TrigramMatrix
from datastore.ngrams import count_ngrams

ORDERS = st.sampled_from([2, 3, 4])
"""Of a matrix: the paper's tri-grams, and its ablation's."""


def trigram_matrix(
    documents: Sequence[Sequence[int]], vocabulary: int, *, order: int = 3, **changes: Any
) -> TrigramMatrix:
    """With the paper's constants, or others."""
    settings = {"top_k": 12, "gain": 0.04, "cap": 3.0, "window": 16, "max_pairs": 1 << 20, **changes}
    counts = count_ngrams([np.array(ids, np.int64) for ids in documents], order, vocabulary).ngrams
    return TrigramMatrix(counts, order=order, **settings)


def random_matrix(seed: int, vocabulary: int, tokens: int, steps: tuple[int, int], **changes: Any) -> TrigramMatrix:
    """Of random text, adapted to some steps of it, so that rows may sum to more than 1."""
    rng = np.random.default_rng(seed)
    ids = rng.integers(vocabulary, size=tokens)
    matrix = trigram_matrix([ids.tolist()], vocabulary, **changes)
    for end in range(3, int(rng.integers(*steps))):
        matrix.adapt(ids[:end])
    return matrix
