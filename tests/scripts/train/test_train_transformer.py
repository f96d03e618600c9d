"""Learning from a tiny corpus, the command, and its bad input."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from aded.drafters.backoff.transformer.reader import Reader
from aded.drafters.backoff.transformer.weights import Weights, read_weights
from aded.files.datastores.suffix_file import open_suffixes
from datastore.suffix_array import with_separators, write_suffixes
from scripts.train.transformer import IGNORED, Stream, first_weights, logits, main

SMALL = ["width=32", "layers=1", "outputs=8", "batch_size=4", "length=16"]


@pytest.fixture(autouse=True)
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Documents that count from 0 to 9 and on, in the working directory."""
    documents = [np.arange(start, start + 40) % 10 for start in range(40)]
    write_suffixes(tmp_path / "c", with_separators(documents, 50), {"tokenizer": "t", "vocabulary": "50"})
    monkeypatch.chdir(tmp_path)
    return tmp_path / "c"


def command(monkeypatch: pytest.MonkeyPatch, *settings: str) -> None:
    monkeypatch.setattr("sys.argv", ["train_transformer", *SMALL, *settings])
    main()


def test_it_learns_what_follows_and_the_reader_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command(monkeypatch, "suffixes=c", "out=t", "steps=120", "learning_rate=0.02")
    loss = float(capsys.readouterr().out.split("on unseen text: ")[1].split()[0])
    assert loss < 1.0, "log 9 is 2.2"
    weights, facts = read_weights("t")
    assert facts["tokenizer"] == "t"
    reader = Reader(weights)
    reader.read(np.arange(10, 17) % 10, np.array([7, 5]), np.array([0, 0]))
    best = reader.predictions.logarithms[:2].argmax(1)
    known = weights.tokens.tolist()
    assert [known[output] if output < len(known) else -1 for output in best] == [
        token if token in known else -1 for token in (7, 8)
    ]


def test_what_is_trained_is_what_the_reader_reads() -> None:
    torch.manual_seed(0)
    weights = {name: torch.randn(array.shape) * 0.3 for name, array in first_weights(8, 64, 2).items()}
    ids = torch.randint(7, (1, 30))
    expected = logits(weights, ids)[0].log_softmax(-1)
    reader = Reader(Weights(np.arange(7), **{name: array.numpy() for name, array in weights.items()}))
    for end in range(30):
        reader.read(ids[0, end : end + 1].numpy(), np.empty(0, np.int64), np.empty(0, np.int64))
        np.testing.assert_allclose(reader.predictions.logarithms[0], expected[end], atol=1e-4)


def test_the_stream_separates_documents(corpus: Path) -> None:
    stream = Stream(open_suffixes(corpus), 11)
    assert stream.tokens.tolist() == list(range(10))
    assert (stream.inputs[40], stream.targets[40]) == (10, IGNORED)
    inputs, targets = stream.pieces(torch.tensor([0, 41]), 5)
    assert inputs.tolist() == [[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]]
    assert targets.tolist() == [[1, 2, 3, 4, 5], [2, 3, 4, 5, 6]]


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (["suffixes=missing"], "suffixes: no file missing"),
        (["suffixes=c", "width=48"], "width: 48 must be a multiple of 32"),
        (["suffixes=c", "length=1700"], "suffixes: c has only 1640 tokens; length=1700 needs more"),
        (["suffixes=c", "dtype=float8"], "dtype"),
        (["suffixes=c", "out=c"], "out: c belongs to suffixes=c too"),
        (["suffixes=c", "outputs=1"], "outputs"),
    ],
)
def test_bad_input_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], settings: list[str], problem: str
) -> None:
    with pytest.raises(SystemExit) as end:
        command(monkeypatch, *settings)
    assert end.value.code == 2
    error = capsys.readouterr().err
    assert problem in error
    assert error.count("\n") == 1
