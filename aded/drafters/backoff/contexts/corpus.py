"""Corpus contexts of 1 to 4 tokens, looked up one token at a time.

Each node of a draft tree stores its contexts as nodes of the corpus's trie (aded.files.datastores.ngram_file). A
child's contexts continue its parent's by one token, so each is found among a few neighbours, mostly in one cache
line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np

from aded.compiled import inner
from aded.errors import naming
from aded.files.datastores.array_file import ArrayFile, opened
from aded.files.datastores.ngram_file import NgramFile, Ngrams, children, find_child, read_successors

LONGEST_CONTEXT = 4
"""Longest context in tokens."""
File = TypeVar("File", bound=ArrayFile)


class CorpusNgrams(NamedTuple):
    """The corpus, and memory for what is read from it.

    tokens: int64 [top_k], the most frequent successors of the context that was read last
    times: int64 [top_k], their counts
    """

    ngrams: Ngrams
    tokens: np.ndarray
    times: np.ndarray


def open_corpus(file: NgramFile, longest: int, top_k: int) -> CorpusNgrams:
    """Contexts of 1 to `longest` tokens. Raises BadInput if the file lacks them."""
    return CorpusNgrams(file.up_to(longest + 1), np.empty(top_k, np.int64), np.empty(top_k, np.int64))


def open_beside(key: str, path: str, open_file: Callable[[str], File], datastore: NgramFile) -> File:
    """Another file of a corpus. Raises BadInput, naming the key, unless it has the datastore's tokenizer."""
    file = opened(key, path, open_file)
    if datastore.has_ngrams:
        with naming(key):
            file.check_tokenizer(datastore.header["tokenizer"])
    return file


@inner
def follow_token(
    corpus: CorpusNgrams, vocabulary: int, parent: np.ndarray, token: int, longest: int, child: np.ndarray
) -> None:
    """Find the contexts that end with `token`, from the contexts before it.

    parent, child: int64 [4], the context of each length, -1 where nothing followed it in the corpus. They may be one
    array, because the longest context is found first.
    longest: the longest context to look up
    """
    known = token < vocabulary
    for k in range(LONGEST_CONTEXT - 1, -1, -1):
        child[k] = -1
        if known and (k == 0 or (k < longest and parent[k - 1] >= 0)):
            node = find_child(corpus.ngrams, parent[k - 1], token) if k > 0 else token
            first, end = children(corpus.ngrams, node)
            child[k] = node if first < end else -1


@inner
def locate(corpus: CorpusNgrams, vocabulary: int, context: np.ndarray, indices: np.ndarray) -> None:
    """Write the contexts at the end of `context`, int64 [m], to `indices`, int64 [4]."""
    indices[:] = -1
    for i in range(max(0, len(context) - LONGEST_CONTEXT), len(context)):
        follow_token(corpus, vocabulary, indices, context[i], LONGEST_CONTEXT, indices)


@inner
def read_context(corpus: CorpusNgrams, index: int) -> tuple[int, int, int]:
    """Read the most frequent successors of a context into corpus.tokens and corpus.times.

    Returns (how many were read, at most top_k; the count of all successors; the number of distinct ones).
    """
    return read_successors(corpus.ngrams, index, len(corpus.tokens), corpus.tokens, corpus.times)
