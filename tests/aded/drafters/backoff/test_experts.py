"""Experts: features against counts by hand, the scorer's formula and file, the root that they are asked at."""

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save
from scored_by_hand import by_formula, random_scorer

from aded.drafters.backoff.candidates import (
    COPY,
    CORPUS,
    MOST_CANDIDATES,
    MOST_FEATURES,
    PROMPT,
    SESSION,
    SOURCE_BIAS,
    SOURCES,
    UNIGRAM,
    add_feature,
    clear,
    new_candidates,
)
from aded.drafters.backoff.drafter import BackoffDrafter
from aded.drafters.backoff.experts import scaled_log2
from aded.drafters.backoff.history import FREQUENT, MIN_MATCH
from aded.drafters.backoff.scorer import PREFIXES, SHAPES, exponential, read_scorer
from aded.drafters.backoff.tree_search import RECENT
from aded.errors import BadInput
from datastore.ngrams import count_ngrams

VOCABULARY, KEEP = 6, 0.9
CORPUS_TEXT = np.random.default_rng(0).integers(VOCABULARY, size=200)
LENGTHS_OF = {"corpus": 4, "session": 5, "prompt": 6}
Successors = dict[int, dict[int, float]]
"""By expert, the weight of each token."""


@pytest.fixture(scope="module")
def drafters() -> list[BackoffDrafter]:
    """Two of the same settings. A larger budget would go on to nodes behind the root."""
    ngrams = count_ngrams([CORPUS_TEXT], 5, VOCABULARY)
    return [
        BackoffDrafter(ngrams, contexts=LENGTHS_OF, keep=KEEP, budget=1, max_contexts=8192, max_history=256)
        for _ in range(2)
    ]


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


@given(st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=40))
def test_every_expert_has_features_of_what_followed_its_context(
    drafters: list[BackoffDrafter], text: list[int]
) -> None:
    drafter = drafters[0]
    drafter.reset()
    drafter.begin(np.array(text))
    drafter.draft(np.array(text))
    candidates, expected = drafter.scratch.candidates, by_hand(text)
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
    wanted = by_formula(drafter._scorers[False][0], candidates)
    np.testing.assert_allclose(candidates.probabilities[: n + 1], wanted, rtol=1e-3)
    assert set(candidates.tokens[:n].tolist()) >= set(text[: FREQUENT if n < FREQUENT else 0])


def test_a_logarithm_is_a_straight_line_between_powers_of_two_and_the_exponential_has_nine_digits() -> None:
    assert [float(scaled_log2(x)) for x in (1, 2, 3, 4, 0.5)] == [0, 1 / 8, 1.5 / 8, 2 / 8, -1 / 8]
    for x in (*np.linspace(-40, 0, 999), -1e-12, -700.0):
        assert exponential(float(x)) == pytest.approx(np.exp(x), rel=1e-9)
    assert exponential(0.0) == 1
    assert exponential(-1e9) == pytest.approx(0, abs=1e-300)


@given(st.lists(st.integers(0, 4), min_size=2, max_size=60), st.data())
def test_a_moved_root_equals_a_new_root(drafters: list[BackoffDrafter], text: list[int], data: st.DataObject) -> None:
    context, prompt = np.array(text), data.draw(st.integers(1, len(text) - 1))
    moving, fresh = drafters
    moving.reset()
    moving.begin(context[:prompt])
    for n in range(prompt + 1, len(text) + 1):
        moving.draft(context[:n])
    fresh.reset()
    fresh.begin(context)
    moved, new = (drafter.scratch.nodes.view(np.recarray)[0] for drafter in drafters)
    assert moved.token == new.token == text[-1]
    assert moved.recent_length == new.recent_length == min(RECENT, len(text))
    assert moved.corpus_nodes.tolist() == new.corpus_nodes.tolist()
    recent = slice(RECENT - min(RECENT, len(text)), RECENT)
    assert moved.recent[recent].tolist() == new.recent[recent].tolist()
    position, length = moved.match.tolist()
    assert (position >= 0) == (new.match[0] >= 0)
    if position >= 0:  # a match that continues is kept; a new search may find a longer one
        assert length >= MIN_MATCH
        assert text[position - length : position] == text[len(text) - length :]


@pytest.mark.parametrize(("each", "kept"), [(8, MOST_FEATURES // 8), (1, MOST_CANDIDATES)])
def test_more_than_fits_is_left_out(each: int, kept: int) -> None:
    candidates = new_candidates()
    clear(candidates)
    for token in range(2 * MOST_CANDIDATES):
        for _ in range(each):
            add_feature(candidates, token, 0, 1, 0, np.float32(0), np.float32(0))
    assert candidates.sizes.tolist() == [kept, kept * each]


def test_a_wrong_file_is_refused(tmp_path: Path) -> None:
    path, scorer = tmp_path / "scorer.safetensors", random_scorer(np.random.default_rng(0))
    without = {name: scorer[name] for name in SHAPES}
    weights = {prefix + name: array for prefix in PREFIXES.values() for name, array in without.items()}
    path.write_bytes(save(weights))
    read_scorer(str(path))
    others = [{**weights, "bias": weights["bias"][:2]}, {**weights, "bias": weights["bias"] * np.float32("nan")}]
    wrong = [(save(one), "holds other weights") for one in (without, *others)]
    for content, problem in ((b"no tensors", "is no safetensors file"), *wrong):
        path.write_bytes(content)
        with pytest.raises(BadInput, match=problem):
            read_scorer(str(path))
