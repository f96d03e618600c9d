"""Our bfloat16 linear layer against the same product in float32."""

import pytest
import torch

from aded.kernels import reference
from aded.kernels.linear import Bf16Linear, replace_linears, restore_linears


def layer(inputs: int, outputs: int, bias: bool) -> torch.nn.Linear:
    torch.manual_seed(0)
    return torch.nn.Linear(inputs, outputs, bias=bias).bfloat16()


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 17])
@pytest.mark.parametrize("outputs", [1, 2, 3, 4, 5, 6, 7, 20, 160])
@pytest.mark.parametrize("bias", [False, True])
def test_equals_the_product_in_float32(rows: int, outputs: int, bias: bool) -> None:
    plain = layer(48, outputs, bias)
    x = torch.randn(1, rows, 48).bfloat16()
    wanted = torch.nn.functional.linear(x.float(), plain.weight.float(), plain.bias.float() if bias else None)
    with torch.inference_mode():
        exact = Bf16Linear(plain.weight, plain.bias, torch.float32)(x)
        rounded = Bf16Linear(plain.weight, plain.bias, torch.bfloat16)(x)
        wide = Bf16Linear(plain.weight, plain.bias, torch.float32)(x.float())
    assert exact.shape == (1, rows, outputs)
    torch.testing.assert_close(exact, wanted, rtol=1e-5, atol=1e-6)
    weight, added = (
        plain.weight.detach().view(torch.uint16).numpy(),
        plain.bias.detach().float().numpy() if bias else None,
    )
    plainly = torch.from_numpy(reference.linear(x.float().numpy(), weight, added)).float()
    torch.testing.assert_close(exact, plainly, rtol=1e-5, atol=1e-6)
    assert torch.equal(wide, exact)
    assert rounded.dtype == torch.bfloat16
    assert torch.equal(rounded, exact.bfloat16())


@pytest.mark.parametrize("rows", [2, 3, 4, 5, 6, 7, 8, 11, 64])
def test_a_row_is_the_same_to_the_last_bit_beside_others(rows: int) -> None:
    plain = layer(576, 64, False)
    x = torch.randn(rows, 576)
    product = Bf16Linear(plain.weight, None, torch.float32)
    with torch.inference_mode():
        assert torch.equal(product(x), torch.cat([product(row[None]) for row in x]))


def test_rounds_as_torch_does() -> None:
    """Ties go to the even number, too large numbers become infinite, NaN stays NaN."""
    bits = torch.tensor([0x3F808000, 0x3F818000, 0x3F808001, 0x7F7FFFFF, 0x00000001], dtype=torch.int32)
    numbers = torch.cat([bits.view(torch.float32), -bits.view(torch.float32), torch.tensor([torch.inf, torch.nan])])
    # All weights are 0: the layer rounds the bias.
    layer = Bf16Linear(torch.zeros(len(numbers), 16).bfloat16(), numbers, torch.bfloat16)
    torch.testing.assert_close(layer(torch.ones(1, 16))[0], numbers.bfloat16(), rtol=0, atol=0, equal_nan=True)


def test_replaces_the_layers_whose_product_stays_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    finer = torch.nn.Linear(16, 2)
    model = torch.nn.Sequential(layer(16, 8, False), layer(8, 16, False), layer(16, 16, True).float(), finer)
    monkeypatch.setattr("aded.kernels.linear.processor_lacks_bf16", lambda: True)
    replace_linears(model)
    kinds = [type(child) for child in model]
    assert kinds == [Bf16Linear, torch.nn.Linear, Bf16Linear, torch.nn.Linear], (
        "layers too narrow or too precise stay torch's"
    )
    assert model[2].out_dtype == torch.float32


def test_a_processor_with_bfloat16_keeps_its_own_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aded.kernels.linear.processor_lacks_bf16", lambda: False)
    model = torch.nn.Sequential(layer(16, 4, False))
    replace_linears(model)
    assert type(model[0]) is torch.nn.Linear


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
    assert [type(child) for child in model] == [Quantising, torch.nn.Linear, torch.nn.Linear, Bf16Linear]


@pytest.mark.parametrize("bias", [True, False])
def test_restored_layers_are_those_before(bias: bool) -> None:
    before = layer(16, 4, bias).float()
    model = torch.nn.Sequential(before)
    replace_linears(model)
    assert type(model[0]) is Bf16Linear
    restore_linears(model)
    assert type(model[0]) is torch.nn.Linear
    assert all(torch.equal(*pair) for pair in zip(model[0].parameters(), before.parameters(), strict=True))
