"""Our linear layers and top k against torch's, with every kernel that runs here, and which kernel is chosen."""

import json
from itertools import product
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny import tiny_model

from aded.kernels import linear, ops
from aded.kernels.linear import (
    KERNELS,
    ROWS,
    PackedLinear,
    measure,
    packed_layers,
    quickest,
    replace_linears,
    restore_linears,
    shape_of,
)
from aded.targets import load
from aded.targets.load import use_own_kernels

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
    ours = PackedLinear(plain.weight, plain.bias, dtype)
    ours.kernels = [kernel] * len(ROWS)
    return ours


@pytest.mark.parametrize(("kernel", "dtype"), CASES, ids=IDS)
@pytest.mark.parametrize(("inputs", "outputs"), [(48, 1), (32, 16), (7, 20), (64, 40), (96, 160)])
@torch.inference_mode()
def test_equals_the_product_in_double_precision(inputs: int, outputs: int, kernel: int, dtype: torch.dtype) -> None:
    for rows, bias in product([1, 2, 5, 6, 7, 13, 33, 100], [False, True]):
        plain, x = layer(inputs, outputs, bias), torch.randn(1, rows, inputs).to(dtype)
        ours = packed(plain, dtype, kernel)
        rounded = ours(x)
        ours.out_dtype = torch.float32
        exact = ours(x)
        assert exact.shape == (1, rows, outputs)
        torch.testing.assert_close(exact, plain.double()(x.double()).float(), rtol=1e-5, atol=2e-6)
        assert rounded.dtype == dtype
        assert torch.equal(rounded, exact.to(dtype))


@pytest.mark.parametrize(("kernel", "dtype"), CASES, ids=IDS)
@torch.inference_mode()
def test_a_row_is_the_same_to_the_last_bit_beside_others(kernel: int, dtype: torch.dtype) -> None:
    ours, x = packed(layer(576, 200, False), torch.float32, kernel), torch.randn(130, 576).to(dtype)
    alone = torch.cat([ours(row[None]) for row in x])
    for rows, threads in product([2, 3, 5, 7, 11, 64, 130], [1, 2]):
        torch.ops.aded.use_threads(threads)
        together = ours(x[:rows])
        torch.ops.aded.use_threads(1)
        assert torch.equal(together, alone[:rows])


def test_rounds_as_torch_does() -> None:
    """Ties go to the even number, too large numbers become infinite, NaN stays NaN."""
    bits = torch.tensor([0x3F808000, 0x3F818000, 0x3F808001, 0x7F7FFFFF, 0x00000001], dtype=torch.int32)
    numbers = torch.cat([bits.view(torch.float32), -bits.view(torch.float32), torch.tensor([torch.inf, torch.nan])])
    numbers = numbers.repeat(3)  # whole vectors, and some numbers behind them
    # All weights are 0: the layer rounds the bias.
    ours = PackedLinear(torch.zeros(len(numbers), 16).bfloat16(), numbers, torch.bfloat16)
    rounded = ours(torch.ones(1, 16, dtype=torch.bfloat16))[0]
    torch.testing.assert_close(rounded, numbers.bfloat16(), rtol=0, atol=0, equal_nan=True)
    # A kernel that cannot run is an error.
    with pytest.raises(RuntimeError, match="does not run here"):
        packed(layer(16, 4, False), torch.float32, KERNELS.index("bfloat16 vectors"))(torch.ones(1, 16))


class Quantising(torch.nn.Linear):
    """A subclass that computes something else, as BitNet's AutoBitLinear does."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return super().forward(input.round())


def test_only_torchs_own_layers_whose_product_stays_the_same_are_replaced() -> None:
    subclass, hooked, patched = Quantising(16, 4), layer(16, 4, False).float(), layer(16, 4, False).float()
    subclass.weight.data = subclass.weight.bfloat16().float()
    hooked.register_forward_hook(lambda *_: None)
    patched.forward = hooked.forward  # type: ignore[method-assign]
    kept = [subclass, hooked, patched, layer(8, 8, False).half(), torch.nn.Linear(16, 2)]
    model = torch.nn.Sequential(*kept, layer(16, 8, False), layer(8, 16, True).float())
    replace_linears(model)
    assert list(model)[:5] == kept
    assert [type(child) for child in list(model)[5:]] == [PackedLinear, PackedLinear]
    assert model[6].out_dtype == torch.float32
    # Restored layers are those before.
    model = tiny_model("qwen2").bfloat16().float()  # it has biases
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    replace_linears(model)
    assert packed_layers(model)
    restore_linears(model)
    after = dict(model.named_parameters())
    assert after.keys() == before.keys()
    assert all(torch.equal(after[name], before[name]) for name in before)
    assert not packed_layers(model)


WIDE, NARROW = KERNELS.index("vectors of 512 bits"), KERNELS.index("vectors of 256 bits")
TIMES = {"vectors of 256 bits": [1.0, 1.0, 3.0, 8.0], "vectors of 512 bits": [2.0, 2.0, 2.0, 2.0]}


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> torch.nn.Module:
    """A model that nothing is known of yet."""
    monkeypatch.setattr(load, "_kernel_times", {})
    return tiny_model().bfloat16()


def test_every_kernel_that_runs_is_measured_for_every_shape(
    model: torch.nn.Module, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Exact is one kernel for all rows, and fast the quickest of each."""
    assert quickest(TIMES, exact=False) == [NARROW, NARROW, WIDE, WIDE]
    assert quickest(TIMES, exact=True) == [WIDE] * 4
    replace_linears(model)
    layers = packed_layers(model)
    found = measure(layers)
    runs = {name for number, name in enumerate(KERNELS) if torch.ops.aded.runs(number, True)}
    assert found.keys() == {shape_of(layer) for layer in layers}
    for times in found.values():
        assert times.keys() == runs
        assert all(len(each) == len(ROWS) and min(each) > 0 for each in times.values())
    # A measurement is remembered.
    use_own_kernels(model, "exact", cache=str(tmp_path))
    file = tmp_path / "kernels" / f"{ops.fingerprint()}.json"
    written = json.loads(file.read_text())
    monkeypatch.setattr(load, "_kernel_times", {})  # another process
    monkeypatch.setattr(linear, "_time", lambda *_: pytest.fail("measured again"))
    use_own_kernels(model, "fast", cache=str(tmp_path))
    assert all(layer.kernels == quickest(written[shape_of(layer)], exact=False) for layer in packed_layers(model))


@pytest.mark.parametrize("times", [None, {"magic": [1, 1, 1, 1]}, {"vectors of 256 bits": [1]}])
def test_a_file_that_is_none_of_ours_is_measured_anew(model: torch.nn.Module, times: object, tmp_path: Path) -> None:
    replace_linears(model)
    shapes = {shape_of(layer): times for layer in packed_layers(model)}
    file = tmp_path / "kernels" / f"{ops.fingerprint()}.json"
    file.parent.mkdir()
    file.write_text(json.dumps(shapes) if times else "")
    use_own_kernels(model, "exact", cache=str(tmp_path))
    found = json.loads(file.read_text())
    assert found.keys() == shapes.keys()
    assert times not in found.values()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_top_k_are_torchs(dtype: torch.dtype) -> None:
    """Also of more rows than a job can count."""
    torch.ops.aded.use_threads(2)
    for rows, size, k in ((1, 1, 1), (3, 5, 5), (2, 300, 8), (64, 5000, 10), (65_536, 3, 1)):
        torch.manual_seed(size)
        numbers = torch.randn(rows, size).to(dtype)
        values, indices = torch.ops.aded.top_k(numbers, k)
        assert torch.equal(values, numbers.float().topk(k).values)
        assert torch.equal(numbers.float().gather(1, indices), values)
    torch.ops.aded.use_threads(1)


@given(st.lists(st.sampled_from([-torch.inf, -1.0, 0.0, 1.0, 2.0]), min_size=1, max_size=400), st.data())
def test_of_equal_numbers_the_first_comes_first(row: list[float], data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(row)))
    values, indices = torch.ops.aded.top_k(torch.tensor([row]), k)
    wanted = sorted(range(len(row)), key=lambda index: (-row[index], index))[:k]
    assert indices[0].tolist() == wanted
    assert values[0].tolist() == [row[index] for index in wanted]
