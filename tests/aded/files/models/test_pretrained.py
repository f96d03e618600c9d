"""What transformers would pass over in a model's folder, weights that are not its own, and what it raises."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
import transformers.utils
from safetensors.torch import load_file, save_file
from transformers.utils.import_utils import JINJA_IMPORT_ERROR, SENTENCEPIECE_IMPORT_ERROR

from aded.errors import BadInput
from aded.files.models.pretrained import pretrained
from aded.targets.eager import EagerTarget
from aded.targets.load import load, load_target

Weights = dict[str, torch.Tensor]
Q = "model.layers.0.self_attn.q_proj"
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


def tensors(folder: Path) -> Weights:
    return load_file(folder / "model.safetensors")


def with_weights(change: Callable[[Weights], Weights]) -> Callable[[Path], None]:
    return lambda folder: save_file(change(tensors(folder)), folder / "model.safetensors", {"format": "pt"})


def without(name: str) -> Callable[[Path], None]:
    return with_weights(lambda weights: {key: value for key, value in weights.items() if key != name})


def with_more(name: str) -> Callable[[Path], None]:
    return with_weights(lambda weights: {**weights, name: torch.ones(4)})


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
        (without(f"{Q}.weight"), f"lacks {Q}.weight;"),
        (without("lm_head.weight"), "lacks lm_head.weight;"),
        (with_weights(lambda weights: {f"base.{name}": one for name, one in weights.items()}), "and 18 more; are"),
        (with_weights(lambda weights: {**weights, f"{Q}.weight": torch.ones(2, 2)}), f"{Q}.weight"),
        (with_more(f"{Q}.bias"), f"does not read: {Q}.bias;"),
        (with_more(f"{Q}.lora_A.weight"), f"{Q}.lora_A.weight;"),
        (with_more("model.layers.2.mlp.up_proj.weight"), "model.layers.2.mlp.up_proj.weight;"),
    ],
)
def test_what_would_be_passed_over_is_refused(
    change: Callable[[Path], object], line: str, own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transformers.utils, "is_peft_available", lambda: False)
    monkeypatch.setattr("builtins.input", lambda _: pytest.fail("a question at the terminal"))
    change(own)
    with pytest.raises(BadInput, match=rf"^model: .*{line}.*$"):
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
        (with_more("model.vision_tower.layers.0.weight"), 2),
        (with_more("model.layers.0.self_attn.rotary_emb.inv_freq"), 2),
    ],
)
def test_what_is_read(change: Callable[[Path], object], eos: object, folder: Path, own: Path) -> None:
    change(own)
    model, _ = load(own)  # without an encoder of pictures, and frequencies, which transformers computes
    assert model.generation_config.eos_token_id == eos
    weights, wanted = model.state_dict(), load_file(folder / "model.safetensors")
    assert all(torch.equal(weights[name], wanted[name]) for name in wanted)


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (ImportError(SENTENCEPIECE_IMPORT_ERROR.format("X")), "pip install sentencepiece"),
        (ImportError(JINJA_IMPORT_ERROR.format("X")), "pip install jinja2"),
        (ImportError("requires bitsandbytes: `pip install -U bitsandbytes>=0.46.1`"), "'bitsandbytes>=0.46.1'"),
        (ImportError("requires accelerate: `pip install 'accelerate>=1.1.0'`"), "pip install 'accelerate>=1.1.0'"),
        (ImportError("requires AQLM: `pip install aqlm[gpu,cpu]`"), "pip install 'aqlm[gpu,cpu]'"),
        (ImportError("requires torchao library (`pip install torchao`)"), "pip install torchao"),
        (ModuleNotFoundError("No module", name="no_such.part"), "pip install no_such"),
        (caused(OSError("cannot"), ModuleNotFoundError("No module", name="no_such")), "pip install no_such"),
        # transformers tries tiktoken for what needs sentencepiece.
        (ValueError("`tiktoken` is required to read a `tiktoken` file."), "pip install sentencepiece"),
        (ValueError("Error parsing line b'' in tokenizer.model"), "pip install sentencepiece"),
        (ImportError("cannot import name 'x' from 'torch'", name="torch"), "from 'torch'; install what it names"),
        (ValueError("its type is not known\n`pip install --upgrade transformers`"), "is not known; complete"),
    ],
)
def test_what_is_not_installed_is_named(
    error: Exception, advice: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    with pytest.raises(BadInput) as refusal:
        pretrained(Mock(from_pretrained=Mock(side_effect=error)), str(tmp_path), "model")
    assert refusal.value.key == "model"
    assert advice in refusal.value.problem
    assert ("not installed" in refusal.value.problem) == advice.startswith(("pip", "'"))


@pytest.mark.parametrize("settings", [{"num_hidden_layers": 10**40}, {"text_config": {"n_routed_experts": 5000}}])
def test_layers_without_end_are_refused_before_they_are_made(settings: dict[str, object], tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama", "head_dim": 8192} | settings))
    make = Mock()
    with pytest.raises(BadInput, match=r"^model: .* its config.json says n.*: (1e\+40|5e\+03); no model has"):
        pretrained(Mock(from_pretrained=make), str(tmp_path), "model")
    assert not make.called
