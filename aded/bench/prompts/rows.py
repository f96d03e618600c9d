"""Rows of questions: of a file of JSON lines or Parquet, and of such a file on the Hub.

Files of the Hub are named one by one and pinned to a commit, in place of `datasets.load_dataset`: what is downloaded
once is there without network for ever, no other split comes along, and a file from elsewhere is read alike.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import partial
from os.path import expanduser
from typing import Any

from aded.errors import BadInput
from aded.files.json_lines import json_lines

QUESTIONS_KEY = "benchmark.question_file"
log = logging.getLogger(__name__)


def rows_of(path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """("FILE line N", row) of each line; in a Parquet file, "FILE row N". Raises BadInput naming the place."""
    return _parquet_rows(path) if path.endswith(".parquet") else json_lines(path, QUESTIONS_KEY)


def _parquet_rows(path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    import pyarrow
    from pyarrow.parquet import ParquetFile

    number = 0
    try:
        with ParquetFile(expanduser(path)) as file:
            for batch in file.iter_batches():
                for row in batch.to_pylist():
                    number += 1
                    yield f"{path} row {number}", row
    except (OSError, pyarrow.ArrowException) as error:
        reason = (getattr(error, "strerror", None) or str(error)).strip().splitlines()[0]
        raise BadInput(
            QUESTIONS_KEY, f"{path} cannot be read ({reason}); give a file of JSON lines or Parquet"
        ) from None


def hub_file(dataset: str, revision: str, file: str, licence: str) -> str:
    """The path of a dataset's file, downloaded unless it was before. Raises BadInput.

    dataset: its id on the Hub.
    revision: a commit.
    licence: of the dataset, which is named before a download.
    """
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    get = partial(hf_hub_download, dataset, file, revision=revision, repo_type="dataset")
    try:
        try:
            return str(get(local_files_only=True))
        except LocalEntryNotFoundError:
            log.warning("downloading %s of %s; its licence: %s", file, dataset, licence)
            return str(get())
    except Exception as error:  # offline, gated and missing files raise errors of many libraries
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise BadInput(
            QUESTIONS_KEY,
            f"{file} of the dataset {dataset} (commit {revision[:7]}) cannot be had from the Hub ({reason}); "
            f"download it elsewhere and give it: {QUESTIONS_KEY}=FILE",
        ) from None
