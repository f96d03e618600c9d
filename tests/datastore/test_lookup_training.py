import logging
import shutil
from pathlib import Path

import numpy as np
import pytest

from aded.errors import BadInput
from aded.files.datastores.lookup_file import open_lookup
from datastore import lookup
from datastore.lookup import Stream, Training, train_lookup

VOCABULARY = 40
HEADER = {"tokenizer": "t", "vocabulary": str(VOCABULARY)}


@pytest.fixture
def tokens(monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    for name, value in {"STREAMS": 4, "LENGTH": 16, "MOST_STEPS": 60, "CHECKPOINT_STEPS": 10}.items():
        monkeypatch.setattr(lookup, name, value)
    stream = np.tile(np.arange(20), 150).astype(np.int32)
    stream[::100] = VOCABULARY
    return stream


def test_it_learns_what_follows(tokens: np.ndarray) -> None:
    learner = Training(Stream(tokens, VOCABULARY))
    before = learner.unseen_loss()[0]
    while learner.step < learner.steps:
        learner.advance()
    loss, square = learner.unseen_loss()
    assert loss < 0.2 < 2 < before, "the next token is always the next number"
    assert square < 0.1, "scores are log-probabilities as they are"


def test_an_interrupted_training_goes_on(
    tokens: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(lookup, "MOST_STEPS", 30)
    train_lookup(tmp_path / "whole", tokens, HEADER, progress=False)
    advance = Training.advance

    def interrupted(learner: Training) -> float:
        if learner.step == 25:
            raise KeyboardInterrupt
        return advance(learner)

    monkeypatch.setattr(Training, "advance", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train_lookup(tmp_path / "parts", tokens, HEADER, progress=False)
    assert not (tmp_path / "parts").exists()
    monkeypatch.setattr(Training, "advance", advance)
    caplog.set_level(logging.INFO)
    shutil.copy(tmp_path / ".parts.training", tmp_path / ".other.training")
    with monkeypatch.context() as patch:
        patch.setattr(lookup, "MOST_STEPS", 3)
        train_lookup(tmp_path / "other", tokens[:-7], HEADER, progress=False)
    assert "goes on" not in caplog.text, "the checkpoint is that of another text"
    (tmp_path / "other").unlink()
    train_lookup(tmp_path / "parts", tokens, HEADER, progress=False)
    assert "goes on from step 20" in caplog.text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["parts", "whole"]
    assert (tmp_path / "parts").read_bytes() == (tmp_path / "whole").read_bytes()


def test_a_damaged_checkpoint_is_left(tokens: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "MOST_STEPS", 3)
    for content in (b"", b"\xff" * 100):
        (tmp_path / ".l.training").write_bytes(content)
        train_lookup(tmp_path / "l", tokens, HEADER, progress=False)
        assert open_lookup(tmp_path / "l").header["tokenizer"] == "t"
        assert not (tmp_path / ".l.training").exists()


def test_rare_tokens_share_a_row_and_too_few_are_refused(tokens: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "MOST_ROWS", 12)
    stream = Stream(np.concatenate([tokens, tokens[:7]]), VOCABULARY)
    own, separator, rest = stream.rows[:10], stream.rows[VOCABULARY], stream.rows[20:VOCABULARY]
    assert sorted(stream.rows[:20].tolist())[:10] == list(range(10))
    assert separator == 10
    assert (rest == 11).all()
    assert (own[1:7] < 7).all(), "the most frequent ones come first"
    with pytest.raises(BadInput, match=r"^lookup: the corpus has 100 tokens, too few"):
        Stream(tokens[:100], VOCABULARY)
