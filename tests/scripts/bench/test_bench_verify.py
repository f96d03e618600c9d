"""t(n), the floor beside it, and what scripts/bench_gpu.sh makes of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from command import Command
from packed import small_pack
from tiny import tiny_model, tiny_tokenizer

from aded.files.cost_table import read_batch_times, read_cost_table
from scripts.bench import gpu_summary, verify
from scripts.bench.timing.memory_floor import Bandwidth, cache_bytes, weight_bytes


@pytest.mark.parametrize("tied", [False, True])
def test_a_step_reads_every_weight_once_but_of_the_input_embedding_only_rows(tied: bool) -> None:
    model = tiny_model(tie_word_embeddings=tied)
    layers = sum(parameter.numel() for parameter in model.model.layers.parameters())
    norm, head = model.model.norm.weight.numel(), model.lm_head.weight.numel()
    assert weight_bytes(model) == 4 * (layers + norm + head)


def test_the_cache_of_a_row_is_keys_and_values_of_every_layer() -> None:
    assert cache_bytes(tiny_model(), 10) == 2 * 2 * 2 * 8 * 10 * 4  # both, layers, kv heads, width, rows, bytes


def test_bandwidth_is_bytes_per_second() -> None:
    assert 1e8 < Bandwidth(torch.device("cpu"), megabytes=64).measure() < 1e12


def test_the_command_ends_in_a_line_of_json_and_writes_a_cost_table(command: Command, tmp_path: Path) -> None:
    tiny_model(vocab_size=128, max_position_embeddings=512).save_pretrained(tmp_path / "model")
    tiny_tokenizer().save_pretrained(tmp_path / "model")
    out = tmp_path / "cost.json"
    model = f"model={tmp_path / 'model'}"
    settings = ["engines=[eager]", "nodes=[1,2,5]", "contexts=[16,40]", "rounds=2", f"out={out}", "generate=true"]
    found = json.loads(command(verify.main, model, *settings).out.splitlines()[-1])
    assert found == json.loads(out.read_text())
    assert found["ms_by_nodes"].keys() == {"1", "2", "5"}
    assert found["context"] == 40
    assert found["floor_ms"] > 0
    assert found["generate_ms_by_context"].keys() == {"16", "40"}
    cost = read_cost_table(out, "eager", 4)
    assert cost.seconds[0] == pytest.approx(found["ms_by_nodes"]["1"] / 1e3)


def test_steps_of_several_requests_are_timed_together(command: Command, tmp_path: Path) -> None:
    tiny_model(vocab_size=128, max_position_embeddings=512).save_pretrained(tmp_path / "model")
    tiny_tokenizer().save_pretrained(tmp_path / "model")
    out, model = tmp_path / "cost.json", f"model={tmp_path / 'model'}"
    settings = ["engines=[eager]", "nodes=[1,3]", "contexts=[16]", "rounds=2", "batch=[1,3]", f"out={out}"]
    assert "batch 3" in command(verify.main, model, *settings).out
    times = read_batch_times(out, "cost")
    assert (times.batches.tolist(), times.sizes.tolist()) == ([1, 3], [1, 3])
    (measured,) = (engine["ms_by_batch"] for engine in json.loads(out.read_text())["engines"])
    assert times.seconds(1, 1) == pytest.approx(measured["1"]["1"] / 1000)
    assert "batch" in command.refusal(verify.main, model, "engines=[compiled]", "batch=[2]")


def test_the_table_of_a_card(command: Command, tmp_path: Path) -> None:
    table = {"machine": {"gpu": "A card", "processor": "x"}, "floor_ms": 3.5, "context": 1024}
    engines = [{"engine": "eager"}, {"engine": "compiled"}]
    for shape, first in (("vicuna-7b", 4.0), ("vicuna-13b", 7.0)):
        of_shape = {**table, "engines": engines, "ms_by_nodes": {"1": first, "64": 8.0}}
        (tmp_path / f"verify-{shape}.json").write_text(json.dumps(of_shape))
    assert command(gpu_summary.main, str(tmp_path)).code == 0
    head, _, *rows = [line.split("|")[1:-1] for line in (tmp_path / "step_times.md").read_text().splitlines()]
    columns = [[cell.strip() for cell in column] for column in zip(head, *rows, strict=True)]
    assert ["shape", "vicuna-13b", "vicuna-7b"] in columns
    assert ["engine", "compiled", "compiled"] in columns
    assert ["64 nodes", "8.00", "8.00"] in columns
    assert ["share of bandwidth", "0.50", "0.88"] in columns


@pytest.mark.parametrize("text", [None, "{}", "no JSON"])
def test_a_folder_without_a_cards_tables_is_refused(text: str | None, command: Command, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "verify-x.json").write_text(text)
    assert "FOLDER" in command.refusal(gpu_summary.main, str(tmp_path))


@pytest.mark.parametrize(
    "arguments",
    [
        ["nodes=[0]"],
        ["contexts=[]"],
        ["rounds=0"],
        ["nodes=many"],
        ["engines=[warp]"],
        ["shape=square"],
        ["generate=true", "shape=vicuna-7b"],
    ],
)
def test_bad_settings_are_reported_in_one_line(arguments: list[str], command: Command, tmp_path: Path) -> None:
    tiny_model(vocab_size=128).save_pretrained(tmp_path / "model")
    tiny_tokenizer().save_pretrained(tmp_path / "model")
    key = arguments[0].partition("=")[0].removesuffix("s")
    assert key in command.refusal(verify.main, f"model={tmp_path / 'model'}", *arguments)


def test_recorded_answers_have_no_steps(command: Command, tmp_path: Path) -> None:
    small_pack(tmp_path)
    assert "name a model" in command.refusal(verify.main, "model=recorded", f"model.answers={tmp_path}")
