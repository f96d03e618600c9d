"""A KV cache that draft trees can be written to and compacted in, in memory that stays where it is.

transformers' DynamicCache concatenates, so each step copies the whole cache; and its sliding-window layers drop rows
that a rejected draft may still need. Here each layer has its memory allocated once. A step writes its n rows where a
tensor of indices says, and `keep` moves the accepted rows together. What differs from step to step is data, so a
graph that was compiled once fits every step. Sliding windows are the mask's business alone.
"""

from __future__ import annotations

from functools import partial
from typing import cast

import torch
from transformers import Cache
from transformers.cache_utils import CacheLayerMixin


def in_place(path: list[int]) -> bool:
    """Do the nodes of an accepted path lie side by side already, as the root alone or a chain does?"""
    return path[-1] == len(path) - 1


class CurrentStep:
    """Where the current step writes, shared by all layers.

    rows: cache rows of the n new tokens, int64 [n].
    visible: rows that attention sees, counted from the first.
    """

    def __init__(self) -> None:
        self.rows = torch.empty(0, dtype=torch.int64)
        self.visible = 0


class KVLayer(CacheLayerMixin):
    """Keys and values of one layer, [1, kv heads, capacity, head dim]; allocated when the first keys come."""

    is_sliding = False

    def __init__(self, capacity: int, current: CurrentStep) -> None:
        super().__init__()
        self.capacity, self.current = capacity, current

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        self.dtype, self.device = key_states.dtype, key_states.device
        # Zeros, since a hidden row takes part in a product with weight 0, and 0 times NaN is NaN.
        self.keys = key_states.new_zeros((*key_states.shape[:2], self.capacity, key_states.shape[3]))
        self.values = value_states.new_zeros((*value_states.shape[:2], self.capacity, value_states.shape[3]))
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: object, **kwargs: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write the new rows to their places; return the visible rows, as views."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        assert self.keys is not None
        assert self.values is not None
        self.keys.index_copy_(2, self.current.rows, key_states)
        self.values.index_copy_(2, self.current.rows, value_states)
        return self.keys[:, :, : self.current.visible], self.values[:, :, : self.current.visible]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.current.visible, 0

    def get_seq_length(self) -> int:
        """Rows before those of the current step."""
        return self.current.visible - self.current.rows.shape[0]

    def get_max_length(self) -> int:
        return self.capacity

    get_max_cache_shape = get_max_length  # its name in older versions of transformers


class KVCache(Cache):
    """A KVLayer per layer of the model that writes keys: layers that share another's have none.

    capacity: rows for the prompt, the answer and its trees.
    """

    def __init__(self, capacity: int) -> None:
        self.current, self.capacity = CurrentStep(), capacity
        self.length = 0
        """Committed rows, between steps."""
        super().__init__(layer_class_to_replicate=partial(KVLayer, capacity, self.current))  # type: ignore[arg-type]

    @property
    def kv_layers(self) -> list[KVLayer]:
        """The layers that the first prompt made."""
        return cast(list[KVLayer], self.layers)

    @property
    def bytes_per_row(self) -> int:
        """Of all layers, keys and values."""
        memories = [memory for layer in self.kv_layers for memory in (layer.keys, layer.values) if memory is not None]
        return sum(memory.nbytes for memory in memories) // self.capacity

    def larger(self, capacity: int) -> KVCache:
        """A cache of the same layers and rows, with memory of its own, allocated at once: captured graphs need it.

        The rows are for draft models, whose cache grows within an answer.
        """
        cache = KVCache(capacity)
        cache.length = self.length
        for layer in self.kv_layers:
            assert layer.keys is not None
            assert layer.values is not None
            copy = KVLayer(capacity, cache.current)
            copy.lazy_initialization(layer.keys, layer.values)
            cache.layers.append(copy)
        cache.copy_rows(self, self.length, 0)
        return cache

    def start(self) -> None:
        """Empty the cache for a new prompt; its memory stays."""
        self.length = 0

    def extend(self, n: int, device: torch.device) -> torch.Tensor:
        """Make the next n rows those of the current step; return them, int64 [n]."""
        self.current.rows = torch.arange(self.length, self.length + n, device=device)
        self.length += n
        self.current.visible = self.length
        return self.current.rows

    def write_to(self, rows: torch.Tensor) -> None:
        """Make these rows, int64 [n], those of the current step. Attention sees all up to the last of them."""
        self.current.rows, self.current.visible = rows, int(rows.max()) + 1

    def copy_rows(self, other: KVCache, count: int, start: int) -> None:
        """Copy the first rows of another cache of the same layers to `start` and behind."""
        for mine, theirs in zip(self.kv_layers, other.kv_layers, strict=True):
            for to, source in ((mine.keys, theirs.keys), (mine.values, theirs.values)):
                assert to is not None
                assert source is not None
                to[:, :, start : start + count] = source[:, :, :count]

    def keep(self, start: int, path: list[int]) -> None:
        """Compact to the accepted path: indices of tree nodes, increasing, whose rows lie at start + index."""
        self.length = start + len(path)
        if not in_place(path):
            self.move(start, torch.tensor(path, device=self.kv_layers[0].device))

    def move(self, start: int | torch.Tensor, rows: torch.Tensor) -> None:
        """Copy the rows at start + `rows`, int64, to start, start + 1, ..."""
        to, source = torch.arange(len(rows), device=rows.device) + start, rows + start
        for layer in self.kv_layers:
            for memory in (layer.keys, layer.values):
                assert memory is not None
                memory.index_copy_(2, to, memory.index_select(2, source))
