"""A transformer of a few layers reads the text and the most probable nodes of a draft, per step in one batch.

    x = embedding[token]
    per layer:  q, k, v = norm(x) qkv;   x += attention(rotate(norm(q)), rotate(norm(k)), v) out
                x += relu(norm(x) up)^2 down
    log p(next token) = log softmax(norm(x) output)

norm(x) is x over its root mean square. A token attends to about WINDOW tokens before it, a node to its ancestors too.
It is small enough for NumPy.
"""

from __future__ import annotations

import numpy as np

from aded.drafters.backoff.transformer.predictions import NODES, no_predictions
from aded.drafters.backoff.transformer.weights import HEAD, TRANSFORMER_KEY, Weights, read_weights
from aded.errors import BadInput
from aded.files.datastores.ngram_file import NgramFile

WINDOW = 128
"""Tokens of the text that are kept, and the most that are read at once."""
ROWS = 4 * WINDOW + NODES
"""Rows of the cache: those of the text move to its beginning when it is full."""
BASE = 10_000.0
"""Of rotary positions (arXiv 2104.09864)."""


def norm(x: np.ndarray) -> np.ndarray:
    """float32 [..., width]"""
    squares: np.ndarray = np.einsum("...i,...i->...", x, x)[..., None]
    return x / np.sqrt(squares / np.float32(x.shape[-1]) + np.float32(1e-6))


def rotate(x: np.ndarray, angles: np.ndarray) -> np.ndarray:
    """x: float32 [n, heads, HEAD]; angles: float64 [n, HEAD / 2]"""
    cos, sin = (f(angles).astype(np.float32)[:, None] for f in (np.cos, np.sin))
    a, b = x[..., : HEAD // 2], x[..., HEAD // 2 :]
    return np.concatenate([a * cos - b * sin, a * sin + b * cos], -1)


def softmax(scores: np.ndarray) -> np.ndarray:
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


class Reader:
    """predictions: after the nodes of the latest `read`; learned_from: where the weights come from."""

    def __init__(self, weights: Weights, learned_from: str = "an unknown source") -> None:
        self.learned_from = learned_from
        self.weights, self.predictions = weights, no_predictions(weights.tokens)
        layers, width = len(weights.qkv), weights.embedding.shape[1]
        self._keys = np.zeros((layers, width // HEAD, ROWS, HEAD), np.float32)
        self._values = np.zeros_like(self._keys)
        self._frequencies = BASE ** (-np.arange(0, HEAD, 2) / HEAD)
        self.forget()

    def forget(self) -> None:
        """The text so far, and all nodes."""
        self._rows = self._position = 0
        self.predictions.nodes[0] = 0

    def read(self, text: np.ndarray, nodes: np.ndarray, parents: np.ndarray) -> None:
        """Read the text's next tokens, the last of which is the root, and nodes below it.

        text: int64 [m >= 1], of which the last WINDOW are read
        nodes, parents: int64 [n <= NODES], parents before children; they count from 1, and the root is 0
        """
        text = text[-WINDOW:]
        m, n, predictions = len(text), len(nodes), self.predictions
        before = self._room(m + n)
        predictions.tokens[0], predictions.tokens[1 : n + 1] = text[-1], nodes
        predictions.parents[0], predictions.parents[1 : n + 1] = -1, parents
        hidden_from, depths = _below(m, predictions.parents[: n + 1])
        x = self._layers(np.concatenate([text, nodes]), self._position + depths, before, hidden_from)
        logits = norm(x[m - 1 :]) @ self.weights.output
        logits -= logits.max(-1, keepdims=True)
        np.subtract(logits, np.log(np.exp(logits).sum(-1, keepdims=True)), out=predictions.logarithms[: n + 1])
        predictions.nodes[0] = n + 1
        self._rows, self._position = self._rows + m, self._position + m

    def _room(self, new: int) -> slice:
        """Make room for so many rows behind the text; return the text's last rows, which new ones attend to."""
        if self._rows + new > ROWS:
            last = slice(self._rows - WINDOW, self._rows)
            for cache in (self._keys, self._values):
                cache[:, :, :WINDOW] = cache[:, :, last]
            self._rows = WINDOW
        return slice(max(0, self._rows - WINDOW), self._rows)

    def _layers(self, tokens: np.ndarray, positions: np.ndarray, before: slice, hidden: np.ndarray) -> np.ndarray:
        """float32 [k, width], what leaves the last layer. Keys and values go behind the text.

        before: rows of the cache that all tokens attend to
        hidden: float32 [k, k], 0 where one token (row) attends to another, -inf elsewhere
        """
        weights, k = self.weights, len(tokens)
        rows, seen = slice(before.stop, before.stop + k), slice(before.start, before.stop + k)
        angles = positions[:, None] * self._frequencies
        places = self.predictions.places
        x = norm(weights.embedding[places[np.minimum(tokens, len(places) - 1)]])  # -1 is the last row
        for layer, keys, values in zip(range(len(weights.qkv)), self._keys, self._values, strict=True):
            queries, new_keys, new_values = np.split((norm(x) @ weights.qkv[layer]).reshape(k, -1, HEAD), 3, 1)
            keys[:, rows] = rotate(norm(new_keys), angles).swapaxes(0, 1)
            values[:, rows] = new_values.swapaxes(0, 1)
            scores = rotate(norm(queries), angles).swapaxes(0, 1) @ keys[:, seen].swapaxes(1, 2)
            scores[:, :, before.stop - before.start :] += hidden
            heads = (softmax(scores) @ values[:, seen]).swapaxes(0, 1)
            x = x + heads.reshape(k, -1) @ weights.out[layer]
            x = x + np.square(np.maximum(norm(x) @ weights.up[layer], 0)) @ weights.down[layer]
        return x


def _below(m: int, parents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What m tokens of the text and the nodes below the last one attend to, and where they stand.

    parents: int64 [n + 1], the root's first
    Returns (float32 [m + n, m + n]: 0 or -inf, int64 [m + n]: 0 for the first token of the text).
    """
    k = m + len(parents) - 1
    attends, at = np.tri(k, dtype=np.bool_), np.arange(k)
    for node in range(1, len(parents)):
        row, parent = m - 1 + node, m - 1 + parents[node]
        attends[row] = attends[parent]
        attends[row, row] = True
        at[row] = at[parent] + 1
    return np.where(attends, np.float32(0), np.float32(-np.inf)), at


def open_transformer(path: str, datastore: NgramFile) -> Reader:
    """A reader with the file's weights. Raises BadInput, naming the key, unless it is for the datastore's
    tokenizer."""
    weights, facts = read_weights(path)
    if datastore.has_ngrams and facts.get("tokenizer") != datastore.header["tokenizer"]:
        raise BadInput(TRANSFORMER_KEY, f"{path} is for another tokenizer than the datastore {datastore.path}")
    return Reader(weights, facts.get("learned_from", "an unknown source"))
