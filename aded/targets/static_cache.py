"""A KV cache whose memory stays where it is, for compiled steps: a step's rows go where a tensor of indices says.

Each layer is a slab as in aded.targets.kv_cache, but what differs from step to step is data: a graph that was compiled once
fits every step.
"""

from __future__ import annotations

import torch
from transformers import Cache, PreTrainedConfig
from transformers.cache_utils import CacheLayerMixin


class Place:
    """Where the step at hand writes, one object for all layers.

    rows: int64 [n], the slab rows of the n new tokens; visible: rows that attention sees, from the first one on.
    """

    def __init__(self) -> None:
        self.rows = torch.empty(0, dtype=torch.int64)
        self.visible = 0


class StaticLayer(CacheLayerMixin):
    """Keys and values of one layer, [1, kv heads, capacity, head dim]; made when the first keys come."""

    is_sliding = False

    def __init__(self, capacity: int, place: Place) -> None:
        super().__init__()
        self.capacity, self.place = capacity, place

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        self.dtype, self.device = key_states.dtype, key_states.device
        # Zeros, since a hidden row takes part in a product with weight 0, which must not meet a NaN.
        self.keys = key_states.new_zeros((*key_states.shape[:2], self.capacity, key_states.shape[3]))
        self.values = value_states.new_zeros((*value_states.shape[:2], self.capacity, value_states.shape[3]))
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: object, **kwargs: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write the new rows to their places; return the visible ones, as views."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        assert self.keys is not None
        assert self.values is not None
        self.keys.index_copy_(2, self.place.rows, key_states)
        self.values.index_copy_(2, self.place.rows, value_states)
        return self.keys[:, :, : self.place.visible], self.values[:, :, : self.place.visible]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.place.visible, 0

    def get_seq_length(self) -> int:
        return 0  # positions and masks are always given, and a prompt starts at 0

    def get_max_length(self) -> int:
        return self.capacity


class StaticCache(Cache):
    """One StaticLayer a model layer. `length`: committed rows, between steps."""

    def __init__(self, config: PreTrainedConfig, capacity: int) -> None:
        self.place, self.capacity, self.length = Place(), capacity, 0
        self.slabs = [StaticLayer(capacity, self.place) for _ in range(config.num_hidden_layers)]
        super().__init__(layers=list(self.slabs))

    def start(self) -> None:
        """Empty the cache for a new prompt."""
        self.length = 0

    def keep(self, start: int, path: list[int]) -> None:
        """Compact to the accepted path: indices of tree nodes, increasing, whose rows lie at start + index."""
        self.length = start + len(path)
        if path[-1] == len(path) - 1:  # already in place, as the root alone or a chain is
            return
        self.move(start, torch.tensor(path, device=self.slabs[0].device))

    def move(self, start: int | torch.Tensor, rows: torch.Tensor) -> None:
        """Copy the rows at start + `rows`, int64, to start, start + 1, ..."""
        to = torch.arange(len(rows), device=rows.device) + start
        for slab in self.slabs:
            for memory in (slab.keys, slab.values):
                assert memory is not None
                memory.index_copy_(2, to, memory.index_select(2, rows + start))
