from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from transformers import PreTrainedTokenizerFast

from scripts import bench_datastore

TEXTS = ["the cat sat on the mat", "the dog sat on the log", "abcab"]


@pytest.mark.slow
def test_the_last_line_is_json_and_the_probabilities_are_draftretrievers(
    tokenizer: PreTrainedTokenizerFast,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("draftretriever")
    tokenizer.save_pretrained(tmp_path / "tok")
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    arguments = [f"corpus.path={tmp_path}/rows.jsonl", f"tokenizer={tmp_path}/tok", "rounds=1", "repeat=2"]
    monkeypatch.setattr(sys, "argv", ["bench_datastore", *arguments])
    bench_datastore.main()
    numbers = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert numbers["tokens"] == sum(map(len, TEXTS))
    assert numbers["long_tokens"] == 2 * numbers["tokens"]
    assert numbers["pairs"] > 0
    assert numbers["differing_pairs"] == 0


def test_bad_keys_are_reported_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in (["rounds=0"], ["rounds=many"], ["corpus.paht=x"]):
        monkeypatch.setattr(sys, "argv", ["bench_datastore", *arguments])
        with pytest.raises(SystemExit, match="2"):
            bench_datastore.main()
        assert len(capsys.readouterr().err.splitlines()) == 1
