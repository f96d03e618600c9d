"""Files of transformers that are not what they should be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file
from scored_by_hand import random_transformer, write_transformer

from aded.drafters.backoff.transformer.weights import read_weights
from aded.errors import BadInput

WEIGHTS = random_transformer(np.random.default_rng(0), tokens=np.arange(10), width=32, layers=1)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = write_transformer(tmp_path / "t", WEIGHTS, "fingerprint")
    weights, facts = read_weights(str(path))
    assert facts["tokenizer"] == "fingerprint"
    for one, other in zip(weights, WEIGHTS, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("name", "wrong", "problem"),
    [
        ("qkv", np.zeros((1, 32, 64), np.float32), "shapes do not fit"),
        ("output", np.zeros((32, 10), np.float32), "shapes do not fit"),
        ("up", np.zeros((0,), np.float32), "shapes do not fit"),
        ("up", np.full((1, 32, 128), np.nan, np.float32), "no numbers"),
        ("tokens", np.arange(10)[::-1].astype(np.int32), "do not ascend"),
        ("tokens", np.arange(10).astype(np.float32), "do not ascend"),
        ("further", np.zeros(1, np.float32), "no file of scripts.train.transformer"),
    ],
)
def test_a_wrong_tensor_is_one_line(tmp_path: Path, name: str, wrong: np.ndarray, problem: str) -> None:
    save_file({**WEIGHTS._asdict(), name: np.ascontiguousarray(wrong)}, tmp_path / "t")
    with pytest.raises(BadInput, match=f"^method.transformer: .*{problem}"):
        read_weights(str(tmp_path / "t"))


@pytest.mark.parametrize("content", [None, b"no tensors"])
def test_no_such_file_is_one_line(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "t").write_bytes(content)
    with pytest.raises(BadInput, match=r"^method\.transformer: .* is no file of scripts.train.transformer"):
        read_weights(str(tmp_path / "t"))
