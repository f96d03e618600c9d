"""Small n-gram and suffix files."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from transformers import PreTrainedTokenizerBase

from aded.identity import tokenizer_fingerprint
from datastore.builder import with_separators, write_suffixes
from datastore.ngrams import count_ngrams, write_ngrams

Documents = Sequence[np.ndarray | str]
Tokenizer = PreTrainedTokenizerBase | None


def write_small_ngrams(
    path: Path, documents: Documents, vocabulary: int, order: int = 5, tokenizer: Tokenizer = None
) -> Path:
    """Count documents, token ids or texts, into a file, and return its path. Without a tokenizer its name is t."""
    write_ngrams(path, count_ngrams(ids_of(documents, tokenizer), order, vocabulary), header(vocabulary, tokenizer))
    return path


def write_small_suffixes(path: Path, documents: Documents, vocabulary: int, tokenizer: Tokenizer = None) -> Path:
    write_suffixes(path, with_separators(ids_of(documents, tokenizer), vocabulary), header(vocabulary, tokenizer))
    return path


def ids_of(documents: Documents, tokenizer: Tokenizer) -> list[np.ndarray]:
    return [
        np.array(tokenizer(one)["input_ids"]) if tokenizer and isinstance(one, str) else np.asarray(one)
        for one in documents
    ]


def header(vocabulary: int, tokenizer: Tokenizer) -> dict[str, str]:
    return {"tokenizer": tokenizer_fingerprint(tokenizer) if tokenizer else "t", "vocabulary": str(vocabulary)}
