"""Rows of questions: of a file of JSON lines or Parquet, and of such a file on the Hub.

Files of the Hub are named one by one and pinned to a commit, in place of `datasets.load_dataset`: what is downloaded
once is there without network for ever, no other split comes along, and a file from elsewhere is read alike.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import partial
from typing import Any

from aded.errors import BadInput, first_line
from aded.files.compressed import parquet_rows
from aded.files.json_lines import json_lines

QUESTIONS_KEY = "benchmark.question_file"
log = logging.getLogger(__name__)


def rows_of(path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """("FILE line N", row) of each line; in a Parquet file, "FILE row N". Raises BadInput naming the place."""
    if path.endswith(".parquet"):
        return ((f"{path} row {number}", row) for number, row in enumerate(parquet_rows(path, QUESTIONS_KEY), 1))
    return json_lines(path, QUESTIONS_KEY)


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
        raise BadInput(
            QUESTIONS_KEY,
            f"{file} of the dataset {dataset} (commit {revision[:7]}) cannot be had from the Hub "
            f"({first_line(error)}); download it elsewhere and give it: {QUESTIONS_KEY}=FILE",
        ) from None
