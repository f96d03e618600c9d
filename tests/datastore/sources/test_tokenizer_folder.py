from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from aded.errors import BadInput
from aded.files.models.plain_tokenizer import FILES
from aded.identity import tokenizer_fingerprint
from datastore.sources.tokenizer_folder import llama_2, llama_3, qwen

TEXT = "the cat 1234"


def tiktoken_file(folder: Path) -> list[Path]:
    """The 256 bytes and a few merges."""
    tokens = [bytes([byte]) for byte in range(256)] + [b"th", b"the", b"12", b"123"]
    path = folder / "vocabulary"
    path.write_text("".join(f"{base64.b64encode(token).decode()} {rank}\n" for rank, token in enumerate(tokens)))
    return [path]


def saved(folder: Path, contents: Sequence[bytes]) -> Path:
    for name, content in zip(FILES, contents, strict=True):
        (folder / name).write_bytes(content)
    return folder


def fingerprint_of(message: str) -> str:
    """An error about another fingerprint names the one that was found."""
    return message.rpartition("(")[2].rstrip(")")


@pytest.mark.parametrize(
    ("convert", "digits", "eos", "special"),
    [(llama_3, ["123", "4"], "<|eot_id|>", 256), (qwen, ["1", "2", "3", "4"], "<|im_end|>", 3)],
)
def test_tiktoken_files(tmp_path: Path, convert: object, digits: list[str], eos: str, special: int) -> None:
    assert callable(convert)
    raw = tiktoken_file(tmp_path)
    with pytest.raises(BadInput, match="read the vocabulary otherwise") as error:
        convert(raw, fingerprint="0" * 64)
    fingerprint = fingerprint_of(str(error.value))
    tokenizer = AutoTokenizer.from_pretrained(saved(tmp_path, convert(raw, fingerprint=fingerprint)))
    assert tokenizer_fingerprint(tokenizer) == fingerprint
    assert [tokenizer.decode([each]) for each in tokenizer(TEXT)["input_ids"]][-len(digits) :] == digits
    assert tokenizer.decode(tokenizer(TEXT)["input_ids"]) == TEXT
    assert (tokenizer.eos_token, len(tokenizer)) == (eos, 260 + special)
    assert tokenizer(eos)["input_ids"] == [tokenizer.eos_token_id]


def test_a_sentencepiece_model(tmp_path: Path) -> None:
    model = pytest.importorskip("sentencepiece.sentencepiece_model_pb2").ModelProto()
    model.trainer_spec.model_type = 2  # BPE
    model.trainer_spec.byte_fallback = True
    kinds = [("<unk>", 2), ("<s>", 3), ("</s>", 3), *((f"<0x{byte:02X}>", 6) for byte in range(256))]
    pieces = [*kinds, *((text, 1) for text in ("▁t", "he", "▁the", "▁", "t", "h", "e"))]
    for rank, (piece, kind) in enumerate(pieces):
        model.pieces.add(piece=piece, score=-float(rank), type=kind)
    path = tmp_path / "raw.model"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(BadInput) as error:
        llama_2([path], fingerprint="0" * 64)
    fingerprint = fingerprint_of(str(error.value))
    tokenizer = AutoTokenizer.from_pretrained(saved(tmp_path, llama_2([path], fingerprint=fingerprint)))
    assert tokenizer.convert_ids_to_tokens(tokenizer("the")["input_ids"]) == ["<s>", "▁the"]
    assert tokenizer.eos_token == "</s>"
