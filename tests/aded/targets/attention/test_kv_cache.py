from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from aded.targets.attention.kv_cache import KVCache

CPU = torch.device("cpu")


def filled(layers: int, rows: int, capacity: int) -> tuple[KVCache, list[torch.Tensor]]:
    cache = KVCache(capacity)
    keys = [torch.randn(1, 2, rows, 4) for _ in range(layers)]
    cache.extend(rows, CPU)
    for layer, key in enumerate(keys):
        cache.update(key, -key, layer)
    return cache, keys


@given(st.integers(0, 5), st.sets(st.integers(1, 9)), st.integers(1, 3))
def test_keep_is_an_index_select(start: int, drafted: set[int], later: int) -> None:
    path = [0, *sorted(drafted)]
    cache, keys = filled(2, start + 10, start + 14)
    cache.keep(start, path)
    assert cache.length == start + len(path)
    cache.extend(later, CPU)
    assert cache.get_seq_length() == start + len(path), "rows before those of the step"
    for layer, key in enumerate(keys):
        rows = torch.tensor([*range(start), *(start + index for index in path)])
        expected = torch.cat([key.index_select(2, rows), torch.full((1, 2, later, 4), 7.0)], 2)
        new = torch.full((1, 2, later, 4), 7.0)
        got_keys, got_values = cache.update(new, -new, layer)
        torch.testing.assert_close(got_keys, expected, rtol=0, atol=0)
        torch.testing.assert_close(got_values, -expected, rtol=0, atol=0)


def test_start_empties_and_keeps_the_memory() -> None:
    cache, _ = filled(1, 6, 8)
    before = cache.kv_layers[0].keys
    cache.start()
    assert cache.length == 0
    cache.extend(8, CPU)
    new = torch.ones(1, 2, 8, 4)
    keys, _ = cache.update(new, new, 0)
    assert cache.kv_layers[0].keys is before
    assert keys.shape == new.shape
    assert bool((keys == 1).all())


def test_a_larger_cache_has_the_same_rows_in_other_memory() -> None:
    cache, keys = filled(2, 6, 8)
    cache.keep(2, [0, 2])
    larger = cache.larger(16)
    assert (larger.capacity, larger.length) == (16, 4)
    cache.extend(1, CPU)
    larger.extend(1, CPU)
    for layer, key in enumerate(keys):
        cache.update(torch.zeros(1, 2, 1, 4), torch.zeros(1, 2, 1, 4), layer)
        got, values = larger.update(torch.ones(1, 2, 1, 4), torch.ones(1, 2, 1, 4), layer)
        torch.testing.assert_close(got[:, :, :4], key[:, :, [0, 1, 2, 4]], rtol=0, atol=0)
        torch.testing.assert_close(values[:, :, :4], -key[:, :, [0, 1, 2, 4]], rtol=0, atol=0)
        assert bool((got[:, :, 4] == 1).all())
