"""What all drafters with a model share: a model that reads a text and, behind it, the tree that it drafts.

It is a target's engine, with its KV cache and its tree attention; nothing is sampled. The tree is grown, and read,
level by level. The rows of nodes that the text then goes on with are kept, so each token is read once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Annotated
from weakref import WeakKeyDictionary

import numpy as np
import torch
from pydantic import Field

from aded.core.drafter import Drafter
from aded.core.sampler import Greedy, Sampled, random_at, top_k
from aded.core.target import Target
from aded.core.tree import DraftTree
from aded.errors import BadInput
from aded.settings import Count
from aded.targets.eager import EagerTarget
from aded.targets.engine import with_engine
from baselines.growth import DrawnGrowth, Growth, Shape

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


Branches = Annotated[Sequence[Count], Field(min_length=1)]


class ModelDrafter(Drafter):
    """Drafts by `shape`. A subclass calls `use` when it is set up.

    It reads tokens alone. Nothing outlives an answer.
    """

    adaptation = "off"

    def __init__(self, shape: Shape) -> None:
        self.shape, self.budget = shape, shape.budget
        self._reader: Reader | None = None
        self._sampler: Sampled | None = None
        self._seed = 0
        self._is_full = False
        """Has the latest prompt no position left in the model?"""

    def use(self, model: EagerTarget, vocabulary: int) -> None:
        """Draft with `model`, of which only the first `vocabulary` tokens are drafted."""
        self.vocabulary = vocabulary
        self._reader = Reader(model, self.shape.depth * self.shape.beam)

    @property
    def reader(self) -> Reader:
        if self._reader is None:
            raise BadInput(
                "method", f"{type(self).__name__} drafts with a model, so it needs a target of this harness"
            )
        return self._reader

    def draw_by(self, sampler: Sampled | None) -> None:
        self._sampler = sampler

    @property
    def why_no_draft(self) -> str | None:
        positions = self.reader.model.context_length
        return f"its model has {positions} positions, fewer than the prompts have tokens" if self._is_full else None

    def begin(self, prompt_ids: np.ndarray, seed: int = 0) -> None:
        self._seed = seed
        self._is_full = self._levels(prompt_ids) <= 0
        if not self._is_full:
            self.reader.begin(prompt_ids)

    def _levels(self, context: np.ndarray) -> int:
        """How many levels have positions that the model knows, with at most `depth`."""
        room = self.reader.model.context_length - len(context) + 1
        return min(self.shape.depth, room) if self.budget else 0

    @torch.inference_mode()
    def draft(self, context: np.ndarray) -> DraftTree:
        growth, levels = self._growth(context), self._levels(context)
        logits = self.reader.follow(context) if levels > 0 else None
        if logits is None:
            return growth.draft()
        self._add(growth, logits)
        while growth.level < levels and growth.read_next():
            self._add(growth, self.reader.read(growth.read_tree()))
        return growth.draft()

    def _growth(self, context: np.ndarray) -> Growth:
        root = int(context[-1])
        if self._sampler is None:
            return Growth(root, self.shape)
        return DrawnGrowth(root, self.shape, self._sampler, random_at(self._seed, len(context)))

    def _add(self, growth: Growth, logits: torch.Tensor) -> None:
        logits = logits[:, : self.vocabulary].float()
        if isinstance(growth, DrawnGrowth):
            growth.draw(logits)
            return
        values, tokens = top_k(logits, min(growth.branches, logits.shape[1]))
        probabilities = (values - logits.logsumexp(dim=-1, keepdim=True)).exp().double()
        growth.add(tokens.cpu().numpy(), probabilities.cpu().numpy())
