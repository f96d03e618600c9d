"""The file of a small transformer: a safetensors file of scripts.train.transformer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os.path import expanduser
from typing import NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open

from aded.errors import BadInput

TRANSFORMER_KEY = "method.transformer"
HEAD = 32
"""Width of an attention head."""


class Weights(NamedTuple):
    """The outputs stand for the `tokens`, in their order; the last one stands for any other token.

    tokens: int64 [outputs - 1], ascending
    embedding: float32 [outputs, width]
    qkv: float32 [layers, width, 3 * width], queries, keys and values; of each, one head after another
    out: float32 [layers, width, width]
    up, down: float32 [layers, width, inner] and [layers, inner, width]
    output: float32 [width, outputs]
    """

    tokens: np.ndarray
    embedding: np.ndarray
    qkv: np.ndarray
    out: np.ndarray
    up: np.ndarray
    down: np.ndarray
    output: np.ndarray


def read_weights(path: str) -> tuple[Weights, Mapping[str, str]]:
    """The weights, and facts: `tokenizer`, its fingerprint, and `learned_from`. Raises BadInput, naming the key."""
    try:
        with safe_open(expanduser(path), "np") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
            facts = file.metadata() or {}
        weights = Weights(**tensors)
    except (OSError, SafetensorError, TypeError):
        raise BadInput(TRANSFORMER_KEY, f"{path} is no file of scripts.train.transformer") from None
    tokens, shapes = weights.tokens, [array.shape for array in weights]
    if not _fit(shapes):
        raise BadInput(TRANSFORMER_KEY, f"{path} has tensors whose shapes do not fit each other")
    if tokens.dtype.kind != "i" or tokens[0] < 0 or (np.diff(tokens) <= 0).any():
        raise BadInput(TRANSFORMER_KEY, f"{path} has tokens that do not ascend from 0 on")
    if not all(np.isfinite(array).all() for array in weights[1:]):
        raise BadInput(TRANSFORMER_KEY, f"{path} has weights that are no numbers")
    return Weights(tokens.astype(np.int64), *(array.astype(np.float32) for array in weights[1:])), facts


def _fit(shapes: Sequence[tuple[int, ...]]) -> bool:
    """Are these the shapes of Weights' arrays?"""
    if [len(shape) for shape in shapes] != [1, 2, 3, 3, 3, 3, 2]:
        return False
    (tokens,), (outputs, width), (layers, *_), _, (*_, inner), *_ = shapes
    return shapes == [
        (tokens,),
        (tokens + 1, width),
        (layers, width, 3 * width),
        (layers, width, width),
        (layers, width, inner),
        (layers, inner, width),
        (width, outputs),
    ] and not (tokens == 0 or layers == 0 or width % HEAD)
