"""The datastore of a run: the file at `path`, or one built once from `corpus` in the cache."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from transformers import PreTrainedTokenizerBase

from aded.errors import BadInput
from aded.ngram_file import VERSION, NgramFile, open_ngrams
from aded.text import tokenizer_fingerprint
from datastore.builder import build
from datastore.corpus import Corpus

log = logging.getLogger(__name__)


def open_or_build(
    tokenizer: PreTrainedTokenizerBase, *, path: str | None, corpus: Corpus, orders: Sequence[int], cache: str
) -> NgramFile:
    """Open the n-gram file for this tokenizer; without `path` it is built once, in the cache."""
    fingerprint = tokenizer_fingerprint(tokenizer)
    opened = (
        open_ngrams(path) if path else _cached(tokenizer, fingerprint, corpus, orders, Path(cache) / "datastores")
    )
    opened.check_tokenizer(fingerprint)
    return opened


def _cached(
    tokenizer: PreTrainedTokenizerBase, fingerprint: str, corpus: Corpus, orders: Sequence[int], folder: Path
) -> NgramFile:
    """The cache's file, built first where it is missing or damaged."""
    lengths = "".join(map(str, orders))
    file = folder / f"{corpus.identity}-{fingerprint[:16]}-{lengths}.v{VERSION}.ngrams"
    if file.exists():
        try:
            return open_ngrams(file)
        except BadInput as error:
            log.warning("%s", error)
    log.info("building the datastore %s from %s (once)", file, corpus.name)
    build(corpus, tokenizer, out=file, orders=orders)
    return open_ngrams(file)
