"""A converted model: what it holds, and that its folder is whole or absent."""

from __future__ import annotations

from pathlib import Path
from threading import Thread
from time import sleep
from typing import Any

import gguf
import pytest
import torch
from tiny_gguf import TEMPLATE, tiny_gguf
from transformers import AutoModelForCausalLM

from aded.files.atomic import lock_file
from aded.files.models import gguf_model
from aded.files.models.gguf_model import NEEDED, convert, is_whole
from aded.files.models.plain_tokenizer import read_plain_tokenizer
from aded.files.models.tokenizer import load_tokenizer


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    convert(tiny_gguf(folder / "tiny.gguf"), folder / "tiny", 4)
    return folder / "tiny"


def test_its_weights_are_the_files_in_bfloat16(model: Path) -> None:
    (embedding,) = (
        tensor for tensor in gguf.GGUFReader(model.with_name("tiny.gguf")).tensors if "token_embd" in tensor.name
    )
    expected = torch.from_numpy(gguf.dequantize(embedding.data, embedding.tensor_type)).bfloat16()
    found: Any = AutoModelForCausalLM.from_pretrained(model)
    assert {each.dtype for each in found.parameters()} == {torch.bfloat16}
    assert torch.equal(found.get_input_embeddings().weight, expected)
    assert found.config.weight_bits == 4
    assert found.generation_config.eos_token_id == 259


def test_its_tokenizer_is_the_same_however_it_is_read(model: Path) -> None:
    tokenizer = load_tokenizer(model)
    assert (tokenizer.eos_token, tokenizer.chat_template) == ("<|im_end|>", TEMPLATE)
    text = "the <|im_start|>cafe\u0301 1 22<|im_end|>"
    ids = tokenizer(text)["input_ids"]
    assert ids == read_plain_tokenizer(model, "tokenizer")(text)["input_ids"]
    assert ids == tokenizer(text.replace("e\u0301", "é"))["input_ids"], "Qwen reads text in its composed form"
    assert ids.count(258) == ids.count(259) == 1


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The scratch folders of conversions in place of which a few files are written."""
    called: list[Path] = []

    def write(gguf: Path, folder: Path, bits: int | None) -> None:
        called.append(folder)
        folder.mkdir()
        for name in NEEDED:
            (folder / name).write_text(name)
        gguf_model._write_manifest(folder)

    monkeypatch.setattr(gguf_model, "_write", write)
    return called


def test_it_is_converted_once_and_again_when_damaged(made: list[Path], tmp_path: Path) -> None:
    folder = tmp_path / "models" / "a"
    for _ in range(2):
        convert(Path("a.gguf"), folder)
    assert len(made) == 1
    for name in ("model.safetensors", "manifest.json"):
        (folder / name).write_bytes(b"x" * (folder / name).stat().st_size)
        assert not is_whole(folder)
        convert(Path("a.gguf"), folder)
        assert is_whole(folder)
    (folder / "config.json").unlink()
    assert not is_whole(folder)


def test_a_conversion_that_ends_early_leaves_nothing(
    made: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "a"
    with monkeypatch.context() as patch:
        patch.setattr(gguf_model, "sha256", lambda path: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            convert(Path("a.gguf"), folder)
    assert list(tmp_path.iterdir()) == []
    made[0].mkdir()  # what a kill leaves
    (made[0] / "model.safetensors").write_text("half")
    convert(Path("a.gguf"), folder)
    assert is_whole(folder)
    assert list(tmp_path.iterdir()) == [folder]


def test_two_callers_convert_once(made: list[Path], tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "a"
    other = Thread(target=convert, args=(Path("a.gguf"), folder))
    with lock_file(tmp_path / ".a.converting", lambda: None):
        other.start()
        while not caplog.messages and other.is_alive():
            sleep(0.01)
        assert made == []
    convert(Path("a.gguf"), folder)
    other.join()
    assert len(made) == 1
