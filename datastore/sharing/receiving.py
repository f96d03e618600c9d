"""Fetches a published datastore file: block by block, verified, and on where it was interrupted."""

from __future__ import annotations

import hashlib
import logging
import os
import sys
from pathlib import Path
from typing import BinaryIO

import requests
from tqdm import tqdm

from aded.errors import BadInput
from aded.files.atomic import check_no_folder, lock_file, whole_file
from aded.files.datastores.array_file import ArrayFile
from datastore.open import open_datastore
from datastore.sharing.manifest import LARGEST, NAME, Manifest, read_manifest, runs
from datastore.sharing.places import Place, place_of

TRIES = 3
"""How often a block is fetched that arrives otherwise than the manifest says."""
HEAD = 1 << 20
"""Bytes at the beginning of a datastore file that name its format."""
log = logging.getLogger(__name__)


def fetch_datastore(name: str, out: Path) -> ArrayFile:
    """Fetch what was published at a place to the file `out`; return it, opened. Raises BadInput.

    name: a folder, an http(s) URL, or hf://datasets/OWNER/NAME[@REVISION]

    What has arrived stays in `out`.part: another call fetches only the blocks that are missing or wrong. Beside it
    `out`.part.source says where it came from, so that nothing else is taken for it and written over.
    """
    check_no_folder("out", out)
    place, lock = place_of(name), out.with_name(f".{out.name}.fetching")
    try:
        manifest = _manifest(place)
        with lock_file(lock, lambda: log.info("waiting for another fetch to %s", out)):
            try:
                return _fetch(place, manifest, out)
            finally:
                lock.unlink(missing_ok=True)
    except requests.RequestException as error:
        raise BadInput(name, f"is out of reach ({_reason(error)}); what has arrived stays") from None
    except OSError as error:
        problem = f"{error.strerror or error}; what has arrived stays, and the same command goes on behind it"
        raise BadInput(str(error.filename or out), problem) from None


def _manifest(place: Place) -> Manifest:
    """Raises BadInput, RequestException."""
    content = b"".join(place.read(NAME, 0, LARGEST))
    try:
        return read_manifest(content.decode(), f"{place}/{NAME}")
    except UnicodeDecodeError:
        raise BadInput(f"{place}/{NAME}", "is no UTF-8 text") from None


def _fetch(place: Place, manifest: Manifest, out: Path) -> ArrayFile:
    part, source = out.with_name(f"{out.name}.part"), out.with_name(f"{out.name}.part.source")
    if _is_whole(out, manifest):
        log.info("%s is there", out)
        source.unlink(missing_ok=True)  # of a fetch that was interrupted at its very end
        return _opened(out)
    _check_replaceable(place, manifest, out, part, source)
    with whole_file(source) as note:
        note.write("\n".join(_marks(place, manifest)).encode())
    with part.open("r+b" if part.exists() else "w+b") as file:
        _complete(place, manifest, file)
        file.flush()
        os.fsync(file.fileno())
    try:
        _opened(part)
    except BadInput as error:
        part.unlink()  # its blocks are those that were published
        source.unlink()
        raise BadInput(str(place), f"publishes no datastore that this release reads: {error.problem}") from None
    os.replace(part, out)
    source.unlink()
    return _opened(out)


def _marks(place: Place, manifest: Manifest) -> set[str]:
    """What tells that a part is of this file: either is enough, after the file moved or was published anew."""
    return {f"{place}/{manifest.file}", hashlib.sha256(manifest.text().encode()).hexdigest()}


def _check_replaceable(place: Place, manifest: Manifest, out: Path, part: Path, source: Path) -> None:
    """Raise BadInput where another file would be lost: one that is no datastore, or the part of another one."""
    if out.exists() and out.stat().st_size:
        with out.open("rb") as file:
            if b'"aded-' not in file.read(HEAD):  # a damaged datastore may be fetched again
                raise BadInput("out", f"{out} is there and no datastore; move it away, or name another file")
    if part.exists() and part.stat().st_size:
        known = set(source.read_text(errors="replace").split("\n")) if source.exists() else set()
        if not known & _marks(place, manifest):
            problem = f"{part} is there, and not from {place}; move it away, or name another file"
            raise BadInput("out", problem)


def _opened(path: Path) -> ArrayFile:
    file = open_datastore(path)
    file.verify()
    return file


def _is_whole(path: Path, manifest: Manifest) -> bool:
    if not path.is_file() or path.stat().st_size != manifest.bytes:
        return False
    with path.open("rb") as file:
        return not manifest.differing(file)


def _complete(place: Place, manifest: Manifest, file: BinaryIO) -> None:
    """Fetch the blocks that are missing or wrong, until none is. Raises BadInput, RequestException, OSError."""
    if file.seek(0, os.SEEK_END) > manifest.bytes:
        file.truncate(manifest.bytes)
    hidden = not sys.stderr.isatty()
    with tqdm(desc=manifest.file, total=manifest.bytes, unit="B", unit_scale=True, disable=hidden) as bar:
        wrong = manifest.differing(file)
        for _ in range(TRIES):
            if not wrong:
                return
            bar.n = manifest.bytes - sum(end - start for start, end in map(manifest.span, wrong))
            log.info("%s: %d of %d blocks to fetch", manifest.file, len(wrong), len(manifest.blocks))
            for first, last in runs(wrong):
                _receive(place, manifest.file, manifest.span(first)[0], manifest.span(last)[1], file, bar)
            wrong = manifest.differing(file)
    if wrong:
        start, end = manifest.span(wrong[0])
        raise BadInput(
            f"{place}/{manifest.file}",
            f"bytes {start} to {end - 1} are not those of its manifest, also when fetched again: it is damaged, or "
            f"was published anew just now; {len(manifest.blocks) - len(wrong)} of {len(manifest.blocks)} blocks stay",
        )


def _receive(place: Place, name: str, start: int, end: int, file: BinaryIO, bar: tqdm) -> None:
    """Write these bytes of the place's file; go on where a connection breaks, as long as each try brings bytes."""
    while start < end:
        before = start
        file.seek(start)
        try:
            for chunk in place.read(name, start, end):
                file.write(chunk)
                start += len(chunk)
                bar.update(len(chunk))
        except requests.RequestException:
            if start == before:
                raise
        if start == before:
            raise BadInput(f"{place}/{name}", f"ends before byte {start}, which its manifest has")


def _reason(error: requests.RequestException) -> str:
    answer = error.response
    return type(error).__name__ if answer is None else f"{answer.status_code} {answer.reason}"
