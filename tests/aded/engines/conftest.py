"""What an engine's drafters read."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from small_ngrams import write_small_ngrams
from tiny import VOCABULARY, tiny_tokenizer


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """A datastore and the tokenizer it was built for."""
    folder = tmp_path_factory.mktemp("served")
    tokenizer = tiny_tokenizer()
    tokenizer.save_pretrained(folder / "model")
    stream = np.tile(np.arange(8, 24), 30)
    write_small_ngrams(folder / "corpus.ngrams", [stream], VOCABULARY, tokenizer=tokenizer)
    return SimpleNamespace(datastore=str(folder / "corpus.ngrams"), tokenizer=str(folder / "model"))
