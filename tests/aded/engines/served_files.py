"""What an engine's drafters read."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
from small_ngrams import write_small_ngrams
from tiny import VOCABULARY, tiny_tokenizer


def served_files(folder: Path) -> SimpleNamespace:
    """A datastore and the tokenizer it was built for."""
    tokenizer = tiny_tokenizer()
    tokenizer.save_pretrained(folder / "model")
    stream = np.tile(np.arange(8, 24), 30)
    write_small_ngrams(folder / "corpus.ngrams", [stream], VOCABULARY, tokenizer=tokenizer)
    return SimpleNamespace(datastore=str(folder / "corpus.ngrams"), tokenizer=str(folder / "model"))
