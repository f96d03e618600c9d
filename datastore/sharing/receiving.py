"""Fetches a published datastore file."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from aded.files.datastores.array_file import ArrayFile, check_replaceable
from datastore.open import open_datastore
from datastore.sharing.manifest import NAME, read_manifest
from datastore.sources.download import chunks, receive, unfetched

LARGEST = 32
"""Chunks of a manifest: far more than one has."""


def fetch_datastore(place: str, out: Path) -> ArrayFile:
    """Fetch what was published at a place to the file `out`; return it, opened. Raises BadInput.

    place: a folder, an http(s) URL, or hf://datasets/OWNER/NAME[@REVISION]
    """
    check_replaceable("out", out)
    place = place.rstrip("/")
    where = f"{place}/{NAME}"
    try:
        manifest = read_manifest(b"".join(islice(chunks(where), LARGEST)), where)
    except OSError as error:
        raise unfetched(error, where, out) from None
    receive(f"{place}/{manifest.file}", out, manifest.bytes, manifest.sha256, _opened)
    return _opened(out)


def _opened(path: Path) -> ArrayFile:
    file = open_datastore(path)
    file.verify()
    return file
