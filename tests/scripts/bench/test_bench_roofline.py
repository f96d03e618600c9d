"""The computed table: a small step reads the weights, a large one multiplies, and `aded batch` reads the file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command import Command

from aded.bench.recording import read_shape
from aded.files.cost_table import read_batch_times
from scripts.bench import roofline
from scripts.bench.roofline import Shape, seconds


def test_a_7b_model_has_the_weights_and_cache_rows_that_it_is_known_for() -> None:
    shape = Shape.of(read_shape("vicuna-7b"))
    embedding = 32000 * 4096
    assert shape.weights + embedding == pytest.approx(6.738e9, rel=1e-3)
    assert 2 * shape.row_values == 512 * 1024  # half a megabyte a token


def test_small_steps_wait_for_the_memory_and_large_ones_for_arithmetic() -> None:
    shape = Shape.of(read_shape("vicuna-7b"))
    one = seconds(shape, 1, 1, 0, 1e12, 1e14)
    assert one == pytest.approx(2 * shape.weights / 1e12)
    assert seconds(shape, 1, 16, 0, 1e12, 1e14) == one, "16 nodes cost what one costs"
    assert seconds(shape, 64, 16, 0, 1e12, 1e14) == pytest.approx(2 * 64 * 16 * shape.weights / 1e14)


def test_the_table_says_that_it_is_computed_and_from_what(tmp_path: Path, command: Command) -> None:
    out = tmp_path / "h100.json"
    called = command(roofline.main, "shape=vicuna-7b", "gpu=h100", f"out={out}")
    assert "computed, not measured" in called.out
    found = json.loads(out.read_text())
    assert (found["computed"], found["from"]["bandwidth_gb_s"], found["from"]["tflops"]) == (True, 3350.0, 989.0)
    times = read_batch_times(out, "cost")
    assert times.seconds(1, 1) == pytest.approx(4e-3, rel=0.05)
    assert (times.batches[-1], times.computed) == (256, True)


def test_an_unknown_card_is_refused(tmp_path: Path, command: Command) -> None:
    settings = ["shape=vicuna-7b", f"out={tmp_path / 'x.json'}"]
    assert "must be one of h100, a100" in command.refusal(roofline.main, *settings, "gpu=abacus")
    assert "must be given" in command.refusal(roofline.main, *settings)
    for wrong in ("nodes=[]", "nodes=[2,4]", "batch=[2]"):
        assert "must each hold 1" in command.refusal(roofline.main, *settings, "gpu=h100", wrong)
