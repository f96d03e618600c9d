"""The scorer against its formula, and its file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from from_python import compiled
from safetensors.numpy import save
from scored_by_hand import by_formula, random_candidates, random_scorer

from aded.drafters.backoff.candidates import MOST_CANDIDATES, MOST_FEATURES, add_feature, clear, new_candidates
from aded.drafters.backoff.scorer import PREFIXES, SHAPES, SHIPPED, exponential, read_scorer, score
from aded.errors import BadInput


@pytest.mark.parametrize("features", [0, 1, 30, 200])
def test_probabilities_follow_the_formula(features: int) -> None:
    random = np.random.default_rng(features)
    scorer, candidates = random_scorer(random), random_candidates(random, features)
    compiled(score)(scorer, candidates)
    found = candidates.probabilities[: candidates.sizes[0] + 1]
    np.testing.assert_allclose(found, by_formula(scorer, candidates), rtol=1e-4)


def test_the_exponential_has_nine_digits() -> None:
    compiled_exponential = compiled(exponential)
    for x in (*np.linspace(-40, 0, 999), -1e-12, -700.0):
        assert compiled_exponential(float(x)) == pytest.approx(np.exp(x), rel=1e-9)
    assert compiled_exponential(0.0) == 1
    assert compiled_exponential(-1e9) == pytest.approx(0, abs=1e-300)


def test_more_than_fits_is_left_out() -> None:
    candidates = new_candidates()
    clear(candidates)
    for token in range(2 * MOST_CANDIDATES):
        for _ in range(8):
            add_feature(candidates, token, 0, 1, 0, np.float32(0), np.float32(0))
    assert candidates.sizes.tolist() == [MOST_FEATURES // 8, MOST_FEATURES]
    clear(candidates)
    for token in range(2 * MOST_CANDIDATES):
        add_feature(candidates, token, 0, 1, 0, np.float32(0), np.float32(0))
    assert candidates.sizes.tolist() == [MOST_CANDIDATES, MOST_CANDIDATES]


def test_the_shipped_weights_say_what_they_were_learned_from() -> None:
    for retrieval, lookup in PREFIXES:
        scorer, learned_from = read_scorer(SHIPPED, retrieval, lookup)
        assert "arena_hard_v2/llama-3.1-8b-instruct.jsonl" in learned_from
        assert all(scorer[name].any() for name in SHAPES)


def test_a_wrong_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "scorer.safetensors"
    path.write_bytes(b"no tensors")
    with pytest.raises(BadInput, match="is no safetensors file"):
        read_scorer(str(path))
    scorer = random_scorer(np.random.default_rng(0))
    without = {name: scorer[name] for name in SHAPES}
    path.write_bytes(save(without))
    with pytest.raises(BadInput, match="holds other weights"):
        read_scorer(str(path))
    weights = {prefix + name: array for prefix in PREFIXES.values() for name, array in without.items()}
    path.write_bytes(save(weights))
    read_scorer(str(path))
    path.write_bytes(save({**weights, "bias": weights["bias"][:2]}))
    with pytest.raises(BadInput, match="holds other weights"):
        read_scorer(str(path))
    path.write_bytes(save({**weights, "bias": weights["bias"] * np.float32("nan")}))
    with pytest.raises(BadInput, match="holds other weights"):
        read_scorer(str(path))
