"""Compiled steps for a GPU: trees padded to a few sizes, each size captured as a CUDA graph.

Between steps of tens of small kernels a GPU would wait for the host. Here a step is one upload of the tree, one
launch and one transfer back: mask, forward, and for greedy choice the walk and the cache's compaction are in the
graph. On a processor the same programs run without being captured, which is how they are tested.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Self

import numpy as np
import torch
from transformers import PreTrainedModel

from aded.core.sampler import Greedy, Sampler
from aded.core.step import Step
from aded.core.tree import DraftTree
from aded.errors import BadInput
from aded.targets.attention.tree_mask import TreeMask
from aded.targets.compiled_cpu import CompiledCpuTarget, Forward

SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 257)
"""Nodes a tree is padded to, the root included."""
VISIBLE = 512
"""The rows that attention reads are whole multiples of this."""


def walk_on_device(
    logits: torch.Tensor, tokens: torch.Tensor, parents: torch.Tensor, ancestors: torch.Tensor, live: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """(result, order) of a greedy step, with one transfer to the host; the same path as Greedy.walk.

    logits: [n, vocabulary]; tokens, parents: int64 [n], the root's parent any node; ancestors: bool [n, n], see
    DraftTree; live: bool [n], False for nodes that only pad the tree. result: int64 [n + 2], the path's length, the
    bonus token, then the order: the path's nodes (they increase) and behind them all others. order: int64 [n].
    """
    choices = logits.argmax(dim=-1)
    agrees = (tokens == choices[parents]) & live
    agrees[:1].fill_(True)  # `agrees[0] = True` would copy from the host, which no capture allows
    # A node is accepted when it and all above it are what the target chose at their parents.
    accepted = (agrees | ~ancestors).all(dim=1) & live
    order = torch.argsort(~accepted, stable=True)
    length = accepted.sum()
    last = order.gather(0, (length - 1)[None])
    return torch.cat([length[None], choices[last], order]), order


class StepProgram:
    """One size of step: its inputs, which stay where they are, and what is computed from them.

    nodes: of the padded tree; visible: rows that attention reads; greedy: walk and compact on the device too.
    """

    def __init__(self, target: CudaGraphTarget, nodes: int, visible: int, greedy: bool) -> None:
        self.target, self.nodes, self.visible, self.greedy = target, nodes, visible, greedy
        device = target.device
        pinned = device.type == "cuda"
        # Rows: tokens, parents, depths, live; then the rows of the ancestors; the last number is the start.
        self._host = torch.zeros((4 + nodes) * nodes + 1, dtype=torch.int64, pin_memory=pinned)
        self._given = torch.zeros_like(self._host, device=device)
        self._result_host = torch.zeros(nodes + 2, dtype=torch.int64, pin_memory=pinned)
        self.logits = self.hidden = self._result = torch.empty(0)
        self.layers: dict[int, torch.Tensor] = {}
        # A capture carries out the step: over rows that hold nothing yet, since those seen are committed.
        self._upload(DraftTree.root(0), visible - nodes)
        self._run: Callable[[], None] = target.capture(self._compute)

    def __call__(self, tree: DraftTree, start: int) -> None:
        """Carry out the step; `logits`, `hidden` and `layers` hold until the next step."""
        self._upload(tree, start)
        self._run()

    def _upload(self, tree: DraftTree, start: int) -> None:
        n, host = len(tree), self._host.numpy()
        host[-1] = start
        table = host[:-1].reshape(4 + self.nodes, self.nodes)
        table[:] = 0
        depths = tree.depths + self.target.first_position
        table[0, :n], table[1, 1:n], table[2, :n], table[3, :n] = tree.tokens, tree.parents[1:], depths, 1
        # A padding node sees itself, since softmax must see something.
        np.fill_diagonal(table[4:], 1)
        table[4 : 4 + n, :n] = tree.ancestors
        self._given.copy_(self._host, non_blocking=True)

    def result(self) -> tuple[list[int], int]:
        """(path, bonus token) of a greedy step: the one transfer back."""
        self._result_host.copy_(self._result)
        length, token, *order = self._result_host.tolist()
        return order[:length], token

    def _compute(self) -> None:
        cache = self.target.cache
        start, table = self._given[-1], self._given[:-1].view(4 + self.nodes, self.nodes)
        tokens, parents, depths, live = table[0], table[1], table[2], table[3].bool()
        ancestors = table[4:].bool()
        rows = start + torch.arange(self.nodes, device=start.device)
        columns = torch.arange(self.visible, device=start.device)
        mask = (columns < start).expand(self.nodes, -1).clone()
        mask.index_copy_(1, rows, ancestors)
        self.logits, self.hidden, layers = self.target.forward_of(self.nodes)(
            cache, tokens[None], (start + depths)[None], mask[None, None], rows
        )
        self.layers = dict(layers)  # the next capture writes into the same dictionary
        if self.greedy:
            self._result, order = walk_on_device(self.logits, tokens, parents, ancestors, live)
            if self.nodes > 1:
                cache.move(start, order)


@functools.cache
def side_stream(device: torch.device) -> torch.cuda.Stream:
    """Where steps are warmed up and captured: each stream has memory of its own for products."""
    return torch.cuda.Stream(device)


class CudaGraphTarget(CompiledCpuTarget):
    """See CompiledCpuTarget. `prepare` captures every size of step, for greedy and for other samplers."""

    tuning = {"size_asserts": False}  # noqa: RUF012 - read only

    def __init__(self, model: PreTrainedModel, backend: str = "inductor", **settings: Any) -> None:
        mask = TreeMask(model.config.get_text_config(decoder=True), model.dtype)
        if mask.window is not None or mask.additive:
            raise BadInput("engine", "on a GPU compiled steps need sdpa attention without sliding windows")
        self._programs: dict[tuple[int, int, bool], StepProgram]
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
        self._programs, self._pool = {}, None

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
            for visible in range(VISIBLE, self.cache.capacity + 1, VISIBLE):
                for nodes in SIZES:
                    self._program(nodes, visible, isinstance(sampler, Greedy))

    def _program(self, nodes: int, visible: int, greedy: bool) -> StepProgram:
        key = (nodes, visible, greedy)
        if key not in self._programs:
            self._programs[key] = StepProgram(self, *key)
        return self._programs[key]

    @torch.inference_mode()
    def verify(self, tree: DraftTree) -> Step:
        """See Target.verify."""
        cache = self.cache
        committed = cache.length
        position = committed + self.first_position
        tree = tree.up_to_depth(self.switch.deepest(position))
        if self.switch.needs_prefill(position):
            return super().verify(tree)
        n = len(tree)
        if n > SIZES[-1]:
            raise BadInput("method.budget", f"a tree of {n} nodes is more than the {SIZES[-1]} of compiled steps")
        nodes = next(size for size in SIZES if size >= n)
        visible = -(-(committed + nodes) // VISIBLE) * VISIBLE
        greedy = isinstance(self._sampler, Greedy)
        program = self._program(nodes, visible, greedy)
        program(tree, committed)
        self.states.last = program.hidden[:n]
        self.states.layers = {layer: rows[:n] for layer, rows in program.layers.items()}
        logits = program.logits[:n]
        if greedy:
            path, token = program.result()
            cache.length = committed + len(path)
            self._tokens += tree.tokens[path].tolist()
        else:
            path, token = self._sampler.walk(tree, logits, committed - self._prompt_length + 1)
            self._commit(tree, committed, path)
        return self._step(tree, path, token, logits)

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
