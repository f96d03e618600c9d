"""A target whose steps are compiled: stock modelling code, a static KV cache and one graph for every size of tree.

The graph is traced once, with symbols for the tree's nodes, the rows they see and the cache's rows, so that a token
alone and a token in a tree run through the same code and get the same logits to the last bit. Prompts, each of
another length, are read eagerly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import perf_counter
from types import FunctionType, MethodType
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

from aded.core.sampler import Greedy
from aded.core.tree import DraftTree
from aded.targets.eager import EagerTarget
from aded.targets.kv_cache import KVCache
from aded.targets.self_check import SelfCheck
from aded.targets.tree_attention import Mask

Output = tuple[torch.Tensor, torch.Tensor, dict[int, torch.Tensor]]
"""(logits [n, vocabulary], last hidden states [n, hidden], what entered the layers that are read [n, hidden])."""
Forward = Callable[[KVCache, torch.Tensor, torch.Tensor, Mask, torch.Tensor], Output]
"""(cache, ids [1, n], positions [1, n], mask, cache rows [n]) -> Output."""


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
        self.compile_seconds = 0.0
        try:
            self._compile()
        except BaseException:
            self.release()
            raise

    def read_layers(self, layers: Iterable[int]) -> None:
        """See EagerTarget. Layers that were not read before come out of a new graph, compiled and checked."""
        if self.states.read_layers(layers):
            self._compile()
            self.self_check()

    def describe(self) -> dict[str, object]:
        """For the run's record; see Target.describe."""
        return {**super().describe(), "engine": "compiled", "compile_seconds": round(self.compile_seconds, 2)}

    def _compile(self) -> None:
        """Trace and compile by a first step, whose sizes all differ: equal ones would become one symbol."""
        began = perf_counter()
        self._step_forward = self._new_graph()
        self.prefill(np.arange(7) % 5, Greedy(), 16)
        self.verify(DraftTree.chain(0, [1, 2]))
        self.compile_seconds += perf_counter() - began

    def _new_graph(self, **tuning: object) -> Forward:
        """A compiled forward, traced when it is first called: for one node, or for every other number of them.

        tuning: further options of inductor.
        """
        # A step's inputs are always of one kind: no call needs to look whether the graph fits.
        options: dict[str, Any] = {"guard_filter_fn": torch.compiler.skip_all_guards_unsafe}
        if self._backend == "inductor":
            options |= self.tuning | tuning
        # The compiler keeps its graphs by code object: with one of their own, no graph passes for another target's.
        # `isolate_recompiles` does the same, but not in the torch 2.11 that GPU machines may have.
        method = type(self)._forward_uncompiled
        own = MethodType(FunctionType(method.__code__.replace(), method.__globals__), self)
        compiled: Forward = torch.compile(own, backend=self._backend, fullgraph=True, dynamic=True, options=options)
        traced = False

        def forward(
            cache: KVCache, ids: torch.Tensor, positions: torch.Tensor, mask: Mask, rows: torch.Tensor
        ) -> Output:
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
        logits, self.states.last, self.states.layers = self._step_forward(self.cache, ids, positions, mask, rows)
        return logits

    def _forward_uncompiled(
        self, cache: KVCache, ids: torch.Tensor, positions: torch.Tensor, mask: Mask, rows: torch.Tensor
    ) -> Output:
        """What is compiled, see Forward."""
        cache.current.rows = rows
        cache.current.visible = (next(iter(mask.values())) if isinstance(mask, dict) else mask).shape[-1]
        logits = self.call_model(cache, ids, positions, mask)
        assert self.states.last is not None
        return logits, self.states.last, self.states.layers


def _mark_fixed_sizes(cache: KVCache) -> None:
    """Tell the tracer that heads and their sizes are the same in every step.

    All other sizes differ from step to step: nodes, visible rows, the cache's rows. Equal ones share a symbol, since
    each symbol costs time in every step.
    """
    for layer in cache.kv_layers:
        for memory in (layer.keys, layer.values):
            torch._dynamo.mark_static(memory, [1, 3])
