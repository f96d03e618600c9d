"""A datastore is built beside draftretriever's."""

from __future__ import annotations

import json
from pathlib import Path

import forked
import pytest
from command import Command
from transformers import PreTrainedTokenizerFast

from scripts.bench import datastore

TEXTS = ["the cat sat on the mat", "the dog sat on the log", "abcab"]


@pytest.mark.thorough
def test_the_last_line_is_json(
    tokenizer: PreTrainedTokenizerFast, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("draftretriever")
    monkeypatch.setattr(datastore.multiprocessing, "get_context", lambda _: forked.SERVER)  # it has imported torch
    tokenizer.save_pretrained(tmp_path / "tok")
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    arguments = [f"corpus.path={tmp_path}/rows.jsonl", f"tokenizer={tmp_path}/tok", "rounds=1", "repeat=2"]
    numbers = json.loads(command(datastore.main, *arguments).out.splitlines()[-1])
    assert numbers["tokens"] == sum(map(len, TEXTS))
    assert numbers["long_tokens"] == 2 * numbers["tokens"]
    for name in ("", "draftretriever_"):
        assert numbers[f"{name}tokens_per_second"] > 0
        for key in ("peak_mb", "file_mb", "open_ms"):
            assert numbers[f"{name}{key}"] >= 0
    ratio = numbers["tokens_per_second"] / numbers["draftretriever_tokens_per_second"]
    assert numbers["ratio"] == pytest.approx(ratio, abs=0.01)


@pytest.mark.parametrize("argument", ["rounds=0", "rounds=many", "corpus.paht=x"])
def test_bad_keys_are_reported_in_one_line(argument: str, command: Command) -> None:
    assert command.refusal(datastore.main, argument).startswith(argument.partition("=")[0])
