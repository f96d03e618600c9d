"""Rows of a Parquet file."""

from __future__ import annotations

from collections.abc import Iterator
from os.path import expanduser
from typing import Any

from aded.errors import BadInput, first_line


def parquet_rows(path: str, key: str) -> Iterator[dict[str, Any]]:
    """The rows, a batch in memory at a time. Raises BadInput naming `key`."""
    import pyarrow
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(expanduser(path)) as file:
            for batch in file.iter_batches():
                yield from batch.to_pylist()
    except (OSError, ValueError, pyarrow.ArrowException) as error:  # ValueError: a text or a date that is none
        reason = getattr(error, "strerror", None) or first_line(error)
        raise BadInput(key, f"{path} cannot be read as Parquet ({reason})") from None
