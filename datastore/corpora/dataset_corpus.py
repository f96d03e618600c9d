"""Corpora of rows, streamed from the Hub or read from a local file, and corpora of plain text."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from copy import copy
from itertools import islice
from os.path import expanduser
from typing import Annotated, Any

from pydantic import Field

from aded.errors import BadInput
from aded.files.compressed import parquet_rows
from aded.settings import FilePath, NonNegative, Positive, Text
from datastore.cleaning.cleaning import Benchmarks, Cleaning, Rules
from datastore.corpora.corpus import Conversation, Corpus
from datastore.corpora.local_file import BLOCK, BROKEN, json_rows, open_text, split_text

Shard = Annotated[int, Field(ge=0, le=1_000_000)]
Shards = tuple[Shard, Shard]
log = logging.getLogger(__name__)


class DatasetCorpus(Corpus):
    """Rows of a dataset on the Hub, or of a local file instead.

    path: a local file of JSON lines, a JSON array (both also compressed) or Parquet, a folder or glob of such files;
        None: read the dataset.
    dataset: its id on the Hub.
    split: the dataset's split to read.
    files: the dataset's files to read; `{shard}` stands for each number of `shards`.
    shards: the first number, and the last number plus 1.
    field: the rows' key that contains the text; None: the first of TEXT_FIELDS that a row has.
    skip: rows to skip at the start.
    limit: rows to read at most; None: all.
    clean: conversations to leave out: near_duplicates, degenerate (repetition without end), both, or none.
    exclude: benchmarks, as NAME or NAME:FILE; conversations that hold a question of theirs are left out.
    report: benchmarks whose questions are counted and stay.
    """

    def __init__(
        self,
        name: str,
        *,
        path: FilePath | None = None,
        dataset: str | None = None,
        split: str = "train",
        files: str | None = None,
        shards: Shards = (0, 1),
        field: str | None = None,
        skip: NonNegative = 0,
        limit: Positive | None = None,
        clean: Rules = (),
        exclude: Benchmarks = (),
        report: Benchmarks = (),
    ) -> None:
        try:
            chosen = [files.format(shard=shard) for shard in range(*shards)] if files else None
        except (AttributeError, IndexError, KeyError, TypeError, ValueError):
            raise BadInput("corpus.files", f"{files!r}: braces hold {{shard}}, which stands for a number") from None
        settings = {"path": path, "dataset": dataset, "split": split, "files": chosen, "field": field}
        super().__init__(name, Cleaning(clean, exclude, report), **settings, skip=skip, limit=limit)
        self.dataset, self.split, self.shards, self.field = dataset, split, chosen, field
        self.skip, self.limit = skip, limit
        self.number, self.parts = 0, 1
        if path is None and dataset is None:
            raise BadInput("corpus.path", "must be given: this corpus names no dataset on the Hub")
        if self.shards == []:
            raise BadInput("corpus.shards", f"{list(shards)} is no range; write [FIRST,END], END exclusive")

    def part(self, number: int, parts: int) -> Corpus:
        """The rows whose number modulo `parts` is `number`. Of a whole dataset on the Hub: files instead of rows, if
        `parts` divides their number. Near-duplicates are those of all parts: then what is left is dealt out."""
        if "near_duplicates" in self.cleaning.clean:
            return super().part(number, parts)
        part = copy(self)
        part.number, part.parts, part.skipped = number, parts, Counter()
        return part

    @property
    def _split_by_datasets(self) -> bool:
        """Does the library `datasets` leave out the files, or rows, of other parts?"""
        return self.parts > 1 and not self.files and not self.skip and self.limit is None

    def conversations(self) -> Iterator[Conversation]:
        rows = self._rows_of_files() if self.files else self._hub_rows()
        end = None if self.limit is None else self.skip + self.limit
        number, parts = (0, 1) if self._split_by_datasets else (self.number, self.parts)
        for row in islice(rows, self.skip + number, end, parts):
            if row is BROKEN:
                self.skipped["not JSON"] += 1
            elif conversation := self.conversation_of(row, self.field):
                yield conversation

    def _rows_of_files(self) -> Iterator[object]:
        for number, path in enumerate(self.files):
            if path.endswith(".parquet"):
                yield from parquet_rows(path, "corpus.path")
                continue
            with open_text(path) as (file, fraction):
                for row in json_rows(file):
                    self.fraction = (number + fraction()) / len(self.files)
                    yield row

    def _hub_rows(self) -> Iterator[object]:
        """The dataset's rows, streamed. Raises BadInput with advice, whatever error the Hub raises."""
        from datasets import load_dataset
        from datasets.distributed import split_dataset_by_node
        from datasets.exceptions import DatasetsError

        try:
            rows: Any = load_dataset(self.dataset, data_files=self.shards, split=self.split, streaming=True)
            splits = rows.info.splits or {}
            total = splits[self.split].num_examples if self.shards is None and self.split in splits else 0
            if self._split_by_datasets:
                rows, total = split_dataset_by_node(rows, self.number, self.parts), total // self.parts
            for number, row in enumerate(rows):
                self.fraction = min(1.0, number / total) if total else 0.0
                yield row
        except (OSError, ValueError, RuntimeError, DatasetsError) as error:
            log.debug("%s", error)
            raise BadInput(
                "corpus",
                f"the dataset {self.dataset} cannot be read from the Hub ({type(error).__name__}); if it is gated, "
                "accept its terms on its page and log in with `hf auth login`; or download it: corpus.path=FILE",
            ) from None


class TextCorpus(Corpus):
    """The documents of plain text files, also compressed.

    path: the file, or a folder or glob of files, of which those with a NUL byte near the beginning are skipped.
    separator: the text between two documents of a file; None: a file is a document.
    clean: conversations to leave out: near_duplicates, degenerate (repetition without end), both, or none.
    exclude: benchmarks, as NAME or NAME:FILE; conversations that hold a question of theirs are left out.
    report: benchmarks whose questions are counted and stay.
    """

    def __init__(
        self,
        name: str,
        *,
        path: FilePath,
        separator: Text | None = "\n\n",
        clean: Rules = (),
        exclude: Benchmarks = (),
        report: Benchmarks = (),
    ) -> None:
        super().__init__(name, Cleaning(clean, exclude, report), path=path, separator=separator)
        self.separator, self.named = separator, self.files == [expanduser(path)]

    def conversations(self) -> Iterator[Conversation]:
        for number, path in enumerate(self.files):
            with open_text(path) as (file, fraction):
                first = file.read(BLOCK)
                if "\0" in first and not self.named:
                    self.skipped["binary"] += 1
                    continue
                for text in split_text(first, file, self.separator):
                    self.fraction = (number + fraction()) / len(self.files)
                    if self.usable(text):
                        yield Conversation([text], 0)
