"""Several requests in one forward: their draft trees side by side, each of which sees its own request alone.

Each request has a slot of so many rows in one KV cache. The rows of all trees are one sequence for the model, and
the mask lets a node see the rows of its own slot: the committed ones, its ancestors and itself. Contexts may be of
any lengths; nothing is padded. Where a model computes a row from the rows that it sees alone, as with our kernels, a
request has the same logits as alone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import torch

from aded.core.sampler import Sampler
from aded.core.target import Step
from aded.core.tree import DraftTree
from aded.errors import BadInput
from aded.targets.eager import EagerTarget
from aded.targets.kv_cache import KVCache, in_place


class EagerBatchTarget:
    """requests: how many slots; rows: of each, for the prompt, the answer and its trees.

    Raises BadInput where the model's attention needs more than such a mask.
    """

    def __init__(self, target: EagerTarget, requests: int, rows: int) -> None:
        if target.row_bias.modules or target.switch.positions or target.mask.mixed or target.mask.window is not None:
            raise BadInput("batch", "batched verification is written for attention to all rows; this model has other")
        self.target, self.rows, self.requests = target, rows, requests
        self.context_length = target.context_length
        self._cache: KVCache | None = None
        self._samplers: dict[int, Sampler] = {}
        self._prompts: dict[int, int] = {}
        self.lengths = np.zeros(requests, np.int64)
        """Committed rows of each slot."""

    def prefill(self, slot: int, prompt_ids: np.ndarray, sampler: Sampler, requires: Collection[str] = ()) -> Step:
        """Read a prompt, alone, and take the slot; see Target.prefill. requires: at most logits."""
        step = self.target.prefill(prompt_ids, sampler, 0, requires)
        length, alone = len(prompt_ids), self.target.cache
        if self._cache is None:
            self._cache = alone.larger(self.requests * self.rows)
        self._cache.copy_rows(alone, length, slot * self.rows)
        self._samplers[slot], self._prompts[slot], self.lengths[slot] = sampler, length, length
        return step

    @torch.inference_mode()
    def verify(self, trees: Mapping[int, DraftTree]) -> dict[int, Step]:
        """One forward over the trees, by their slots; commits the accepted paths."""
        assert self._cache is not None, "prefill comes first"
        for tree in trees.values():
            self.target.check_tokens(tree)
        device, starts = self.target.device, {slot: slot * self.rows + int(self.lengths[slot]) for slot in trees}
        rows = np.concatenate([starts[slot] + np.arange(len(tree)) for slot, tree in trees.items()])
        positions = np.concatenate([self.lengths[slot] + tree.depths for slot, tree in trees.items()])
        tokens = np.concatenate([tree.tokens for tree in trees.values()])
        self._cache.write_to(torch.from_numpy(rows).to(device))
        logits = self.target.call_model(
            self._cache,
            torch.from_numpy(tokens).to(device)[None],
            torch.from_numpy(positions).to(device)[None],
            self.target.mask.as_taken(self._visible(trees, int(rows.max()) + 1).to(device)),
        )
        found, first = {}, 0
        for slot, tree in trees.items():
            own = logits[first : first + len(tree)]
            found[slot] = self._commit(slot, tree, own, starts[slot])
            first += len(tree)
        return found

    def _commit(self, slot: int, tree: DraftTree, logits: torch.Tensor, start: int) -> Step:
        assert self._cache is not None
        position = int(self.lengths[slot]) - self._prompts[slot] + 1
        path, token = self._samplers[slot].walk(tree, logits, position)
        if not in_place(path):
            self._cache.move(start, torch.tensor(path, device=logits.device))
        self.lengths[slot] += len(path)
        return Step(tree, path, token, logits=logits)

    def _visible(self, trees: Mapping[int, DraftTree], rows: int) -> torch.Tensor:
        """bool [1, 1, nodes of all trees, rows]: what each node sees."""
        mask = np.zeros((sum(map(len, trees.values())), rows), bool)
        first = 0
        for slot, tree in trees.items():
            begin, length = slot * self.rows, int(self.lengths[slot])
            own = mask[first : first + len(tree)]
            own[:, begin : begin + length] = True
            own[:, begin + length : begin + length + len(tree)] = tree.ancestors
            first += len(tree)
        return torch.from_numpy(mask)[None, None]
