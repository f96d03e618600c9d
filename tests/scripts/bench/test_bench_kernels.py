"""Steps with and without each kernel, on a tiny model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from omegaconf import DictConfig
from tiny import tiny_model, tiny_tokenizer

from aded.config.command_line import compose_config
from aded.errors import BadInput
from aded.kernels.linear import KERNELS, packed_layers
from scripts.bench import kernels
from scripts.bench.kernels import BenchKernelsSettings


@pytest.fixture
def model(tmp_path: Path) -> str:
    """A folder with a model whose weights bfloat16 represents."""
    tiny_model(vocab_size=128, max_position_embeddings=512).bfloat16().save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    return f"model={tmp_path}"


def config(*overrides: str) -> DictConfig:
    return compose_config(overrides)


def test_the_command_ends_in_a_line_of_json(model: str, capsys: pytest.CaptureFixture[str]) -> None:
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


def test_a_variant_lacks_its_kernel_alone(model: str) -> None:
    float32 = config(model, "model.dtype=float32")
    targets = [kernels.load(float32), kernels.load(float32, without=kernels.WITHOUT_LINEAR)]
    assert [bool(packed_layers(target.model)) for target in targets] == [True, False]
    assert [target.model.config._attn_implementation for target in targets] == ["tree", "tree"]


def test_without_our_kernels_there_is_nothing_to_measure(model: str) -> None:
    with pytest.raises(BadInput, match=r"^model\.kernels: none of ours is used here"):
        kernels.run([model, "model.kernels=torch"], BenchKernelsSettings())


def test_kernels_are_for_processors(model: str) -> None:
    with pytest.raises(BadInput, match="processors"):
        kernels.run([model, "model.device=cuda"], BenchKernelsSettings())
