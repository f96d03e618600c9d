"""A KV cache that a draft tree can be written to and compacted in, in place.

transformers' DynamicCache concatenates, so each step copies the whole cache; and its sliding-window layers drop
rows that a rejected draft may still need. Here each layer is one slab of rows; a step writes its n rows behind the
committed ones, and `keep` moves the accepted rows together. Sliding windows are the mask's business alone.
"""

from __future__ import annotations

import torch
from transformers import Cache
from transformers.cache_utils import CacheLayerMixin


class SlabLayer(CacheLayerMixin):
    """Keys and values of one layer, [1, kv heads, capacity, head dim], of which `length` rows are in use."""

    is_sliding = False

    def __init__(self, capacity: int) -> None:
        super().__init__()
        self.capacity = capacity
        self.length = 0

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        self.dtype, self.device = key_states.dtype, key_states.device
        self.keys = key_states.new_empty((*key_states.shape[:2], self.capacity, key_states.shape[3]))
        self.values = value_states.new_empty((*value_states.shape[:2], self.capacity, value_states.shape[3]))
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: object, **kwargs: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write the new rows behind those in use; return all of them, as views."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        assert self.keys is not None
        assert self.values is not None
        end = self.length + key_states.shape[2]
        self.keys[:, :, self.length : end] = key_states
        self.values[:, :, self.length : end] = value_states
        self.length = end
        return self.keys[:, :, :end], self.values[:, :, :end]

    def keep(self, start: int, rows: torch.Tensor) -> None:
        """Move the rows at start + `rows` (int64, increasing) to start, start + 1, ...; forget all behind them."""
        assert self.keys is not None
        assert self.values is not None
        self.length = start + len(rows)
        for slab in (self.keys, self.values):
            slab[:, :, start : self.length] = slab.index_select(2, rows + start)

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.length + query_length, 0

    def get_seq_length(self) -> int:
        return self.length

    def get_max_length(self) -> int:
        return self.capacity


class SlabCache(Cache):
    """One SlabLayer a model layer. Capacity in rows: the whole answer's context and the largest tree."""

    def __init__(self, layers: int, capacity: int) -> None:
        self.slabs = [SlabLayer(capacity) for _ in range(layers)]
        self.capacity = capacity
        super().__init__(layers=list(self.slabs))

    @property
    def length(self) -> int:
        """Rows in use: committed tokens (between steps)."""
        return self.slabs[0].length

    def start(self) -> None:
        """Empty the cache for a new prompt, keeping its memory."""
        for slab in self.slabs:
            slab.length = 0

    def keep(self, start: int, path: list[int]) -> None:
        """Compact to the accepted path: indices of tree nodes whose rows lie at start + index."""
        if path == list(range(len(path))):  # already in place, as the root alone or a chain is
            for slab in self.slabs:
                slab.length = start + len(path)
            return
        rows = torch.tensor(path, device=self.slabs[0].device)
        for slab in self.slabs:
            slab.keep(start, rows)
