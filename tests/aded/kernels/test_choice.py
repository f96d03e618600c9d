"""The quickest kernel is chosen by measurement, and remembered."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from tiny import tiny_model

from aded.kernels import choice, ops
from aded.kernels.choice import measure, quickest, shape_of
from aded.kernels.linear import KERNELS, ROWS, packed_layers, replace_linears
from aded.targets import load
from aded.targets.load import use_own_kernels

ops.load()
WIDE, NARROW = KERNELS.index("vectors of 512 bits"), KERNELS.index("vectors of 256 bits")
TIMES = {"vectors of 256 bits": [1.0, 1.0, 3.0, 8.0], "vectors of 512 bits": [2.0, 2.0, 2.0, 2.0]}


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> torch.nn.Module:
    """A model that nothing is known of yet."""
    monkeypatch.setattr(load, "_kernel_times", {})
    return tiny_model().bfloat16()


def test_exact_is_one_kernel_for_all_rows_and_fast_the_quickest_of_each() -> None:
    assert quickest(TIMES, exact=False) == [NARROW, NARROW, WIDE, WIDE]
    assert quickest(TIMES, exact=True) == [WIDE] * 4


def test_every_kernel_that_runs_is_measured_for_every_shape(model: torch.nn.Module) -> None:
    replace_linears(model)
    layers = packed_layers(model)
    found = measure(layers)
    runs = {name for number, name in enumerate(KERNELS) if torch.ops.aded.runs(number, True)}
    assert found.keys() == {shape_of(layer) for layer in layers}
    for times in found.values():
        assert times.keys() == runs
        assert all(len(each) == len(ROWS) and min(each) > 0 for each in times.values())


def test_a_measurement_is_remembered(model: torch.nn.Module, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use_own_kernels(model, "exact", cache=str(tmp_path))
    file = tmp_path / "kernels" / f"{ops.fingerprint()}.json"
    written = json.loads(file.read_text())
    monkeypatch.setattr(load, "_kernel_times", {})  # another process
    monkeypatch.setattr(choice, "_time", lambda *_: pytest.fail("measured again"))
    use_own_kernels(model, "fast", cache=str(tmp_path))
    assert all(layer.kernels == quickest(written[shape_of(layer)], exact=False) for layer in packed_layers(model))


@pytest.mark.parametrize(
    "content",
    ["", '{"SHAPE": {"magic": [1, 1, 1, 1]}}', '{"SHAPE": {"vectors of 256 bits": [1]}}'],
)
def test_a_file_that_is_none_of_ours_is_measured_anew(model: torch.nn.Module, content: str, tmp_path: Path) -> None:
    replace_linears(model)
    file = tmp_path / "kernels" / f"{ops.fingerprint()}.json"
    file.parent.mkdir()
    file.write_text(content.replace("SHAPE", shape_of(packed_layers(model)[0])))
    use_own_kernels(model, "exact", cache=str(tmp_path))
    assert json.loads(file.read_text()).keys() == {shape_of(layer) for layer in packed_layers(model)}
