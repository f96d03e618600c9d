"""Verification by rejection: random drafts, accepted so that the output has the target's distribution.

A drafter that knows its own distribution q draws its tokens from it. A drafted token x is then accepted with
probability min(1, p(x) / q(x)), where p is the target's; where none is accepted, the next token is drawn from what p
has left, the normalised max(0, p - q) (Leviathan et al., arXiv 2211.17192; Chen et al., arXiv 2302.01318). Siblings
were drawn without replacement, and each is held against what those before it left of p and q (SpecInfer, arXiv
2305.09781, algorithm 2; without replacement as in arXiv 2402.14160). The output is distributed as that of
autoregressive decoding, and other random numbers than its decide it: it is not the same, token by token.

Of a chain each token is accepted with probability sum(min(p, q)). A drafter without a distribution drafts trees that
are no random draw: then one draw from p, which accepts with the sum of p over the children, is the best there is, and
it is what happens here too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from aded.core.sampler import Sampled, pick, random_at
from aded.core.tree import DraftTree

if TYPE_CHECKING:
    import torch


@njit(cache=True)
def accept(p: np.ndarray, q: np.ndarray, tokens: np.ndarray, uniforms: np.ndarray) -> int:
    """Which of the drawn tokens is accepted, or -1; then `p` is what the next token is to be drawn from.

    p, q: float64 [vocabulary], the target's and the drafter's distribution; both are changed
    tokens: int64 [m], drawn from q in this order, without replacement
    uniforms: float64 [m], in [0, 1)
    """
    for i, token in enumerate(tokens):
        if uniforms[i] * q[token] < p[token]:
            return i
        left = np.maximum(p - q, 0.0)
        mass = left.sum()
        if mass > 0.0:
            p[:] = left / mass
        else:  # p and q are equal but for rounding
            p[token] = 0.0
            p /= p.sum()
        q[token] = 0.0
        others = q.sum()
        if others > 0.0:
            q /= others
    return -1


def drawn(q: np.ndarray, count: int, random: np.random.Generator) -> np.ndarray:
    """int64 [m <= count]: different tokens, drawn one by one from q, float64 [vocabulary]."""
    # The largest sums of log q and Gumbel noise, in falling order, are draws without replacement.
    with np.errstate(divide="ignore"):
        keys = np.log(q) + random.gumbel(size=len(q))
    count = min(count, int(np.count_nonzero(q)))
    best = np.argpartition(-keys, count - 1)[:count]
    return best[np.argsort(-keys[best])]


@dataclass(frozen=True)
class Rejection(Sampled):
    """See above. The random numbers of an output position depend on (seed, position) alone."""

    def walk(self, tree: DraftTree, logits: torch.Tensor | None, position: int) -> tuple[list[int], int]:
        assert logits is not None
        if tree.drawn is None:
            return super().walk(tree, logits, position)
        path = [0]
        while True:
            node = path[-1]
            p = self.distribution(logits[node]).cpu()
            random = random_at(self.seed, position + len(path) - 1)
            children = np.flatnonzero(tree.parents == node)
            if len(children):
                q = np.zeros(len(p))
                q[: len(tree.drawn[node])] = tree.drawn[node]
                found = accept(p.numpy(), q, tree.tokens[children], random.random(len(children)))
                if found >= 0:
                    path.append(int(children[found]))
                    continue
            return path, pick(p, float(random.random()))
