"""The largest numbers of rows, such as a vocabulary's logits, read once (cpp/top_k.h), or by torch elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def top_k(rows: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """(values float32 [n, k], indices int64 [n, k]) of float [n, size], the largest first."""
    if _ours(rows):
        import torch

        return torch.ops.aded.top_k(rows, k)
    found = rows.float().topk(k)
    return found.values, found.indices


def argmax(row: torch.Tensor) -> int:
    """The index of the largest of float [size], the first of several equal ones."""
    if _ours(row):
        import torch

        return int(torch.ops.aded.top_k(row[None], 1)[1])
    return int(row.float().argmax())  # on a processor torch is slow to compare bfloat16


def _ours(rows: torch.Tensor) -> bool:
    import torch  # here and above: what needs no logits needs no torch

    from aded.kernels import ops

    return rows.device.type == "cpu" and rows.dtype in (torch.float32, torch.bfloat16) and ops.loaded()
