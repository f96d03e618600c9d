"""The largest logits of each row, against torch's."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from aded.kernels import ops

ops.load()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("rows", "size", "k"), [(1, 1, 1), (3, 5, 5), (2, 300, 8), (64, 5000, 10)])
def test_equals_torchs(dtype: torch.dtype, rows: int, size: int, k: int) -> None:
    torch.manual_seed(size)
    numbers = torch.randn(rows, size).to(dtype)
    values, indices = torch.ops.aded.top_k(numbers, k)
    assert torch.equal(values, numbers.float().topk(k).values)
    assert torch.equal(numbers.float().gather(1, indices), values)


def test_more_rows_than_a_job_can_count_are_read() -> None:
    before = torch.ops.aded.threads()
    torch.ops.aded.use_threads(2)
    try:
        numbers = torch.rand(65_536, 3)
        assert torch.equal(torch.ops.aded.top_k(numbers, 1)[0], numbers.max(1, keepdim=True).values)
    finally:
        torch.ops.aded.use_threads(before)


@given(st.lists(st.sampled_from([-torch.inf, -1.0, 0.0, 1.0, 2.0]), min_size=1, max_size=400), st.data())
def test_of_equal_numbers_the_first_comes_first(row: list[float], data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(row)))
    values, indices = torch.ops.aded.top_k(torch.tensor([row]), k)
    wanted = sorted(range(len(row)), key=lambda index: (-row[index], index))[:k]
    assert indices[0].tolist() == wanted
    assert values[0].tolist() == [row[index] for index in wanted]
