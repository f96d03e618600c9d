"""What transformers would pass over in a model's folder is refused; no pickle is run, and its code where trusted."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers.utils
from safetensors.torch import load_file

from aded.errors import BadInput
from aded.targets.eager import EagerTarget
from aded.targets.load import load, load_target

CODE = """
from transformers import LlamaConfig, LlamaForCausalLM
open({ran!r}, "w")
class Config(LlamaConfig):
    model_type = "own"
class Model(LlamaForCausalLM):
    config_class = Config
"""


class Runs:
    """What unpickling would call."""

    def __init__(self, folder: Path) -> None:
        self.call = (Path.touch, (folder / "ran",))

    def __reduce__(self) -> Any:
        return self.call


def with_keys(name: str, **keys: object) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        (folder / name).write_text(json.dumps({**json.loads((folder / name).read_text()), **keys}))

    return change


def with_text(name: str, text: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_text(text)


def with_code(folder: Path) -> None:
    names = {"AutoConfig": "own.Config", "AutoModelForCausalLM": "own.Model"}
    with_keys("config.json", model_type="own", auto_map=names)(folder)
    (folder / "own.py").write_text(CODE.format(ran=str(folder / "ran")))


def pickled(weights: Callable[[Path], object]) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        torch.save(weights(folder), folder / "pytorch_model.bin")
        (folder / "model.safetensors").unlink()

    return change


def tensors(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


@pytest.fixture
def own(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "own"))


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (with_text("generation_config.json", '{"eos_token_id": 2'), "generation_config.json is no JSON"),
        (with_text("generation_config.json", "[2]"), "generation_config.json"),
        (with_keys("generation_config.json", eos_token_id="</s>"), "eos_token_id"),
        (with_text("adapter_config.json", '{"peft_type": "LORA"}'), "has an adapter"),
        (with_code, "model.trust_remote_code=true"),
        (pickled(Runs), "Weights only"),
        (lambda folder: (folder / "model.safetensors").rename(folder / "model.gguf"), "model.safetensors"),
    ],
    ids=["cut", "list", "text as EOS", "adapter", "code", "pickle", "gguf"],
)
def test_what_would_be_passed_over_is_refused(
    change: Callable[[Path], object], line: str, own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transformers.utils, "is_peft_available", lambda: False)
    monkeypatch.setattr("builtins.input", lambda _: pytest.fail("a question at the terminal"))
    change(own)
    with pytest.raises(BadInput, match=rf"^model: .*{line}"):
        load(own)
    assert not (own / "ran").exists()


def test_trusted_code_of_a_folder_is_run(own: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(own / "modules"))
    monkeypatch.syspath_prepend(own / "modules")
    with_code(own)
    target = load_target(str(own), dtype="float32", trust_remote_code=True).target
    assert isinstance(target, EagerTarget)
    assert (own / "ran").exists()
    wanted, ids = load_target(str(folder), dtype="float32").target, torch.arange(5, 9)[None]
    assert isinstance(wanted, EagerTarget)
    assert torch.equal(target.model(ids).logits, wanted.model(ids).logits)


@pytest.mark.parametrize(
    ("change", "eos"),
    [
        (lambda folder: None, 2),
        (with_keys("generation_config.json", eos_token_id=[2, 3], temperature=0.5, do_sample=True), [2, 3]),
        (lambda folder: (folder / "generation_config.json").unlink(), 2),
        (pickled(tensors), 2),
        (with_keys("config.json", auto_map={"AutoModelForCausalLM": "own.Model"}), 2),
        (with_text("processor_config.json", "{"), 2),
    ],
    ids=["whole", "several", "none", "pickled tensors", "code beside a known type", "no text"],
)
def test_what_is_read(change: Callable[[Path], object], eos: object, folder: Path, own: Path) -> None:
    change(own)
    model, _ = load(own)
    assert model.generation_config.eos_token_id == eos
    weights, wanted = model.state_dict(), load_file(folder / "model.safetensors")
    assert all(torch.equal(weights[name], wanted[name]) for name in wanted)
