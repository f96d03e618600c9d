"""A target whose steps are compiled: stock modelling code, a static KV cache and one graph for every size of tree.

The graph is traced once, with symbols for the tree's nodes, the rows they see and the cache's rows, so that a token
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

from aded.core.sampler import Greedy
from aded.core.tree import DraftTree
from aded.targets.eager import EagerTarget
from aded.targets.kv_cache import KVCache
from aded.targets.self_check import SelfCheck
from aded.targets.tree_mask import Mask

Forward = Callable[[KVCache, torch.Tensor, torch.Tensor, Mask, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]
"""(cache, ids [1, n], positions [1, n], mask, cache rows [n]) -> (logits [n, vocabulary], hidden [n, hidden])."""


class CompiledCpuTarget(EagerTarget):
    """See EagerTarget. backend: torch.compile's; compile_seconds: until the first step was done."""

    tuning: dict[str, object] = {  # noqa: RUF012 - read only
        # Our own operations have threads; those between are small, and waiting for threads costs more.
        "cpp.threads": 1,
        "size_asserts": False,
        # Calls between the operations go through C++, not Python; as there is little work in them, unoptimised.
        "cpp_wrapper": True,
        "cpp_wrapper_build_separate": True,
        "aot_inductor.compile_wrapper_opt_level": "O0",
    }
    """Options of inductor."""
    cache_granularity = 1024

    def __init__(
        self,
        model: PreTrainedModel,
        backend: str = "inductor",
        *,
        trained: bool = True,
        check: SelfCheck | None = None,
    ) -> None:
        super().__init__(model, trained=trained, check=check)
        self.mask.always = True
        self._backend = backend
        began = perf_counter()
        try:
            self._compile()
        except BaseException:
            self.release()
            raise
        self.compile_seconds = perf_counter() - began

    def describe(self) -> dict[str, object]:
        """For the run's record; see Target.describe."""
        return {**super().describe(), "engine": "compiled", "compile_seconds": round(self.compile_seconds, 2)}

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
            self._forward_uncompiled,
            backend=self._backend,
            fullgraph=True,
            dynamic=True,
            isolate_recompiles=True,
            options=options,
        )
        traced = False

        def forward(
            cache: KVCache, ids: torch.Tensor, positions: torch.Tensor, mask: Mask, rows: torch.Tensor
        ) -> tuple[torch.Tensor, torch.Tensor]:
            nonlocal traced
            if not traced:
                _mark_fixed_sizes(cache)
                traced = True
            return compiled(cache, ids, positions, mask, rows)

        return forward

    def _forward(
        self, ids: torch.Tensor, positions: torch.Tensor, mask: Mask | None, logits_to_keep: int = 0
    ) -> torch.Tensor:
        if mask is None:
            return super()._forward(ids, positions, None, logits_to_keep)
        rows = self.cache.extend(ids.shape[1], self.device)
        logits, self.last.hidden = self._step_forward(self.cache, ids, positions, mask, rows)
        return logits

    def _forward_uncompiled(
        self, cache: KVCache, ids: torch.Tensor, positions: torch.Tensor, mask: Mask, rows: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """What is compiled, see Forward."""
        cache.place.rows = rows
        cache.place.visible = _masks(mask)[0].shape[-1]
        logits = self._call_model(cache, ids, positions, mask)
        assert self.last.hidden is not None
        return logits, self.last.hidden


def _masks(mask: Mask) -> list[torch.Tensor]:
    return list(mask.values()) if isinstance(mask, dict) else [mask]


def _mark_fixed_sizes(cache: KVCache) -> None:
    """Tell the tracer that heads and their sizes are the same in every step.

    All other sizes differ from step to step: nodes, visible rows, the cache's rows. Equal ones share a symbol, since
    each symbol costs time in every step.
    """
    for layer in cache.kv_layers:
        for memory in (layer.keys, layer.values):
            torch._dynamo.mark_static(memory, [1, 3])
