"""A small n-gram file."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from transformers import PreTrainedTokenizerBase

from aded.identity import tokenizer_fingerprint
from datastore.ngrams import count_ngrams, write_ngrams


def write_small_ngrams(
    path: Path,
    documents: Sequence[np.ndarray | str],
    vocabulary: int,
    order: int = 5,
    tokenizer: PreTrainedTokenizerBase | None = None,
) -> Path:
    """Count documents, token ids or texts, into a file, and return its path. Without a tokenizer its name is t."""
    ids = [
        np.array(tokenizer(one)["input_ids"]) if tokenizer and isinstance(one, str) else np.asarray(one)
        for one in documents
    ]
    name = tokenizer_fingerprint(tokenizer) if tokenizer else "t"
    write_ngrams(path, count_ngrams(ids, order, vocabulary), {"tokenizer": name, "vocabulary": str(vocabulary)})
    return path
