"""Recorded answers replayed at the speed of a model with random weights."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from shell import Shell
from test_recorded_run import CHAT, chat_files, datastore  # noqa: F401 - a fixture

from aded.bench import recording
from aded.bench.recording import read_shape
from aded.errors import BadInput


@pytest.fixture
def tiny_shapes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """One shape, `tiny`."""
    (tmp_path / "tiny.yaml").write_text(
        "model_type: llama\nvocab_size: 128\nhidden_size: 32\nintermediate_size: 32\nnum_hidden_layers: 2\n"
        "num_attention_heads: 2\nnum_key_value_heads: 2\nmax_position_embeddings: 4096\n"
    )
    monkeypatch.setattr(recording, "SHAPES", tmp_path)
    return tmp_path


def test_a_trace_has_the_recordings_lengths_and_a_models_times(
    shell: Shell,
    folder: Path,
    datastore: Path,  # noqa: F811
    tmp_path: Path,
    tiny_shapes: Path,
) -> None:
    overrides = [
        *chat_files(tmp_path),
        f"model.tokenizer={folder}",
        CHAT,
        f"datastore.path={datastore}",
        "method=aded",
        "method.cost=none",
    ]
    assert shell(*overrides)[0] == 0
    replay = shell.rows()
    shell.out = tmp_path / "trace"
    code, _, _ = shell(*overrides, "model.compute=tiny")
    assert code == 0
    assert shell.summary()["model"] == "tiny trace"
    for key in ("question_id", "token_ids", "accept_lengths", "drafted_nodes"):
        assert [row[key] for row in shell.rows()] == [row[key] for row in replay], key
    assert all(row["verify_seconds"] > 0 and row["identical"] for row in shell.rows())
    assert shell.summary()["speedup"] > 0
    facts = json.loads((shell.out / "environment.json").read_text())
    assert (facts["engine"], facts["trace"]) == ("eager", True)


def test_an_unknown_shape_is_named() -> None:
    with pytest.raises(BadInput, match=r"gpt-9. is no known shape; there are codellama-7b"):
        read_shape("gpt-9")
