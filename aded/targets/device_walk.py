"""The walk of accepted drafts on the device that has the logits, so that a greedy step has one transfer back."""

from __future__ import annotations

import torch


def walk(
    logits: torch.Tensor, tokens: torch.Tensor, parents: torch.Tensor, ancestors: torch.Tensor, live: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """(result, order) of a greedy step; the same path as aded.core.sampler.Greedy.walk.

    logits: [n, vocabulary]; tokens, parents: int64 [n], the root's parent any node; ancestors: bool [n, n], see
    DraftTree; live: bool [n], False for nodes that only pad the tree. result: int64 [n + 2], the path's length, the
    bonus token, then the order: the path's nodes (they increase) and behind them all others. order: int64 [n].
    """
    choices = logits.argmax(dim=-1)
    agrees = (tokens == choices[parents]) & live
    agrees[0] = True
    # A node is accepted when it and all above it are what the target chose at their parents.
    accepted = (agrees | ~ancestors).all(dim=1) & live
    order = torch.argsort(~accepted, stable=True)
    length = accepted.sum()
    last = order.gather(0, (length - 1)[None])
    return torch.cat([length[None], choices[last], order]), order
