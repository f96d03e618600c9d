"""The datastore of a run: the file at `path`, or one built once from `corpus` in the cache."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import numpy as np
from transformers import PreTrainedTokenizerBase

from aded.ngram_file import NgramFile, open_ngrams
from aded.text import tokenizer_fingerprint
from datastore.ngrams import count_ngrams, write_ngrams

log = logging.getLogger(__name__)


class Corpus(Protocol):
    """A named stream of documents."""

    name: str

    def documents(self) -> Iterator[str]: ...


def open_or_build(tokenizer: PreTrainedTokenizerBase, *, path: str | None, corpus: Corpus, cache: str) -> NgramFile:
    """Open the n-gram file for this tokenizer; without `path` it is built once, in the cache."""
    fingerprint = tokenizer_fingerprint(tokenizer)
    file = Path(path) if path else Path(cache) / "datastores" / f"{corpus.name}-{fingerprint[:16]}.ngrams"
    if not path and not file.exists():
        log.info("building the datastore %s from %s (once)", file, corpus.name)
        _build(file, tokenizer, corpus, fingerprint)
    opened = open_ngrams(file)
    opened.check_tokenizer(fingerprint)
    return opened


def _build(file: Path, tokenizer: PreTrainedTokenizerBase, corpus: Corpus, fingerprint: str) -> None:
    texts = list(corpus.documents())
    ids = [
        np.array(encoded, np.int64)
        for encoded in tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]
    ]
    header = {
        "corpus": corpus.name,
        "tokenizer": fingerprint,
        "vocabulary": str(len(tokenizer)),
        "documents": str(len(ids)),
        "tokens": str(sum(map(len, ids))),
    }
    write_ngrams(file, {3: count_ngrams(ids, 3, len(tokenizer))}, header)
