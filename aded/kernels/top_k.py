"""The most probable tokens of rows of logits."""

from __future__ import annotations

import numpy as np
import torch
from numba import njit, types
from numba.extending import overload

BLOCK = 64


def argmax(row: torch.Tensor) -> int:
    """The token of the largest logit, the first of several equal ones. row: [vocabulary]."""
    if row.device.type == "cpu":
        return int(row.float().numpy().argmax())
    return int(row.argmax())


def top(logits: torch.Tensor, k: int) -> tuple[np.ndarray, np.ndarray]:
    """(tokens int64 [n, k], logits float32 [n, k]): the k largest of each row, largest first; equal logits by token.

    logits: [n, vocabulary].
    """
    k = min(k, logits.shape[-1])
    if logits.device.type != "cpu":
        best = torch.topk(logits.float(), k)
        return best.indices.cpu().numpy(), best.values.cpu().numpy()
    tokens = np.empty((len(logits), k), np.int64)
    bits = logits.dtype == torch.bfloat16
    _top(logits.contiguous().view(torch.int16).numpy() if bits else logits.float().numpy(), tokens)
    return tokens, logits.gather(1, torch.from_numpy(tokens)).float().numpy()


def _order(number):  # type: ignore[no-untyped-def]
    """A number that sorts as the logit does: float32 itself; the bits of bfloat16, inverted where negative.

    Sorting the bits saves a float32 copy of the logits.
    """


@overload(_order, inline="always")
def _order_of(number):  # type: ignore[no-untyped-def]
    if isinstance(number, types.Float):
        return lambda number: number
    return lambda number: np.int16(number ^ (np.int16(number >> np.int16(15)) & np.int16(0x7FFF)))


@njit(cache=True)
def _top(logits: np.ndarray, tokens: np.ndarray) -> None:
    """Insert into a short sorted row. A block whose vectorised maximum is below the k-th largest so far is skipped.

    logits: float32 or bfloat16 bits [n, vocabulary].
    tokens: int64 [n, k], receives the result.
    """
    n, vocabulary = logits.shape
    k = tokens.shape[1]
    values = np.empty(k, logits.dtype)  # results of _order
    for r in range(n):
        found = 0
        for start in range(0, vocabulary, BLOCK):
            end = min(vocabulary, start + BLOCK)
            largest = _order(logits[r, start])
            for i in range(start, end):
                largest = max(largest, _order(logits[r, i]))
            if found == k and largest <= values[k - 1]:
                continue
            for i in range(start, end):
                value = _order(logits[r, i])
                if found == k and value <= values[k - 1]:
                    continue
                at = min(found, k - 1)
                while at > 0 and values[at - 1] < value:
                    values[at], tokens[r, at] = values[at - 1], tokens[r, at - 1]
                    at -= 1
                values[at], tokens[r, at] = value, i
                found = min(found + 1, k)
