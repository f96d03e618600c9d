"""Builds datastore files: documents to tokens, tokens to n-gram counts or sorted suffixes, and these to a file."""

from __future__ import annotations

import logging
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from aded.errors import BadInput
from aded.files.datastores.cleaning import LEFT_OUT
from aded.identity import tokenizer_fingerprint
from datastore.cleaning.header import described
from datastore.corpora.corpus import Corpus
from datastore.counting.windows import StreamWindows
from datastore.ngrams import count_windows, write_ngrams
from datastore.scratch import scratch_folder
from datastore.suffix_array import write_suffixes
from datastore.token_stream import TokenStream, tokenise

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

log = logging.getLogger(__name__)


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
            from datastore.lookup.training import train_lookup  # it loads torch

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
