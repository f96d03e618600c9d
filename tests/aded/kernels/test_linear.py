"""Our linear layers against the same product in float64, with every kernel that runs here."""

from __future__ import annotations

import pytest
import torch
from tiny import tiny_model

from aded.kernels import ops
from aded.kernels.linear import (
    KERNELS,
    ROWS,
    PackedLinear,
    packed_layers,
    replace_linears,
    restore_linears,
)

ops.load()
CASES = [
    (kernel, dtype)
    for kernel in range(len(KERNELS))
    for dtype in (torch.float32, torch.bfloat16)
    if torch.ops.aded.runs(kernel, dtype == torch.bfloat16)
]
IDS = [f"{KERNELS[kernel]}, {str(dtype).removeprefix('torch.')}" for kernel, dtype in CASES]


def layer(inputs: int, outputs: int, bias: bool) -> torch.nn.Linear:
    torch.manual_seed(0)
    return torch.nn.Linear(inputs, outputs, bias=bias).bfloat16()


def packed(plain: torch.nn.Linear, dtype: torch.dtype, kernel: int) -> PackedLinear:
    product = PackedLinear(plain.weight, plain.bias, dtype)
    product.kernels = [kernel] * len(ROWS)
    return product


@pytest.mark.parametrize(("kernel", "dtype"), CASES, ids=IDS)
@pytest.mark.parametrize("rows", [1, 2, 5, 6, 7, 13, 33, 100])
@pytest.mark.parametrize(("inputs", "outputs"), [(48, 1), (32, 16), (7, 20), (64, 40), (96, 160)])
@pytest.mark.parametrize("bias", [False, True])
@torch.inference_mode()
def test_equals_the_product_in_double_precision(
    rows: int, inputs: int, outputs: int, bias: bool, kernel: int, dtype: torch.dtype
) -> None:
    plain, x = layer(inputs, outputs, bias), torch.randn(1, rows, inputs).to(dtype)
    product = packed(plain, dtype, kernel)
    rounded = product(x)
    product.out_dtype = torch.float32
    exact = product(x)
    assert exact.shape == (1, rows, outputs)
    torch.testing.assert_close(exact, plain.double()(x.double()).float(), rtol=1e-5, atol=2e-6)
    assert rounded.dtype == dtype
    assert torch.equal(rounded, exact.to(dtype))


@pytest.mark.parametrize(("kernel", "dtype"), CASES, ids=IDS)
@pytest.mark.parametrize("rows", [2, 3, 5, 7, 11, 64, 130])
@pytest.mark.parametrize("threads", [1, 2])
@torch.inference_mode()
def test_a_row_is_the_same_to_the_last_bit_beside_others(
    rows: int, kernel: int, dtype: torch.dtype, threads: int
) -> None:
    product = packed(layer(576, 200, False), torch.float32, kernel)
    x = torch.randn(rows, 576).to(dtype)
    torch.ops.aded.use_threads(threads)
    together = product(x)
    torch.ops.aded.use_threads(1)
    assert torch.equal(together, torch.cat([product(row[None]) for row in x]))


def test_rounds_as_torch_does() -> None:
    """Ties go to the even number, too large numbers become infinite, NaN stays NaN."""
    bits = torch.tensor([0x3F808000, 0x3F818000, 0x3F808001, 0x7F7FFFFF, 0x00000001], dtype=torch.int32)
    numbers = torch.cat([bits.view(torch.float32), -bits.view(torch.float32), torch.tensor([torch.inf, torch.nan])])
    numbers = numbers.repeat(3)  # whole vectors, and some numbers behind them
    # All weights are 0: the layer rounds the bias.
    product = PackedLinear(torch.zeros(len(numbers), 16).bfloat16(), numbers, torch.bfloat16)
    rounded = product(torch.ones(1, 16, dtype=torch.bfloat16))[0]
    torch.testing.assert_close(rounded, numbers.bfloat16(), rtol=0, atol=0, equal_nan=True)


def test_a_kernel_that_cannot_run_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="does not run here"):
        packed(layer(16, 4, False), torch.float32, KERNELS.index("bfloat16 vectors"))(torch.ones(1, 16))


@pytest.mark.parametrize(("outputs", "inputs"), [(1, 1), (33, 50)])
def test_packed_weights_can_be_unpacked(outputs: int, inputs: int) -> None:
    weight = layer(inputs, outputs, False).weight
    assert torch.equal(PackedLinear(weight, None, torch.bfloat16).weight, weight)


def test_replaces_the_layers_whose_product_stays_the_same() -> None:
    finer = torch.nn.Linear(16, 2)
    model = torch.nn.Sequential(layer(16, 8, False), layer(8, 16, True).float(), layer(8, 8, False).half(), finer)
    replace_linears(model)
    assert [type(child) for child in model] == [PackedLinear, PackedLinear, torch.nn.Linear, torch.nn.Linear]
    assert model[1].out_dtype == torch.float32


class Quantising(torch.nn.Linear):
    """A subclass that computes something else, as BitNet's AutoBitLinear does."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return super().forward(input.round())


def test_only_torchs_own_layers_are_replaced() -> None:
    subclass, hooked, patched = Quantising(16, 4), layer(16, 4, False).float(), layer(16, 4, False).float()
    subclass.weight.data = subclass.weight.bfloat16().float()
    hooked.register_forward_hook(lambda *_: None)
    patched.forward = hooked.forward  # type: ignore[method-assign]
    model = torch.nn.Sequential(subclass, hooked, patched, layer(16, 4, False).float())
    replace_linears(model)
    assert [type(child) for child in model] == [Quantising, torch.nn.Linear, torch.nn.Linear, PackedLinear]


@pytest.mark.parametrize("name", ["llama", "qwen2"])  # the second has biases
def test_restored_layers_are_those_before(name: str) -> None:
    model = tiny_model(name).bfloat16().float()
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    replace_linears(model)
    assert packed_layers(model)
    restore_linears(model)
    after = dict(model.named_parameters())
    assert after.keys() == before.keys()
    assert all(torch.equal(after[name], before[name]) for name in before)
    assert not packed_layers(model)
