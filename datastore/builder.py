"""Builds datastore files: documents to tokens, tokens to n-gram counts or sorted suffixes, and these to a file."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from tqdm import tqdm

from aded.errors import BadInput
from aded.files.tokenizer import tokenizer_fingerprint
from datastore.corpora.corpus import Corpus
from datastore.ngrams import CountsOnDisk, context_batches, write_ngrams
from datastore.scratch import scratch_folder
from datastore.spilled_counts import CHUNK, SpilledCounts, count_chunk
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
    orders: Sequence[int] = (3,),
    suffixes: Path | None = None,
    progress: bool = False,
) -> None:
    """Build the n-gram file `out`, the suffix file `suffixes` or both from one token stream. Raises BadInput.

    orders: lengths of the n-grams to count.
    progress: show bars on the terminal.

    Scratch files take about 20 bytes per token and order, in a folder beside the file, and are removed at the end.
    """
    outputs = [path for path in (out, suffixes) if path]
    if not outputs:
        raise BadInput("out", "name the file to build: out=FILE for n-grams, suffixes=FILE for REST, or both")
    with scratch_folder(outputs) as folder:
        stream = tokenise(corpus, tokenizer, folder / "tokens", progress=progress)
        if not stream.tokens:
            raise BadInput("corpus", f"{corpus.name} holds no text ({corpus.describe_skipped() or 'no rows'})")
        header = {
            "corpus": corpus.name,
            "tokenizer": tokenizer_fingerprint(tokenizer),
            "vocabulary": str(stream.vocabulary),
            "documents": str(stream.documents),
            "tokens": str(stream.tokens),
            "skipped": str(corpus.skipped.total()),
        }
        if out:
            counted = {order: count_stream(stream, order, folder, progress=progress) for order in orders}
            write_ngrams(out, counted, header)
        if suffixes:
            start = perf_counter()
            write_suffixes(suffixes, stream.read(), header)
            log.info("suffixes sorted in %.1f s", perf_counter() - start)


def count_stream(stream: TokenStream, order: int, folder: Path, *, progress: bool) -> CountsOnDisk:
    """Count the n-grams of one order in the stream, and log the speed."""
    start, spilled = perf_counter(), SpilledCounts(folder)
    with tqdm(desc=f"order {order}", total=len(stream), unit=" tokens", unit_scale=True, disable=not progress) as bar:
        for tokens in stream.chunks(CHUNK, order - 1):
            spilled.add(count_chunk(tokens, order, stream.vocabulary))
            bar.update(min(CHUNK, len(tokens)))
    counts = merge_spilled(spilled, order, folder, stream.vocabulary, len(stream), progress=progress)
    seconds = perf_counter() - start
    log.info(
        "order %d: %d n-grams counted in %.1f s (%.2f M tokens/s)",
        order,
        counts.ngrams,
        seconds,
        stream.tokens / seconds / 1e6,
    )
    return counts


def merge_spilled(
    spilled: SpilledCounts, order: int, folder: Path, vocabulary: int, length: int, *, progress: bool
) -> CountsOnDisk:
    """Merge the spilled counts of one order into its arrays.

    length: tokens and separators of the whole stream.
    """
    counts = CountsOnDisk(folder, order, vocabulary, length)
    with tqdm(desc=f"merge {order}", total=length, unit=" tokens", unit_scale=True, disable=not progress) as bar:
        for batch in context_batches(spilled.merged(), order, vocabulary):
            counts.append(batch)
            bar.update(int(batch.total.sum()))
    spilled.clear()
    return counts
