"""Rows of a Parquet file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from os.path import expanduser
from typing import Any

from aded.errors import BadInput, first_line
from aded.files.compressed import check_expansion

ROWS = 256
"""Rows of a batch, decoded before their size is known: a text that is stored once may be that of each."""


def parquet_rows(path: str, key: str) -> Iterator[dict[str, Any]]:
    """The rows, a batch in memory at a time. Raises BadInput naming `key`."""
    import pyarrow
    from pyarrow.parquet import ParquetFile

    try:
        size = os.stat(expanduser(path)).st_size
        with ParquetFile(expanduser(path)) as file:
            groups = map(file.metadata.row_group, range(file.metadata.num_row_groups))
            check_expansion(sum(group.total_byte_size for group in groups), size)
            held = 0
            for batch in file.iter_batches(ROWS):
                held += batch.nbytes + batch.num_rows
                check_expansion(held, size)
                yield from batch.to_pylist()
    except (
        OSError,
        ValueError,
        MemoryError,
        pyarrow.ArrowException,
    ) as error:  # ValueError: a text or a date that is none
        reason = getattr(error, "strerror", None) or first_line(error)
        raise BadInput(key, f"{path} cannot be read as Parquet ({reason})") from None
