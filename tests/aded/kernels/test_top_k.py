"""The most probable tokens, against sorting in NumPy."""

import numpy as np
import pytest
import torch

from aded.kernels import reference
from aded.kernels.top_k import argmax, top


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("vocabulary", [5, 64, 200])
def test_equals_sorting(vocabulary: int, dtype: torch.dtype) -> None:
    torch.manual_seed(vocabulary)
    logits = torch.randn(7, vocabulary).to(dtype)
    tokens, values = top(logits, 8)
    order = torch.from_numpy(reference.top(logits.float().numpy(), 8))
    assert tokens.tolist() == order.tolist(), "equal logits in the order of their tokens"
    assert np.array_equal(values, logits.float().gather(1, order).numpy())
    assert [argmax(row) for row in logits] == order[:, 0].tolist()
