from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from transformers import PreTrainedTokenizerFast

from datastore.ngrams import count_ngrams
from scripts.bench import datastore
from scripts.bench.timing import large_datastore
from scripts.bench.timing.synthetic_stream import synthetic_stream

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
    monkeypatch.setattr(sys, "argv", ["datastore", *arguments])
    datastore.main()
    numbers = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert numbers["tokens"] == sum(map(len, TEXTS))
    assert numbers["long_tokens"] == 2 * numbers["tokens"]
    assert numbers["pairs"] > 0
    assert numbers["differing_pairs"] == 0


def test_bad_keys_are_reported_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in (["rounds=0"], ["rounds=many"], ["corpus.paht=x"]):
        monkeypatch.setattr(sys, "argv", ["datastore", *arguments])
        with pytest.raises(SystemExit, match="2"):
            datastore.main()
        assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_synthetic_corpus_is_built_and_drafted_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(large_datastore, "STEPS", 20)
    monkeypatch.setattr(datastore, "apart", lambda function, *arguments: function(*arguments))
    monkeypatch.setattr(sys, "argv", ["datastore", "tokens=20000", f"folder={tmp_path}"])
    datastore.main()
    numbers = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert numbers["tokens"] == 20_000
    assert numbers["bytes_per_token"] * 20_000 == pytest.approx(1e6 * numbers["file_mb"], rel=0.1)
    assert all(numbers[f"draft_ms_median_{state}"] > 0 for state in ("cold", "warm", "evicted"))
    assert list(tmp_path.iterdir()) == []


def test_a_synthetic_stream_is_seeded_and_recurs_as_text_does() -> None:
    stream = synthetic_stream(200_000, 1000)
    assert np.array_equal(stream, synthetic_stream(200_000, 1000))
    assert not np.array_equal(stream, synthetic_stream(200_000, 1000, seed=1))
    assert stream.max() == 1000, "the separator"
    documents = np.split(stream, np.flatnonzero(stream == 1000))
    assert 200 < len(stream) / len(documents) < 350
    file = count_ngrams([ids[ids < 1000] for ids in documents], 4, 1000)
    distinct = [len(file.level(order)) / len(stream) for order in (2, 3, 4)]
    assert distinct == sorted(distinct)
    assert distinct[0] < 0.5
    assert 0.5 < distinct[2] < 1.0
