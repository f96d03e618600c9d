"""Builds datastore files: documents to tokens, tokens to n-gram counts or sorted suffixes, and these to a file.

pydivsufsort sorts bytes. For wider numbers it sorts the suffixes of their big-endian bytes and keeps the suffixes
that start a number: this is the order of the numbers' own suffixes. It takes about 10 bytes of memory per token for a
vocabulary below 65 535, and 20 above.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
from pydivsufsort import divsufsort

from aded.errors import BadInput
from aded.files.datastores.array_file import write_arrays
from aded.files.datastores.cleaning import LEFT_OUT
from aded.files.datastores.suffix_file import FORMAT, VERSION
from aded.identity import tokenizer_fingerprint
from datastore.cleaning.cleaning import described
from datastore.corpora.corpus import Corpus
from datastore.ngrams import StreamWindows, count_windows, write_ngrams
from datastore.scratch import scratch_folder
from datastore.token_stream import TokenStream, token_type, tokenise

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

log = logging.getLogger(__name__)


def sorted_suffixes(tokens: np.ndarray) -> np.ndarray:
    """The start positions of all suffixes, sorted by the suffixes' tokens: int32 [n], int64 from 2^31 tokens on.

    tokens: int32 [n].
    """
    if not len(tokens):
        return np.empty(0, np.int32)
    return divsufsort(tokens).astype(np.int32 if len(tokens) < 2**31 else np.int64, copy=False)


def with_separators(documents: Iterable[np.ndarray], vocabulary: int) -> np.ndarray:
    """One stream, int32 [n]: the documents, each followed by the separator."""
    separator = np.array([vocabulary], np.int32)
    parts = [part for ids in documents for part in (ids.astype(np.int32), separator)]
    return np.concatenate(parts) if parts else np.empty(0, np.int32)


def write_suffixes(path: Path, tokens: np.ndarray, header: dict[str, str]) -> None:
    """Write the suffix file whole or not at all. Raises OSError.

    tokens: int32 [n], with a separator after each document.
    """
    arrays = {
        "tokens": tokens.astype(token_type(int(header["vocabulary"])), copy=False),
        "suffixes": sorted_suffixes(tokens),
    }
    write_arrays(path, {"format": FORMAT, "version": VERSION, **header}, arrays)


def build(
    corpus: Corpus,
    tokenizer: PreTrainedTokenizerBase,
    *,
    out: Path | None = None,
    order: int = 5,
    suffixes: Path | None = None,
    lookup: Path | None = None,
    progress: bool = False,
) -> None:
    """Build the n-gram file `out`, the suffix file `suffixes` and the look-up file `lookup`, those of them that are
    named, from one token stream. Raises BadInput.

    order: tokens of the longest n-grams to count; shorter ones are counted too.
    progress: show bars on the terminal.

    Scratch files take about as much as the file and the tokens, 2 or 4 bytes each, in a folder beside the file; they
    are removed at the end.
    """
    named = {"out": out, "suffixes": suffixes, "lookup": lookup}
    outputs = {key: path for key, path in named.items() if path}
    if not outputs:
        raise BadInput(
            "out", "name what to build: out=FILE for n-grams, suffixes=FILE for REST, lookup=FILE for a look-up model"
        )
    with scratch_folder(outputs) as folder:
        stream = tokenise(corpus, tokenizer, folder / "tokens", progress=progress)
        if not stream.tokens:
            raise BadInput("corpus", f"{corpus.name} holds no text ({corpus.describe_skipped() or 'no rows'})")
        header = header_of(corpus, tokenizer, stream)
        facts = described(header, corpus.name)
        log.info("%s distinct prompts; conversations left out: %s", facts["prompts"], facts[LEFT_OUT])
        if out:
            start = perf_counter()
            ngrams = count_windows(StreamWindows(stream), order, folder, progress=progress)
            write_ngrams(out, ngrams, header, corpus.prompts())
            seconds = perf_counter() - start
            log.info("n-grams counted in %.1f s (%.2f M tokens/s)", seconds, stream.tokens / seconds / 1e6)
        if suffixes:
            start = perf_counter()
            write_suffixes(suffixes, stream.read(), header)
            log.info("suffixes sorted in %.1f s", perf_counter() - start)
        if lookup:
            from datastore.lookup import train_lookup  # it loads torch

            start = perf_counter()
            train_lookup(lookup, stream.read(), header, progress=progress)
            log.info("look-up model trained in %.0f s", perf_counter() - start)


def header_of(corpus: Corpus, tokenizer: PreTrainedTokenizerBase, stream: TokenStream) -> dict[str, str]:
    """What a file says of the corpus that it was built from, once that has been tokenised into `stream`."""
    return {
        "corpus": corpus.name,
        "tokenizer": tokenizer_fingerprint(tokenizer),
        "vocabulary": str(stream.vocabulary),
        "documents": str(stream.documents),
        "tokens": str(stream.tokens),
        "prompts": str(len(corpus.prompts())),
        "skipped": str(corpus.skipped.total()),
        **({"source": corpus.source} if corpus.source else {}),
        **(corpus.cleaner.header() if corpus.cleaner else {}),
    }
