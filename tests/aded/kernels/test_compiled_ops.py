"""Our kernels as operations of a compiled step return what the eager kernels and the NumPy references return."""

from __future__ import annotations

import pytest
import torch
from test_attention import in_numpy

from aded.kernels import attention, compiled_ops, install, reference
from aded.kernels.install import StepLinear
from aded.kernels.linear import Bf16Linear

pytestmark = pytest.mark.slow  # a C++ compiler runs
DTYPES = [torch.float32, torch.bfloat16]


@pytest.fixture(scope="module", autouse=True)
def _operations() -> None:
    compiled_ops.load()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("out_dtype", DTYPES)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("rows", "outputs"), [(1, 40), (2, 7), (5, 64), (9, 33)])
def test_a_product_is_that_of_bf16_linear(
    dtype: torch.dtype, out_dtype: torch.dtype, bias: bool, rows: int, outputs: int
) -> None:
    torch.manual_seed(rows)
    added = torch.randn(outputs).to(dtype) if bias else None
    eager = Bf16Linear(torch.randn(outputs, 48).bfloat16(), added, out_dtype)
    x = torch.randn(1, rows, 48).to(dtype)
    y = StepLinear(eager.weight, added, out_dtype)(x)
    assert torch.equal(y, eager(x))
    weight, bias_row = (
        eager.weight.detach().view(torch.uint16).numpy(),
        None if added is None else added.float().numpy(),
    )
    plainly = torch.from_numpy(reference.linear(x.float().numpy(), weight, bias_row)).to(out_dtype)
    tolerance = 1e-5 if out_dtype == torch.float32 else 1e-2
    torch.testing.assert_close(y, plainly, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("heads", "kv_heads"), [(2, 2), (6, 2), (3, 1)])
@pytest.mark.parametrize("n", [1, 7])
def test_attention_is_tree_attentions(dtype: torch.dtype, heads: int, kv_heads: int, n: int) -> None:
    torch.manual_seed(n)
    query = torch.randn(1, n, heads, 16).to(dtype).transpose(1, 2)
    keys, values = (torch.randn(1, kv_heads, 64, 16).to(dtype)[:, :, :50] for _ in range(2))
    mask = torch.rand(1, 1, n, 50) < 0.6
    mask[..., 2] = True
    layer = torch.nn.Module()
    ours, _ = install.tree_step_attention(layer, query, keys, values, mask, scaling=0.3)
    wanted, _ = attention.tree_attention(layer, query, keys, values, mask, scaling=0.3)
    assert torch.equal(ours, wanted)
    tolerance = 2e-6 if dtype == torch.float32 else 2e-2
    torch.testing.assert_close(ours, in_numpy(query, keys, values, mask, 0.3), atol=tolerance, rtol=tolerance)
