"""Opens the datastore file of a run: the file at `path`, or a file that is built once from `corpus` in the cache.

The type of the argument `datastore` of a method's class says which kind the method reads: `ngrams` (an n-gram file)
or `suffixes` (a suffix file); see aded.config.choices.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from aded.config.methods import KINDS, NGRAMS, SUFFIXES, kind_of
from aded.errors import BadInput
from aded.files.datastores.array_file import ArrayFile, format_of
from aded.files.datastores.lookup_file import FORMAT as LOOKUP_FORMAT
from aded.files.datastores.lookup_file import open_lookup
from aded.files.datastores.ngram_file import VERSION as NGRAM_VERSION
from aded.files.datastores.suffix_file import VERSION as SUFFIX_VERSION
from aded.identity import tokenizer_fingerprint
from aded.settings import FilePath, NgramOrder
from datastore.builder import build
from datastore.corpora.corpus import Corpus

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

log = logging.getLogger(__name__)


def open_datastore(path: Path) -> ArrayFile:
    """Open a datastore file of any kind, a look-up model's too. Raises BadInput."""
    if format_of(path) == LOOKUP_FORMAT:
        return open_lookup(path)
    return KINDS[kind_of(path) or NGRAMS].open(path)


def open_or_build(
    tokenizer: PreTrainedTokenizerBase,
    *,
    path: FilePath | None,
    corpus: Corpus,
    order: NgramOrder,
    cache: str,
    kind: str,
) -> ArrayFile:
    """Open the datastore file for this tokenizer. Raises BadInput.

    path: the file; None: build it from the corpus once, in the cache.
    corpus: the documents to build it from.
    order: tokens of the longest n-grams to count, if it is built.
    cache: the folder that keeps built files.
    kind: the kind of datastore, `ngrams` or `suffixes`.
    """
    fingerprint = tokenizer_fingerprint(tokenizer)
    start, suffixes = f"{corpus.identity}-{fingerprint[:16]}", kind == SUFFIXES
    name = f"{start}.v{SUFFIX_VERSION}.suffixes" if suffixes else f"{start}-{order}.v{NGRAM_VERSION}.ngrams"
    file = Path(path or Path(cache) / "datastores" / name)
    if not path and not _is_whole(file):
        log.info("building the datastore file %s from %s (once)", file, corpus.name)
        build(corpus, tokenizer, out=None if suffixes else file, suffixes=file if suffixes else None, order=order)
    opened = KINDS[kind].open(file)
    opened.check_tokenizer(fingerprint)
    return opened


def _is_whole(file: Path) -> bool:
    """Is the cache's file there, and undamaged?"""
    if not file.exists():
        return False
    try:
        open_datastore(file).verify()
    except BadInput as error:
        log.warning("%s", error)
        return False
    return True
