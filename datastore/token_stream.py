"""The token stream that every datastore is built from: the documents' tokens in one file, a separator after each."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
from tqdm import tqdm

from aded.files.array_file import Spill
from datastore.corpus import Corpus

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

BATCH_DOCUMENTS, BATCH_LETTERS = 4096, 1 << 22
"""Most documents and letters tokenised at once (one longer document still comes whole)."""
log = logging.getLogger(__name__)


class TokenStream:
    """int32 tokens in `path`, after what it holds already. The separator is `vocabulary`."""

    def __init__(self, path: Path, vocabulary: int) -> None:
        self.vocabulary = vocabulary
        self._spill = Spill(path, np.int32)
        self.documents = sum(self._separators(part) for part in self.chunks(1 << 22, 0))

    def append(self, ids: np.ndarray | list[int]) -> None:
        """One document."""
        self.extend(np.append(np.asarray(ids, np.int32), np.int32(self.vocabulary)))

    def extend(self, tokens: np.ndarray) -> None:
        """tokens: int [m], documents with a separator after each."""
        self._spill.append(tokens)
        self.documents += self._separators(tokens)

    def flush(self) -> None:
        """Let other processes see what was appended."""
        self._spill.flush()

    def _separators(self, tokens: np.ndarray) -> int:
        return int(np.count_nonzero(tokens == self.vocabulary))

    def __len__(self) -> int:
        """Tokens and separators."""
        return len(self._spill)

    @property
    def tokens(self) -> int:
        return len(self._spill) - self.documents

    def chunks(self, length: int, overlap: int) -> Iterator[np.ndarray]:
        """int32 parts that start every `length` tokens and share `overlap` tokens with the next."""
        for start in range(0, len(self), length):
            yield self._spill.read(start, length + overlap)

    def read(self) -> np.ndarray:
        """int32 [n], all of it."""
        return self._spill.read()


def vocabulary_of(tokenizer: PreTrainedTokenizerBase) -> int:
    """One more than the highest token id."""
    return max(len(tokenizer), 1 + max(tokenizer.get_vocab().values()))


def tokenise(corpus: Corpus, tokenizer: PreTrainedTokenizerBase, path: Path, *, progress: bool) -> TokenStream:
    """Write the corpus to `path`, without special tokens; tell how fast it goes and what was skipped."""
    stream, start = TokenStream(path, vocabulary_of(tokenizer)), perf_counter()
    with tqdm(desc="tokenise", unit=" tokens", unit_scale=True, disable=not progress) as bar:
        for texts in _batches(corpus.documents()):
            for ids in tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]:
                stream.append(ids)
            bar.total = int(stream.tokens / corpus.fraction) if corpus.fraction else None
            bar.update(stream.tokens - bar.n)
    stream.flush()
    seconds = perf_counter() - start
    log.info(
        "%s: %d documents, %d tokens, tokenised in %.1f s (%.2f M tokens/s)%s",
        corpus.name,
        stream.documents,
        stream.tokens,
        seconds,
        stream.tokens / seconds / 1e6,
        "; " + corpus.describe_skipped() if corpus.skipped else "",
    )
    return stream


def _batches(documents: Iterable[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    letters = 0
    for text in documents:
        batch.append(text)
        letters += len(text)
        if len(batch) >= BATCH_DOCUMENTS or letters >= BATCH_LETTERS:
            yield batch
            batch, letters = [], 0
    if batch:
        yield batch
