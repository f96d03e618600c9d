"""Fetches a published datastore file."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from aded.errors import BadInput
from aded.files.atomic import check_no_folder
from aded.files.datastores.array_file import WRITTEN, ArrayFile
from datastore.open import open_datastore
from datastore.sharing.manifest import NAME, read_manifest
from datastore.sources.download import chunks, receive, unfetched

HEAD = 1 << 20
"""Bytes at the beginning of a datastore file that name its format."""
LARGEST = 32
"""Chunks of a manifest: far more than one has."""


def fetch_datastore(place: str, out: Path) -> ArrayFile:
    """Fetch what was published at a place to the file `out`; return it, opened. Raises BadInput.

    place: a folder, an http(s) URL, or hf://datasets/OWNER/NAME[@REVISION]
    """
    check_no_folder("out", out)
    place = place.rstrip("/")
    where = f"{place}/{NAME}"
    try:
        manifest = read_manifest(b"".join(islice(chunks(where), LARGEST)), where)
        _check_replaceable(out)
    except OSError as error:
        raise unfetched(error, where, out) from None
    receive(f"{place}/{manifest.file}", out, manifest.bytes, manifest.sha256, _opened)
    return _opened(out)


def _check_replaceable(out: Path) -> None:
    """Raise BadInput where a file that is no datastore would be lost. A damaged datastore may be fetched again."""
    if out.exists() and out.stat().st_size:
        with out.open("rb") as file:
            head = file.read(HEAD)
            if not any(f'"{name}"'.encode() in head for name in WRITTEN):
                raise BadInput("out", f"{out} is there and no datastore; move it away, or name another file")


def _opened(path: Path) -> ArrayFile:
    file = open_datastore(path)
    file.verify()
    return file
