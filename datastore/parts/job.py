"""One part of a corpus: counted by a job of its own, to an n-gram file of its own."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from aded.errors import BadInput
from aded.files.datastores.ngram_file import open_ngrams
from aded.files.models.tokenizer import load_tokenizer
from aded.identity import tokenizer_fingerprint
from aded.shown import show_log
from datastore.builder import header_of
from datastore.corpora.corpus import Corpus
from datastore.counting.windows import StreamWindows
from datastore.ngrams import count_windows, write_ngrams
from datastore.scratch import scratch_folder
from datastore.token_stream import tokenise


@dataclass(frozen=True)
class BuildPart:
    """Part `number`, from 0 on, of the n-gram file of a corpus.

    corpus: the whole of it; tokenizer, cache: as load_tokenizer takes them; order: tokens of the longest n-grams;
    folder: of all parts.
    """

    corpus: Corpus
    number: int
    parts: int
    tokenizer: str
    cache: str
    order: int
    folder: Path

    def __str__(self) -> str:
        return f"part {self.number + 1} of {self.parts}"

    @property
    def path(self) -> Path:
        return self.folder / f"{self.number:05d}-of-{self.parts:05d}.ngrams"

    @property
    def content(self) -> str:
        """What the header of its file says that it is."""
        return f"{self} of {self.corpus.identity}"

    def is_there(self, tokenizer: str) -> bool:
        """Is its file whole, and of this corpus, tokenizer (a fingerprint) and order?"""
        try:
            file = open_ngrams(self.path)
            file.verify()
        except BadInput:
            return False
        found = file.header.get("part"), file.header["tokenizer"], file.order
        return found == (self.content, tokenizer, self.order)


def build_part(part: BuildPart, threads: int | None = None) -> tuple[str, str] | None:
    """Build the part's file, unless it is there. Returns None, or the key and the problem of input that is bad.

    threads: for tokenising; None: one for each core.
    """
    show_log()
    if threads:
        os.environ["RAYON_NUM_THREADS"] = str(threads)
    corpus = part.corpus.part(part.number, part.parts)
    try:
        tokenizer = load_tokenizer(part.tokenizer, part.cache)
        # A job may go on when the command that sent it was killed. The next one waits here, and finds the file.
        with scratch_folder({"out": part.path}) as folder:
            if not part.is_there(tokenizer_fingerprint(tokenizer)):
                stream = tokenise(corpus, tokenizer, folder / "tokens", progress=False)
                ngrams = count_windows(StreamWindows(stream), part.order, folder)
                header = {**header_of(corpus, tokenizer, stream), "part": part.content}
                write_ngrams(part.path, ngrams, header, corpus.prompts())
    except BadInput as error:
        return error.key, error.problem
    return None
