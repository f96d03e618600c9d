"""The kinds of datastore that methods read, by the names that `datastore_kind` in a method's config gives them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from aded.files.datastores import ngram_file, suffix_file
from aded.files.datastores.array_file import ArrayFile, format_of
from aded.files.datastores.ngram_file import NgramFile, open_ngrams
from aded.files.datastores.suffix_file import SuffixFile, open_suffixes

NGRAMS = "ngrams"
SUFFIXES = "suffixes"


class Kind(NamedTuple):
    """opened: what such a file is when it is open; format: what its header says; open: raises BadInput."""

    opened: type[ArrayFile]
    format: str
    open: Callable[[str | Path], ArrayFile]


KINDS = {
    NGRAMS: Kind(NgramFile, ngram_file.FORMAT, open_ngrams),
    SUFFIXES: Kind(SuffixFile, suffix_file.FORMAT, open_suffixes),
}


def kind_of(file: object) -> str | None:
    """The kind of a file, by its path or opened; None for any other file or object."""
    if isinstance(file, str | Path):
        header = format_of(file)
        return next((name for name, kind in KINDS.items() if kind.format == header), None)
    return next((name for name, kind in KINDS.items() if isinstance(file, kind.opened)), None)
