"""The experts' features, against counts by hand."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from from_python import compiled
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from aded.drafters.backoff import experts
from aded.drafters.backoff.candidates import (
    COPY,
    CORPUS,
    PROMPT,
    SESSION,
    SOURCE_BIAS,
    SOURCES,
    UNIGRAM,
    Candidates,
)
from aded.drafters.backoff.contexts.unigrams import FREQUENT
from aded.drafters.backoff.drafter import BackoffDrafter
from aded.drafters.backoff.tree_search import ROOT, predict
from aded.drafters.numba_state import NumbaState
from datastore.ngrams import count_ngrams

VOCABULARY, KEEP = 6, 0.9
CORPUS_TEXT = np.random.default_rng(0).integers(VOCABULARY, size=200)
LENGTHS_OF = {"corpus": 4, "session": 5, "prompt": 6}
CORPUS_NGRAMS = count_ngrams([CORPUS_TEXT], 5, VOCABULARY)
DRAFTER = BackoffDrafter(CORPUS_NGRAMS, contexts=LENGTHS_OF, keep=KEEP)
scaled_log2 = compiled(experts.scaled_log2)
Successors = dict[int, dict[int, float]]
"""By expert, the weight of each token."""


def contexts_before(text: list[int], i: int, longest: int) -> list[tuple[int, tuple[int, ...]]]:
    """(number of the kind of context, its tokens) of all contexts before text[i]."""
    plain = [(length, tuple(text[i - length : i])) for length in range(1, min(longest, i) + 1)]
    a, b, c = text[i - 3 : i] if i >= 3 else (0, 0, 0)
    skip_grams = [(7, (a, b)), (8, (a, c)), (9, (b,))] if i >= 3 else []
    return plain + skip_grams


def by_hand(text: list[int]) -> Successors:
    found: Successors = {}
    for source, longest in (PROMPT, 6), (SESSION, 5):
        rows: dict[tuple[int, tuple[int, ...]], dict[int, float]] = defaultdict(dict)
        for i in range(1, len(text)):
            for context in contexts_before(text, i, longest):
                row = {token: weight * KEEP for token, weight in rows[context].items()}
                row[text[i]] = row.get(text[i], 0.0) + 1
                rows[context] = row
        for context in contexts_before(text, len(text), longest):
            if rows[context]:
                found[(context[0] - 1) * SOURCES + source] = rows[context]
    corpus = CORPUS_TEXT.tolist()
    for length in range(1, min(4, len(text)) + 1):
        row = defaultdict(float)
        for i in range(length, len(corpus)):
            if corpus[i - length : i] == text[-length:]:
                row[corpus[i]] += 1
        if row:
            found[(length - 1) * SOURCES + CORPUS] = row
    found[UNIGRAM] = {token: float(text.count(token)) for token in set(text)}
    return found


@njit
def predict_root(state: NumbaState) -> None:
    experts, scorer, scratch = state.parts
    predict(experts, scorer, scratch, ROOT)


def predicted_after(text: list[int]) -> Candidates:
    DRAFTER.reset()
    DRAFTER.begin(np.array(text))
    predict_root(DRAFTER.state)
    return DRAFTER.scratch.candidates


@given(st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=40))
def test_every_expert_has_features_of_what_followed_its_context(text: list[int]) -> None:
    candidates, expected = predicted_after(text), by_hand(text)
    n, m = candidates.sizes
    found: Successors = defaultdict(dict)
    for k in range(m):
        expert, token = int(candidates.feature_experts[k]), int(candidates.tokens[candidates.feature_candidates[k]])
        assert token not in found[expert]
        found[expert][token] = float(candidates.feature_values[k, 1])
        if expert not in (COPY, UNIGRAM):
            log_total = float(scaled_log2(sum(expected[expert].values())))
            np.testing.assert_allclose(candidates.feature_values[k, 0], found[expert][token] - log_total, atol=1e-5)
            np.testing.assert_allclose(
                candidates.evidence[expert],
                [log_total, max(expected[expert].values()) / sum(expected[expert].values())],
                rtol=1e-5,
            )
    found.pop(COPY, None)
    assert found.keys() == expected.keys()
    for expert, tokens in expected.items():
        assert found[expert].keys() == tokens.keys()
        for token, weight in tokens.items():
            np.testing.assert_allclose(found[expert][token], scaled_log2(weight), atol=1e-5)
    assert candidates.seen[[SOURCE_BIAS + CORPUS, SOURCE_BIAS + SESSION, SOURCE_BIAS + PROMPT]].all()
    assert set(candidates.tokens[:n].tolist()) >= set(text[: FREQUENT if n < FREQUENT else 0])


def test_a_logarithm_is_a_straight_line_between_powers_of_two() -> None:
    assert [float(scaled_log2(x)) for x in (1, 2, 3, 4, 0.5)] == [0, 1 / 8, 1.5 / 8, 2 / 8, -1 / 8]
