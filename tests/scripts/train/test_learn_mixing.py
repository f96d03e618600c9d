from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from test_train_medusa import SOURCE
from tiny import tiny_model, tiny_tokenizer

import scripts.train.mixing
from scripts.train.mixing import main


def test_the_weights_leave_the_plain_ones_where_parts_met(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a tiny model, and a corpus of which all prompts are asked."""
    tiny_model(vocab_size=128, max_position_embeddings=4096).save_pretrained(tmp_path / "model")
    tiny_tokenizer().save_pretrained(tmp_path / "model")
    (tmp_path / "corpus.txt").write_text("#####".join([SOURCE] * 20))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ADED_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(scripts.train.mixing, "READ_BY_HEADS", 0)
    monkeypatch.setattr(scripts.train.mixing, "PROMPTS", 4)
    corpus = [
        "corpus@datastore.corpus=text",
        "datastore.corpus.path=corpus.txt",
        "datastore.corpus.separator='#####'",
    ]
    parts = "method.parts=[token_recycling,prompt_lookup]"
    monkeypatch.setattr("sys.argv", ["learn_mixing", "model=model", parts, *corpus])
    main()
    title, *rows = capsys.readouterr().out.replace("[", "").replace("]", "").splitlines()
    assert title.startswith("prompt_lookup, from "), "the first has no other beside it"
    weights = np.array([row.split() for row in rows], float)
    assert weights.shape == (3, 3)
    assert (weights != scripts.train.mixing.PLAIN).any(axis=1).all()
    assert weights[0, 1] == weights[1, 0] == 0, "nothing is learned of a silent part's weight"
