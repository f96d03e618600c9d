"""The look-up model: compiled code against its formula, and against the network that learned it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from lookup_files import random_network, write_lookup
from numba import njit

from aded.drafters.backoff.lookup import (
    LEAST,
    Lookup,
    lookup_of,
    read_node,
    remember,
    score_frequent,
    score_of,
    start_text,
)
from aded.errors import BadInput
from aded.files.datastores.array_file import write_arrays
from aded.files.datastores.lookup_file import ADD, FORMAT, HIDDEN, KEEP, PAST, VERSION, LookupModel, open_lookup
from datastore.suffix_array import with_separators, write_suffixes

VOCABULARY = 70


def numbers(bits: np.ndarray) -> np.ndarray:
    """Of bfloat16, float64."""
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def by_formula(model: LookupModel, text: list[int]) -> np.ndarray:
    """float64 [R]: the scores after a text, as the module's docstring has them."""
    tables, rows = numbers(model.tables), [int(model.rows[token]) for token in text]
    separator = int(model.rows[-1])
    memory = tables[separator, ADD]
    for row in rows:
        memory = tables[row, KEEP] * memory + tables[row, ADD]
    last = ([separator] * PAST + rows)[: -PAST - 1 : -1]
    first = np.maximum(0, model.b + sum(tables[row, i] for i, row in enumerate(last)) + model.c * memory)
    second = np.maximum(0, first @ model.w1 + model.b1)
    hidden = np.concatenate([first, second])
    y = hidden @ model.w2 + model.b2
    y = (y - y.mean()) / np.sqrt(y.var() + 1e-5)
    scores: np.ndarray = numbers(model.output) @ y + model.bias + hidden @ model.level
    return scores


@njit
def _scores_after(lookup: Lookup, text: np.ndarray, memory: np.ndarray, scores: np.ndarray) -> None:
    start_text(lookup.model, memory)
    for token in text:
        remember(lookup.model, token, memory, memory)
    read_node(lookup, text[-PAST:], memory)
    score_frequent(lookup)
    for row in range(len(scores)):
        scores[row] = score_of(lookup, row)


def scores_after(lookup: Lookup, text: list[int]) -> np.ndarray:
    scores = np.zeros(len(lookup.model.bias), np.float32)
    _scores_after(lookup, np.array(text), np.zeros(HIDDEN, np.float32), scores)
    return scores


def test_compiled_scores_are_those_of_the_formula(tmp_path: Path) -> None:
    model = open_lookup(write_lookup(tmp_path / "l", random_network(VOCABULARY), first=7)).model
    lookup = lookup_of(model)
    assert lookup.frequent.tolist() == [*range(7, 70), 0], "whole tiles, in the order of rows"
    for text in ([3], list(range(20)), [5, 5, 69, 0] * 9):
        expected = by_formula(model, text)
        np.testing.assert_allclose(scores_after(lookup, text), np.clip(expected, LEAST, 0), atol=1e-4)
        np.testing.assert_allclose(lookup.scores, expected[: len(lookup.scores)], atol=1e-4)


def test_they_are_those_of_the_network_that_learned_it(tmp_path: Path) -> None:
    network = random_network(VOCABULARY)
    lookup = lookup_of(open_lookup(write_lookup(tmp_path / "l", network)).model)
    text = np.random.default_rng(0).integers(VOCABULARY, size=40).tolist()
    rows = torch.tensor([[VOCABULARY] * PAST + text])
    with torch.no_grad():
        y, level, _ = network(rows, torch.zeros(1, HIDDEN))
        expected = y[0, -1] @ network.embedding.T + network.bias + level[0, -1]
    np.testing.assert_allclose(scores_after(lookup, text), expected.numpy().clip(LEAST, 0), atol=0.05)


def test_weights_that_are_no_numbers_make_scores_that_are(tmp_path: Path) -> None:
    network = random_network(VOCABULARY)
    with torch.no_grad():
        network.w2.fill_(torch.nan)
    scores = scores_after(lookup_of(open_lookup(write_lookup(tmp_path / "l", network)).model), [1, 2])
    assert (scores == LEAST).all()


def test_a_damaged_or_foreign_file_is_refused(tmp_path: Path) -> None:
    path = write_lookup(tmp_path / "l", random_network(VOCABULARY))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(BadInput, match="is damaged"):
        open_lookup(path)
    header = {"tokenizer": "t", "vocabulary": "9"}
    write_suffixes(tmp_path / "s", with_separators([np.arange(9)], 9), header)
    with pytest.raises(BadInput, match="is a suffix file, and a look-up file is needed: build it with lookup=FILE"):
        open_lookup(tmp_path / "s")


def test_frequent_tokens_that_share_a_row_are_refused(tmp_path: Path) -> None:
    network = random_network(VOCABULARY)
    header = {"format": FORMAT, "version": VERSION, "tokenizer": "t", "vocabulary": str(VOCABULARY)}
    for rows in (np.zeros(VOCABULARY + 1, np.int32), np.arange(1, VOCABULARY + 2, dtype=np.int32)):
        write_arrays(tmp_path / "l", header, {"rows": rows, **network.tables()})
        with pytest.raises(BadInput, match="its arrays do not fit together"):
            open_lookup(tmp_path / "l")
