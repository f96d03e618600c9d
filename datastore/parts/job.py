"""One part of a corpus: counted by a job of its own, to an n-gram file of its own."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread

from aded.errors import BadInput
from aded.files.datastores.ngram_file import open_ngrams
from aded.files.tokenizer import load_tokenizer
from aded.identity import tokenizer_fingerprint
from datastore.builder import header_of
from datastore.corpora.corpus import Corpus
from datastore.counting.windows import StreamWindows
from datastore.ngrams import count_windows, write_ngrams
from datastore.scratch import scratch_folder
from datastore.token_stream import tokenise

SECONDS = 1.0
"""Between two notes of how far a job is."""


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

    def share(self) -> float:
        """The share of the part that its job has read, 0 to 1."""
        try:
            return float(self._note.read_text())
        except (OSError, ValueError):
            return 0.0

    @contextmanager
    def noting(self, corpus: Corpus) -> Iterator[None]:
        """Note in the folder how much of this corpus has been read, again and again while the block runs."""
        ended = Event()

        def note() -> None:
            while not ended.wait(SECONDS):
                with suppress(OSError):  # a note that is not written costs nothing
                    self._note.write_text(str(corpus.fraction))

        thread = Thread(target=note)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    @property
    def _note(self) -> Path:
        return self.path.with_suffix(".share")


def build_part(part: BuildPart, threads: int | None = None) -> tuple[str, str] | None:
    """Build the part's file, unless it is there. Returns None, or the key and the problem of input that is bad.

    threads: for tokenising; None: one for each core.
    """
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    if threads:
        os.environ["RAYON_NUM_THREADS"] = str(threads)
    corpus = part.corpus.part(part.number, part.parts)
    try:
        tokenizer = load_tokenizer(part.tokenizer, part.cache)
        # A job may go on when the command that sent it was killed. The next one waits here, and finds the file.
        with scratch_folder([part.path]) as folder, part.noting(corpus):
            if not part.is_there(tokenizer_fingerprint(tokenizer)):
                stream = tokenise(corpus, tokenizer, folder / "tokens", progress=False)
                ngrams = count_windows(StreamWindows(stream), part.order, folder)
                header = {**header_of(corpus, tokenizer, stream), "part": part.content}
                write_ngrams(part.path, ngrams, header, corpus.prompts())
    except BadInput as error:
        return error.key, error.problem
    return None
