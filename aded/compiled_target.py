"""A target whose steps are compiled: stock modelling code, a static KV cache and one graph for every size of tree.

The graph is traced once, with symbols for the tree's nodes, the rows they see and the slabs' rows, so that a token
alone and a token in a tree run through the same code and get the same logits to the last bit. Prompts, each of
another length, are read eagerly.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

from aded import step_modules
from aded.choice import Greedy
from aded.static_cache import StaticCache
from aded.transformers_target import TransformersTarget
from aded.tree import DraftTree
from aded.tree_mask import Mask

ROWS = 1024
"""The slabs grow by whole multiples of this many rows."""
INDUCTOR = {
    # The operations of aded.step_ops have threads; those between are small, and waiting for threads costs more.
    "cpp.threads": 1,
    "size_asserts": False,
}


class CompiledTarget(TransformersTarget):
    """See TransformersTarget. backend: torch.compile's; compile_seconds: what the first step took, all included."""

    def __init__(self, model: PreTrainedModel, backend: str = "inductor") -> None:
        if next(model.parameters()).device.type == "cpu":
            step_modules.prepare(model)
        super().__init__(model)
        self.mask.always = True
        # A step's inputs are always of one kind, see _forward: no call needs to look whether the graph fits.
        options: dict[str, Any] = {"guard_filter_fn": torch.compiler.skip_all_guards_unsafe}
        if backend == "inductor":
            options |= INDUCTOR
        # Isolated, or else the graph of one target would pass for another's.
        self._compiled: Callable[..., tuple[torch.Tensor, torch.Tensor]] = torch.compile(  # type: ignore[call-overload]
            self._forward_step, backend=backend, fullgraph=True, isolate_recompiles=True, options=options
        )
        self._traced = False
        self.compile_seconds = self._compile()

    def describe(self) -> dict[str, object]:
        """For the run's record; see Target.describe."""
        return {"engine": "compiled", "compile_seconds": round(self.compile_seconds, 2)}

    def _compile(self) -> float:
        began = perf_counter()
        # Sizes that differ from each other: equal ones would become one symbol.
        self.prefill(np.arange(7) % 5, Greedy(), 16)
        self.verify(DraftTree.chain(0, [1, 2]))
        return perf_counter() - began

    def _start_cache(self, rows: int) -> None:
        if self._cache is None or self._cache.capacity < rows:
            self._cache = StaticCache(self.config, -(-rows // ROWS) * ROWS)
        self._cache.start()

    def _forward(
        self, ids: torch.Tensor, positions: torch.Tensor, mask: Mask | None, logits_to_keep: int = 0
    ) -> torch.Tensor:
        cache = self._cache
        assert isinstance(cache, StaticCache)
        rows = torch.arange(cache.length, cache.length + ids.shape[1], device=self.device)
        cache.length += ids.shape[1]
        if mask is None:
            cache.place.rows, cache.place.visible = rows, cache.length
            return super()._forward(ids, positions, None, logits_to_keep)
        if not self._traced:
            _mark_sizes(cache, ids, positions, mask, rows)
            self._traced = True
        logits, self._hidden = self._compiled(cache, ids, positions, mask, rows)
        return logits

    def _forward_step(
        self, cache: StaticCache, ids: torch.Tensor, positions: torch.Tensor, mask: Mask, rows: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """What is compiled: [1, n] ids and positions, their mask and slab rows, to logits and hidden states."""
        cache.place.rows = rows
        cache.place.visible = _masks(mask)[0].shape[-1]
        logits = super()._forward(ids, positions, mask)
        assert self._hidden is not None
        return logits, self._hidden


def _masks(mask: Mask) -> list[torch.Tensor]:
    return list(mask.values()) if isinstance(mask, dict) else [mask]


def _mark_sizes(
    cache: StaticCache, ids: torch.Tensor, positions: torch.Tensor, mask: Mask, rows: torch.Tensor
) -> None:
    """Tell the tracer which sizes differ from step to step: nodes, visible rows, the slabs' rows."""
    sized = [(ids, 1), (positions, 1), (rows, 0)]
    for masking in _masks(mask):
        sized += [(masking, 2), (masking, 3)]
    for slab in cache.slabs:
        assert slab.keys is not None
        assert slab.values is not None
        sized += [(slab.keys, 2), (slab.values, 2)]
    for tensor, dimension in sized:
        torch._dynamo.mark_dynamic(tensor, dimension)
