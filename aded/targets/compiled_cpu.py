"""A target whose steps are compiled: stock modelling code, a static KV cache and one graph for every size of tree.

The graph is traced once, with symbols for the tree's nodes, the rows they see and the slabs' rows, so that a token
alone and a token in a tree run through the same code and get the same logits to the last bit. Prompts, each of
another length, are read eagerly.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import numba
import numpy as np
import torch
from transformers import PreTrainedModel

from aded.core.sampler import Greedy
from aded.core.tree import DraftTree
from aded.kernels import install
from aded.targets.eager import TransformersTarget
from aded.targets.static_cache import StaticCache
from aded.targets.tree_mask import Mask

ROWS = 1024
"""The slabs grow by whole multiples of this many rows."""
Forward = Callable[[StaticCache, torch.Tensor, torch.Tensor, Mask, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]
"""(cache, [1, n] ids, [1, n] positions, mask, [n] slab rows) -> [n, vocabulary] logits, [n, hidden] hidden states."""


class CompiledTarget(TransformersTarget):
    """See TransformersTarget. backend: torch.compile's; compile_seconds: until the first step was done."""

    tuning: dict[str, object] = {  # noqa: RUF012 - read only
        # The operations of aded.kernels.compiled_ops have threads; those between are small, and waiting for threads costs more.
        "cpp.threads": 1,
        "size_asserts": False,
        # Calls between the operations go through C++, not Python; as there is little work in them, unoptimised.
        "cpp_wrapper": True,
        "cpp_wrapper_build_separate": True,
        "aot_inductor.compile_wrapper_opt_level": "O0",
    }
    """Options of inductor."""

    def __init__(self, model: PreTrainedModel, backend: str = "inductor") -> None:
        if next(model.parameters()).device.type == "cpu":
            install.prepare(model)
            torch.set_num_threads(numba.get_num_threads())  # our operations take their threads from torch's
        super().__init__(model)
        self.mask.always = True
        self._backend = backend
        began = perf_counter()
        self._compile()
        self.compile_seconds = perf_counter() - began

    def describe(self) -> dict[str, object]:
        """For the run's record; see Target.describe."""
        return {"engine": "compiled", "compile_seconds": round(self.compile_seconds, 2)}

    def _compile(self) -> None:
        """Trace and compile by a first step, whose sizes all differ: equal ones would become one symbol."""
        self._step_forward = self._new_graph()
        self.prefill(np.arange(7) % 5, Greedy(), 16)
        self.verify(DraftTree.chain(0, [1, 2]))

    def _new_graph(self) -> Forward:
        """A compiled forward, traced when it is first called: for one node, or for every other number of them."""
        # A step's inputs are always of one kind: no call needs to look whether the graph fits.
        options: dict[str, Any] = {"guard_filter_fn": torch.compiler.skip_all_guards_unsafe}
        if self._backend == "inductor":
            options |= self.tuning
        # Isolated, or else the graph of one target would pass for another's.
        compiled: Forward = torch.compile(  # type: ignore[call-overload]
            self._forward_uncompiled, backend=self._backend, fullgraph=True, isolate_recompiles=True, options=options
        )
        traced = False

        def forward(
            cache: StaticCache, ids: torch.Tensor, positions: torch.Tensor, mask: Mask, rows: torch.Tensor
        ) -> tuple[torch.Tensor, torch.Tensor]:
            nonlocal traced
            if not traced:
                _mark_sizes(cache, ids, positions, mask, rows)
                traced = True
            return compiled(cache, ids, positions, mask, rows)

        return forward

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
        logits, self._hidden = self._step_forward(cache, ids, positions, mask, rows)
        return logits

    def _forward_uncompiled(
        self, cache: StaticCache, ids: torch.Tensor, positions: torch.Tensor, mask: Mask, rows: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """What is compiled, see Forward."""
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
    sized = [(masking, 3) for masking in _masks(mask)]
    if len(rows) > 1:
        sized += [(ids, 1), (positions, 1), (rows, 0), *((masking, 2) for masking in _masks(mask))]
    for slab in cache.slabs:
        assert slab.keys is not None
        assert slab.values is not None
        sized += [(slab.keys, 2), (slab.values, 2)]
    for tensor, dimension in sized:
        torch._dynamo.mark_dynamic(tensor, dimension)
