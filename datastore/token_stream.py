"""The token stream that every datastore file is built from: all documents' tokens in one file.

Arrays grow on disk, and are never in memory as a whole.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
from tqdm import tqdm

from aded.files.models.tokenizer import vocabulary_size
from datastore.corpora.corpus import Corpus

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

log = logging.getLogger(__name__)

READ = 1 << 22
"""Bytes read at once."""


class Spill:
    """An array that grows on disk and is never in memory as a whole. Values that `path` contains already stay."""

    def __init__(self, path: Path, dtype: np.typing.DTypeLike) -> None:
        self.path, self.dtype = path, np.dtype(dtype)
        self._file = path.open("ab")
        self.length = self._file.tell() // self.dtype.itemsize

    def append(self, values: np.ndarray) -> None:
        """values: integers [m], each within the range of the array's dtype."""
        self._file.write(np.ascontiguousarray(values, self.dtype).data)
        self.length += len(values)

    def __len__(self) -> int:
        return self.length

    def flush(self) -> None:
        """Write buffered values to the file, so that other processes can read them."""
        self._file.flush()

    def read(self, start: int = 0, length: int = -1) -> np.ndarray:
        """At most `length` numbers from position `start` on; by default all."""
        self._file.flush()
        return np.fromfile(self.path, self.dtype, length, offset=start * self.dtype.itemsize)

    def blocks(self) -> Iterator[bytes]:
        """The array's bytes, block by block."""
        self._file.flush()
        with self.path.open("rb") as file:
            while block := file.read(READ):
                yield block


BATCH_DOCUMENTS, BATCH_CHARACTERS = 4096, 1 << 22
"""A batch of documents to tokenise ends when it has this many documents or characters."""


def token_type(vocabulary: int) -> type[np.unsignedinteger | np.signedinteger]:
    """The type of stored tokens. The separator, which is the vocabulary's size, fits too."""
    return np.uint16 if vocabulary < 1 << 16 else np.int32


class TokenStream:
    """Tokens in the file `path`, with a separator after each document. Tokens that are there already stay.

    vocabulary: one more than the highest token id; it is also the separator.
    """

    def __init__(self, path: Path, vocabulary: int) -> None:
        self.vocabulary = vocabulary
        self._spill = Spill(path, token_type(vocabulary))
        self.documents = sum(self._separators(part) for part in self.chunks(1 << 22, 0))

    def append(self, ids: np.ndarray | list[int]) -> None:
        """Append one document's token ids, and the separator."""
        self.extend(np.append(np.asarray(ids, np.int64), self.vocabulary))

    def extend(self, tokens: np.ndarray) -> None:
        """Append several documents.

        tokens: int [m], with a separator after each document.
        """
        self._spill.append(tokens)
        self.documents += self._separators(tokens)

    def flush(self) -> None:
        """Write buffered tokens to the file, so that other processes can read them."""
        self._spill.flush()

    def _separators(self, tokens: np.ndarray) -> int:
        return int(np.count_nonzero(tokens == self.vocabulary))

    def __len__(self) -> int:
        """The number of tokens and separators."""
        return len(self._spill)

    @property
    def tokens(self) -> int:
        return len(self._spill) - self.documents

    def chunks(self, length: int, overlap: int) -> Iterator[np.ndarray]:
        """The stream in parts, [at most length + overlap]; each shares `overlap` tokens with the next part."""
        for start in range(0, len(self), length):
            yield self._spill.read(start, length + overlap)

    def read(self) -> np.ndarray:
        """The whole stream, int32 [n]."""
        return self._spill.read().astype(np.int32, copy=False)


def tokenise(corpus: Corpus, tokenizer: PreTrainedTokenizerBase, path: Path, *, progress: bool) -> TokenStream:
    """Tokenise the corpus without special tokens into the file `path`; log the speed and what was skipped."""
    stream, start = TokenStream(path, vocabulary_size(tokenizer)), perf_counter()
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
    characters = 0
    for text in documents:
        batch.append(text)
        characters += len(text)
        if len(batch) >= BATCH_DOCUMENTS or characters >= BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch
