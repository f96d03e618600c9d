"""What the reader says of texts and nodes, against the same layers without a cache."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scored_by_hand import random_transformer
from torch.nn.functional import relu, rms_norm

from aded.drafters.backoff.transformer.predictions import NODES
from aded.drafters.backoff.transformer.reader import ROWS, WINDOW, Reader
from aded.drafters.backoff.transformer.weights import HEAD

WEIGHTS = random_transformer(np.random.default_rng(0), tokens=np.arange(3, 63, 2), width=64, layers=2)
NONE = np.empty(0, np.int64)


def norm(x: torch.Tensor) -> torch.Tensor:
    return rms_norm(x, x.shape[-1:], eps=1e-6)


def rotate(x: torch.Tensor) -> torch.Tensor:
    """[n, heads, HEAD], as complex numbers that turn with their place."""
    turns = torch.outer(torch.arange(len(x)), 10_000.0 ** (-torch.arange(0, HEAD, 2) / HEAD)).double()
    turned = (
        torch.complex(x[..., : HEAD // 2], x[..., HEAD // 2 :]) * torch.polar(torch.ones_like(turns), turns)[:, None]
    )
    return torch.cat([turned.real, turned.imag], -1)


def by_hand(text: np.ndarray) -> np.ndarray:
    """float64 [outputs]: log-probabilities after a text that is read token by token."""
    w = [
        torch.from_numpy(array) if array.dtype == np.int64 else torch.from_numpy(array).double() for array in WEIGHTS
    ]
    tokens, embedding, qkv, out, up, down, output = w
    places = [WEIGHTS.tokens.tolist().index(token) if token in WEIGHTS.tokens else len(tokens) for token in text]
    behind = torch.arange(len(text))[:, None] - torch.arange(len(text))
    x = norm(embedding[places])
    for layer in range(len(qkv)):
        q, k, v = (norm(x) @ qkv[layer]).unflatten(-1, (3, -1, HEAD)).unbind(1)
        scores = torch.einsum("ihd,jhd->hij", rotate(norm(q)), rotate(norm(k)))
        scores[:, (behind < 0) | (behind > WINDOW)] = -torch.inf
        x = x + torch.einsum("hij,jhd->ihd", scores.softmax(-1), v).flatten(1) @ out[layer]
        x = x + relu(norm(x) @ up[layer]) ** 2 @ down[layer]
    return (norm(x)[-1] @ output).log_softmax(-1).numpy()


@st.composite
def drafts(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """(tokens, parents) of up to NODES nodes."""
    n = draw(st.integers(0, NODES))
    parents = [draw(st.integers(0, node)) for node in range(n)]
    return [draw(st.integers(0, 70)) for _ in range(n)], parents


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(0, 70), min_size=1, max_size=6), min_size=1, max_size=4), drafts())
def test_each_node_is_read_as_the_end_of_its_path(
    pieces: list[list[int]], draft: tuple[list[int], list[int]]
) -> None:
    nodes, parents = (np.array(row, np.int64) for row in draft)
    reader = Reader(WEIGHTS)
    for piece in pieces:
        reader.read(np.array(piece), nodes, parents)
    paths = [[token for piece in pieces for token in piece]]
    for node, parent in zip(nodes, parents, strict=True):
        paths.append([*paths[parent], int(node)])
    for node, path in enumerate(paths):
        np.testing.assert_allclose(reader.predictions.logarithms[node], by_hand(np.array(path)), atol=1e-4)


def test_a_long_text_is_read_in_a_window_and_moves_through_the_cache() -> None:
    text = np.random.default_rng(1).integers(70, size=ROWS + 2 * WINDOW)
    reader = Reader(WEIGHTS)
    for end in range(1, len(text) + 1):
        reader.read(text[end - 1 : end], np.array([5, 7]), np.array([0, 1]))
        if end in (WINDOW, ROWS - 1, ROWS, ROWS + 1, len(text)):
            np.testing.assert_allclose(reader.predictions.logarithms[0], by_hand(text[:end]), atol=1e-4)


def test_of_many_tokens_at_once_the_last_are_read() -> None:
    text = np.random.default_rng(2).integers(70, size=5 * WINDOW)
    reader, other = Reader(WEIGHTS), Reader(WEIGHTS)
    reader.read(text, NONE, NONE)
    other.read(text[-WINDOW:], NONE, NONE)
    np.testing.assert_array_equal(reader.predictions.logarithms, other.predictions.logarithms)


@pytest.mark.parametrize("token", [0, 64, 10**6])
def test_a_token_without_an_output_is_any_other_token(token: int) -> None:
    found = []
    for unknown in (token, 4):
        reader = Reader(WEIGHTS)
        reader.read(np.array([3, unknown]), NONE, NONE)
        found.append(reader.predictions.logarithms[0].copy())
    np.testing.assert_array_equal(*found)
