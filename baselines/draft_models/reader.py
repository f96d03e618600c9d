"""A model that reads a text and, behind it, the tree that it drafts.

It is a target's engine, with its KV cache and its tree attention; nothing is sampled. The rows of nodes that the
text then goes on with are kept, so each token is read once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from weakref import WeakKeyDictionary

import numpy as np
import torch

from aded.core.sampler import Greedy
from aded.core.target import Target
from aded.core.tree import DraftTree
from aded.targets.eager import EagerTarget
from aded.targets.engine import with_engine

ROWS_AT_ONCE = 256
"""Tokens of a text that are read in one forward: each has logits of the whole vocabulary."""

_beside: WeakKeyDictionary[Target, dict[Hashable, EagerTarget]] = WeakKeyDictionary()
"""Drafting models by the target that they were made for: a second drafter need not wait for them."""


def model_beside(target: Target, key: Hashable, make: Callable[[], EagerTarget], cache: str) -> EagerTarget:
    """The drafting model of this key, made once for a target, on the target's engine; with a KV cache of its own.

    On a GPU it is run eagerly: graphs are captured for whole trees, and drafting reads them level by level.

    cache: folder for compiled code.
    """
    known = _beside.setdefault(target, {})
    if key not in known:
        made = make()
        compiled = target.describe()["engine"] == "compiled" and made.device.type == "cpu"
        engine = with_engine(made, "compiled" if compiled else "eager", cache)
        assert isinstance(engine, EagerTarget)
        known[key] = engine
    return known[key].fork()


class Reader:
    """Reads with `model`. most: nodes that a draft reads below its root."""

    def __init__(self, model: EagerTarget, most: int) -> None:
        self.model, self.most = model, most
        self._tree = DraftTree.root(0)
        """What was read last, from a token of the text on; its rows are the last ones of the cache."""

    def begin(self, prompt_ids: np.ndarray) -> None:
        """Read the prompt, int64 [m]."""
        self.model.prefill(prompt_ids, Greedy(), self.most + 1)
        self._tree = DraftTree.root(int(prompt_ids[-1]))

    def follow(self, context: np.ndarray) -> torch.Tensor | None:
        """[1, vocabulary]: logits behind the text, which goes on from what was read; None where all of it was.

        Keeps the rows of the tree's nodes that are the text now, and reads the rest of it.
        """
        root = self.model.cache.length - len(self._tree)
        path = [0]
        for token in context[root + 1 : -1].tolist():
            child = self._tree.child(path[-1], token)
            if child is None:
                break
            path.append(child)
        self.model.cache.keep(root, path)
        self._tree = DraftTree.root(int(context[-1]))
        rest = context[root + len(path) :].tolist()
        logits = None
        if rest:
            self.model.prepare(len(context) + self.most, Greedy())
        for first in range(0, len(rest), ROWS_AT_ONCE):
            token, *behind = rest[first : first + ROWS_AT_ONCE]
            logits = self.model.read(DraftTree.chain(token, behind))[-1:]
        return logits

    def read(self, tree: DraftTree) -> torch.Tensor:
        """[new nodes, vocabulary]: logits of the tree's nodes that `follow` and earlier calls have not read.

        tree: below the text's last token; it begins with the nodes of the call before.
        """
        since = len(self._tree)
        self._tree = tree
        return self.model.read(tree, since)
