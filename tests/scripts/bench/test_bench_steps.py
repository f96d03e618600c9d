import json
from functools import partial
from pathlib import Path

import pytest
import torch
from command import Command
from packed import small_pack
from tiny import save_model, tiny_model

from aded.bench.recording import read_shape
from aded.config.command_line import compose_config
from aded.errors import BadInput
from aded.files.cost_table import read_batch_times, read_cost_table
from aded.kernels.linear import KERNELS, packed_layers
from aded.targets.eager import EagerTarget
from scripts.bench import batch, gpu_summary, kernels, roofline, verify
from scripts.bench.kernels import BenchKernelsSettings
from scripts.bench.roofline import Shape, seconds
from scripts.bench.verify import Bandwidth, cache_bytes, contexts_of, measure_batches, weight_bytes

pytestmark = pytest.mark.thorough


@pytest.mark.parametrize("tied", [False, True])
def test_a_step_reads_every_weight_once_but_of_the_input_embedding_only_rows(tied: bool) -> None:
    model = tiny_model(tie_word_embeddings=tied)
    layers = sum(parameter.numel() for parameter in model.model.layers.parameters())
    assert weight_bytes(model) == 4 * (layers + model.model.norm.weight.numel() + model.lm_head.weight.numel())
    assert cache_bytes(model, 10) == 2 * 2 * 2 * 8 * 10 * 4  # both, layers, kv heads, width, rows, bytes


def test_steps_are_timed(command: Command, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "Bandwidth", partial(Bandwidth, megabytes=8))
    out, given = tmp_path / "cost.json", [f"model={folder}", "engines=[eager]", "rounds=1", "generate=true"]
    sizes = ["nodes=[1,2,5]", "contexts=[16,40]", "batch=[1,3]"]
    called = command(verify.main, *given, *sizes, f"out={out}", "model.dtype=float32")
    found = json.loads(called.out.splitlines()[-1])
    assert found == json.loads(out.read_text())
    assert 0.1 < found["bandwidth_gb_s"] < 1000
    assert (found["ms_by_nodes"].keys(), found["context"], found["dtype"]) == ({"1", "2", "5"}, 40, "float32")
    cached_mb = 2 * 2 * 2 * 8 * 40 * 4 / 1e6
    assert found["floor_ms"] * found["bandwidth_gb_s"] == pytest.approx(found["weights_mb"] + cached_mb)
    assert found["generate_ms_by_context"].keys() == {"16", "40"}
    assert read_cost_table(out, "eager", 4).seconds[0] == pytest.approx(found["ms_by_nodes"]["1"] / 1e3)
    assert "batch 3" in called.out
    times, (measured,) = read_batch_times(out, "cost"), [engine["ms_by_batch"] for engine in found["engines"]]
    assert (times.batches.tolist(), times.sizes.tolist()) == ([1, 3], [1, 2, 5])
    assert times.seconds(1, 1) == pytest.approx(measured["1"]["1"] / 1000)
    assert "contexts" in command.refusal(verify.main, *given, "contexts=[5000]")


def test_the_round_that_warms_up_is_left_out_and_contexts_differ_around_their_mean() -> None:
    target, bandwidth = EagerTarget(tiny_model()), Bandwidth(torch.device("cpu"), megabytes=1)
    times, bandwidths = verify.measure({"eager": target}, [8, 16], [1, 3], 2, bandwidth)
    assert {key: len(seconds) for key, seconds in times.items()} == dict.fromkeys(
        [("eager", context, size) for context in (8, 16) for size in (1, 3)], 2
    )
    assert len(bandwidths) == 3 * 2
    together = measure_batches(target, [1, 4], 16, [1, 3], 2)
    assert [(batch, [*map(len, sizes.values())]) for batch, sizes in together.items()] == [(1, [2, 2]), (4, [2, 2])]
    assert contexts_of(4, 16) == [8, 16, 24, 16]


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["nodes=[0]"], "nodes"),
        (["engines=[warp]"], "engines"),
        (["shape=square"], "shape"),
        (["generate=true", "shape=vicuna-7b"], "generate"),
        (["engines=[compiled]", "batch=[2]"], "batch"),
        (["model=recorded", "model.answers=pack"], "name a model"),
    ],
)
def test_steps_that_cannot_be_timed_are_refused_in_one_line(
    arguments: list[str], word: str, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    small_pack(tmp_path / "pack")
    assert word in command.refusal(verify.main, *arguments)


def test_the_table_of_a_card(command: Command, tmp_path: Path) -> None:
    for text in (None, "{}", "no JSON"):
        if text:
            (tmp_path / "verify-vicuna-7b.json").write_text(text)
        assert "FOLDER" in command.refusal(gpu_summary.main, str(tmp_path))
    table = {"machine": {"gpu": "A card", "processor": "x"}, "floor_ms": 3.5, "context": 1024}
    engines = [{"engine": "eager"}, {"engine": "compiled"}]
    for shape, first in (("vicuna-7b", 4.0), ("vicuna-13b", 7.0)):
        of_shape = {**table, "engines": engines, "ms_by_nodes": {"1": first, "64": 8.0}}
        (tmp_path / f"verify-{shape}.json").write_text(json.dumps(of_shape))
    assert command(gpu_summary.main, str(tmp_path)).code == 0
    rows = [line for line in (tmp_path / "step_times.md").read_text().splitlines() if " compiled " in line]
    assert ["vicuna-13b" in row and " 0.50 " in row for row in rows] == [True, False]
    assert ["vicuna-7b" in row and " 0.88 " in row for row in rows] == [False, True]
    assert all(" 8.00 " in row for row in rows)


def test_methods_answer_batches_alike_and_stand_beside_a_prediction(command: Command, folder: Path) -> None:
    given = [f"model={folder}", "methods=[autoregressive,prompt_lookup]", "fixed=[1]", "benchmark.limit=2"]
    small = ["batches=[2]", "requests=3", "new_tokens=6", "rounds=1", "nodes=[1,4]", "budget=3"]
    called = command(batch.main, *given, *small, "model.dtype=float32", "model.kernels=torch")
    rows = json.loads(called.out.splitlines()[-1])["rows"]
    assert [(row["method"], row["trees"], row["batch"], row["identical"]) for row in rows] == [
        ("autoregressive", "-", 2, 3),
        ("prompt_lookup", "sized", 2, 3),
        ("prompt_lookup", "1", 2, 3),
    ]
    assert all(row["tokens_per_second"] > 0 and row["predicted"] > 0 for row in rows)
    assert rows[0]["mean_accepted_tokens"] == rows[0]["speedup"] == 1.0
    assert "methods" in command.refusal(batch.main, "methods=[prompt_lookup]")
    for nodes in ("[1,2]", "[2,8]"):
        assert command.refusal(batch.main, f"nodes={nodes}", "budget=7").startswith("nodes: must reach from 1")


@pytest.fixture
def model(tmp_path: Path) -> str:
    """A model whose weights bfloat16 represents."""
    return f"model={save_model(tmp_path, tiny_model(vocab_size=128, max_position_embeddings=512).bfloat16())}"


def test_steps_are_timed_with_and_without_each_kernel(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    kernels.run([model, "model.dtype=float32"], BenchKernelsSettings(nodes=[1, 3], contexts=[16], rounds=1))
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (found["dtype"], found["engine"]) == ("float32", "eager")
    assert [(step["context"], step["nodes"]) for step in found["steps"]] == [(16, 1), (16, 3)]
    for times in found["products"].values():
        assert {"torch", "oneDNN packed", KERNELS[0]} <= times.keys() <= {"torch", "oneDNN packed", *KERNELS}
        assert all(len(each) == len(found["rows"]) and min(each) > 0 for each in times.values())
    for step in found["steps"]:
        assert step["kernels"].keys() == {"attention", "linear", "all"}
        for numbers in step["kernels"].values():
            assert numbers["torch_ms"] / numbers["ours_ms"] == pytest.approx(numbers["ratio"])


def test_a_variant_lacks_its_kernel_alone_and_one_of_ours_is_needed(model: str) -> None:
    float32 = compose_config([model, "model.dtype=float32"])
    targets = [kernels.load(float32), kernels.load(float32, without=kernels.WITHOUT_LINEAR)]
    assert [bool(packed_layers(target.model)) for target in targets] == [True, False]
    assert [target.model.config._attn_implementation for target in targets] == ["tree", "tree"]
    with pytest.raises(BadInput, match=r"^model\.kernels: none of ours is used here"):
        kernels.run([model, "model.kernels=torch"], BenchKernelsSettings())
    with pytest.raises(BadInput, match="processors"):
        kernels.run([model, "model.device=cuda"], BenchKernelsSettings())


def test_a_7b_model_waits_for_the_memory_in_small_steps_and_for_arithmetic_in_large_ones() -> None:
    shape = Shape.of(read_shape("vicuna-7b"))
    embedding = 32000 * 4096
    assert shape.weights + embedding == pytest.approx(6.738e9, rel=1e-3)
    assert 2 * shape.row_values == 512 * 1024  # half a megabyte a token
    one = seconds(shape, 1, 1, 0, 1e12, 1e14)
    assert one == pytest.approx(2 * shape.weights / 1e12)
    assert seconds(shape, 1, 16, 0, 1e12, 1e14) == one, "16 nodes cost what one costs"
    assert seconds(shape, 64, 16, 0, 1e12, 1e14) == pytest.approx(2 * 64 * 16 * shape.weights / 1e14)


def test_the_roofline_says_that_it_is_computed_and_from_what(tmp_path: Path, command: Command) -> None:
    settings = ["shape=vicuna-7b", f"out={tmp_path / 'h100.json'}"]
    assert "computed, not measured" in command(roofline.main, *settings, "gpu=h100").out
    times = read_batch_times(tmp_path / "h100.json", "cost")
    assert times.seconds(1, 1) == pytest.approx(4e-3, rel=0.05)
    assert (times.batches[-1], times.computed) == (256, True)
    assert "must be one of h100, a100" in command.refusal(roofline.main, *settings, "gpu=abacus")
    assert "must be given" in command.refusal(roofline.main, *settings)
    for wrong in ("nodes=[]", "nodes=[2,4]", "batch=[2]"):
        assert "must each hold 1" in command.refusal(roofline.main, *settings, "gpu=h100", wrong)
