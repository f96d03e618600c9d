"""Targets whose steps are compiled: stock modelling code and a static KV cache, on a processor or a GPU.

On a processor one graph serves every size of tree. It is traced once, with symbols for the tree's nodes, the rows
they see and the cache's rows, so that a token alone and a token in a tree run through the same code and get the same
logits to the last bit. Prompts, each of another length, are read eagerly.

Between steps of tens of small kernels a GPU would wait for the host. So there trees are padded to a few sizes, and
each size is captured as a CUDA graph: a step is one upload of the tree and one launch, for mask and forward; the
sampler walks; and where the accepted rows lie apart, a second launch moves them together. On a processor the same
programs run without being captured, which is how they are tested.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from time import perf_counter
from types import FunctionType, MethodType
from typing import Any, Self

import numpy as np
import torch
from transformers import PreTrainedModel

from aded.core.sampler import Greedy, Sampler
from aded.core.tree import DraftTree
from aded.errors import BadInput
from aded.targets.eager import EagerTarget
from aded.targets.kv_cache import KVCache, in_place
from aded.targets.self_check import SelfCheck
from aded.targets.tree_attention import Mask, TreeMask

Output = tuple[torch.Tensor, torch.Tensor, dict[int, torch.Tensor]]
"""(logits [n, vocabulary], last hidden states [n, hidden], what entered the layers that are read [n, hidden])."""
Forward = Callable[[KVCache, torch.Tensor, torch.Tensor, Mask, torch.Tensor], Output]
"""(cache, ids [1, n], positions [1, n], mask, cache rows [n]) -> Output."""
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 257)
"""Nodes a tree is padded to, the root included."""
VISIBLE = 512
"""The rows that attention reads are whole multiples of this."""


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


class StepProgram:
    """One size of step: its inputs, which stay where they are, and what is computed from them.

    nodes: of the padded tree; visible: rows that attention reads.
    """

    def __init__(self, target: CudaGraphTarget, nodes: int, visible: int) -> None:
        self.target, self.nodes, self.visible = target, nodes, visible
        # Rows: tokens, depths; then the rows of the ancestors; the last number is the start.
        self._given = Uploaded((2 + nodes) * nodes + 1, target.device)
        self.logits = self.hidden = torch.empty(0)
        self.layers: dict[int, torch.Tensor] = {}
        # A capture carries out the step: over rows that hold nothing yet, since those seen are committed.
        self._upload(DraftTree.root(0), visible - nodes)
        self._run = target.capture(self._compute)

    def __call__(self, tree: DraftTree, start: int) -> None:
        """Carry out the step; `logits`, `hidden` and `layers` hold until the next step."""
        self._upload(tree, start)
        self._run()

    def _upload(self, tree: DraftTree, start: int) -> None:
        n, host = len(tree), self._given.host
        host[-1] = start
        table = host[:-1].reshape(2 + self.nodes, self.nodes)
        table[:] = 0
        table[0, :n], table[1, :n] = tree.tokens, tree.depths + self.target.first_position
        # A padding node sees itself, since softmax must see something.
        np.fill_diagonal(table[2:], 1)
        table[2 : 2 + n, :n] = tree.ancestors
        self._given.upload()

    def _compute(self) -> None:
        start, table = self._given.device[-1], self._given.device[:-1].view(2 + self.nodes, self.nodes)
        rows = start + torch.arange(self.nodes, device=start.device)
        columns = torch.arange(self.visible, device=start.device)
        mask = (columns < start).expand(self.nodes, -1).clone()
        mask.index_copy_(1, rows, table[2:].bool())
        self.logits, self.hidden, layers = self.target.forward_of(self.nodes)(
            self.target.cache, table[:1], (start + table[1])[None], mask[None, None], rows
        )
        self.layers = dict(layers)  # the next capture writes into the same dictionary


class MoveProgram:
    """Moves the accepted rows of a step of so many padded nodes together."""

    def __init__(self, target: CudaGraphTarget, nodes: int) -> None:
        self.target, self.nodes = target, nodes
        # The path's nodes, then each other one where it is; the last number is the start.
        self._given = Uploaded(nodes + 1, target.device)
        self._upload(0, [])  # a capture moves nothing
        self._run = target.capture(self._compute)

    def __call__(self, start: int, path: list[int]) -> None:
        self._upload(start, path)
        self._run()

    def _upload(self, start: int, path: list[int]) -> None:
        self._given.host[:] = [*path, *range(len(path), self.nodes), start]
        self._given.upload()

    def _compute(self) -> None:
        self.target.cache.move(self._given.device[-1], self._given.device[:-1])


class Uploaded:
    """int64 [n] that stay in the same place of the device's memory, and the host's copy to write to."""

    def __init__(self, n: int, device: torch.device) -> None:
        self._host = torch.zeros(n, dtype=torch.int64, pin_memory=device.type == "cuda")
        self.host, self.device = self._host.numpy(), torch.zeros_like(self._host, device=device)

    def upload(self) -> None:
        """Copy to the device. The host's copy may be written to again when the sampler has walked: it waits."""
        self.device.copy_(self._host, non_blocking=True)


def padded(nodes: int) -> int:
    """The size that a tree of so many nodes is padded to. Raises BadInput."""
    if nodes > SIZES[-1]:
        raise BadInput("method.budget", f"a tree of {nodes} nodes is more than the {SIZES[-1]} of compiled steps")
    return next(size for size in SIZES if size >= nodes)


@functools.cache
def side_stream(device: torch.device) -> torch.cuda.Stream:
    """Where steps are warmed up and captured: each stream has memory of its own for products."""
    return torch.cuda.Stream(device)


class CudaGraphTarget(CompiledCpuTarget):
    """See CompiledCpuTarget. `prepare` captures every size of step."""

    tuning = {"size_asserts": False}  # noqa: RUF012 - read only

    def __init__(self, model: PreTrainedModel, backend: str = "inductor", **settings: Any) -> None:
        mask = TreeMask(model.config.get_text_config(decoder=True), model.dtype)
        if mask.window is not None or mask.additive:
            raise BadInput("engine", "on a GPU compiled steps need sdpa attention without sliding windows")
        self._programs: dict[tuple[int, int], StepProgram]
        self._moves: dict[int, MoveProgram]
        self._pool: Any
        self._forget_programs()
        super().__init__(model, backend, **settings)

    def fork(self) -> Self:
        """See Target.fork. Steps are captured over a cache, so each fork captures its own. The graphs of one pool of
        memory must run in the order of their capture, so each fork has a pool of its own too."""
        other = super().fork()
        other._forget_programs()
        return other

    def _forget_programs(self) -> None:
        """A pool of memory goes with the last graph that uses it, so the next capture begins a new one."""
        self._programs, self._moves, self._pool = {}, {}, None

    def _compile(self) -> None:
        """One row has a graph of its own: inductor writes kernels for its products and tunes them, for minutes."""
        self._forget_programs()
        self._traced = False
        self._one_forward = self._new_graph(coordinate_descent_tuning=True)
        super()._compile()
        self._traced = True

    def forward_of(self, nodes: int) -> Forward:
        return self._one_forward if nodes == 1 else self._step_forward

    @torch.inference_mode()
    def prepare(self, rows: int, sampler: Sampler) -> None:
        """Capture every size of step up to the cache's capacity: no step allocates anything after that."""
        before = self._cache
        super().prepare(rows + SIZES[-1], sampler)  # padding needs rows too
        if before is not self._cache:
            self._forget_programs()  # captured over the old memory
        if self._traced:
            for nodes in SIZES:
                self._move(nodes)
                for visible in range(VISIBLE, self.cache.capacity + 1, VISIBLE):
                    self._program(nodes, visible)

    def _program(self, nodes: int, visible: int) -> StepProgram:
        if (nodes, visible) not in self._programs:
            self._programs[nodes, visible] = StepProgram(self, nodes, visible)
        return self._programs[nodes, visible]

    def _move(self, nodes: int) -> MoveProgram:
        if nodes not in self._moves:
            self._moves[nodes] = MoveProgram(self, nodes)
        return self._moves[nodes]

    def _read_tree(self, tree: DraftTree) -> torch.Tensor:
        committed, n = self.cache.length, len(tree)
        nodes = padded(n)
        program = self._program(nodes, -(-(committed + nodes) // VISIBLE) * VISIBLE)
        program(tree, committed)
        self.states.last = program.hidden[:n]
        self.states.layers = {layer: rows[:n] for layer, rows in program.layers.items()}
        return program.logits[:n]

    def _keep(self, tree: DraftTree, committed: int, path: list[int]) -> None:
        """As KVCache.keep does, in one launch."""
        self.cache.length = committed + len(path)
        if not in_place(path):
            self._move(padded(len(tree)))(committed, path)

    def capture(self, compute: Callable[[], None]) -> Callable[[], None]:
        """A function that does what `compute` does, from the same inputs to the same outputs.

        On a GPU `compute` runs a few times, so that all is compiled and tuned, and is then captured.
        """
        if self.device.type != "cuda":
            compute()
            return compute
        before, side = torch.cuda.current_stream(), side_stream(self.device)
        side.wait_stream(before)
        with torch.cuda.stream(side):
            for _ in range(3):
                compute()
        before.wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, pool=self._pool, stream=side):
                compute()
        finally:
            torch.cuda.set_stream(before)  # a capture that fails leaves its own
        self._pool = graph.pool()
        return graph.replay
