"""Autoregressive decoding: no drafts, one token per step."""

from __future__ import annotations

import numpy as np

from aded.core.drafter import Drafter
from aded.core.tree import DraftTree


class Autoregressive(Drafter):
    """The baseline of every speedup: the same loop, cache and clock, with a root-only tree."""

    learned_from = frozenset()
    adaptation = "off"
    budget = 0

    def draft(self, context: np.ndarray) -> DraftTree:
        return DraftTree.root(int(context[-1]))
