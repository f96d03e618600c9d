"""One raw file: from a mirror or its URL to a place on disk, whole and verified, or not at all.

A download that broke off leaves FILE.part, and the next one goes on behind its last byte.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import requests

from aded.errors import BadInput
from datastore.sources.catalogue import RawFile

CHUNK = 1 << 15
"""Bytes written at once; as many are lost, at most, where a connection breaks off."""
TIMEOUT = (10, 60)
"""Seconds to connect, and seconds without a byte."""
Advance = Callable[[int], None]
"""Called with the bytes that arrived; below zero where they are thrown away."""


def raw_file(file: RawFile, folder: Path, mirror: str | None, advance: Advance) -> Path:
    """The verified file: one in `folder` or in the mirror, or downloaded to `folder`. Raises BadInput, OSError.

    mirror: a folder, or the beginning of a URL (http...), that has the file at `file.path`; None: its own URL.
    """
    at = folder / file.path
    if is_whole(at, file.bytes, file.sha256):
        advance(file.bytes)
        return at
    if mirror is None or "://" in mirror:
        url = file.url if mirror is None else f"{mirror.rstrip('/')}/{file.path}"
        _download(url, file, at, advance)
        return at
    copy = Path(mirror).expanduser() / file.path
    if not copy.is_file():
        raise BadInput(str(copy), f"no such file; it is {file.url}, {file.bytes} bytes")
    if not is_whole(copy, file.bytes, file.sha256):
        raise BadInput(str(copy), f"is another file than {file.url}: {_difference(copy, file)}")
    advance(file.bytes)
    return copy


def is_whole(path: Path, size: int | None, sha256: str) -> bool:
    """Has the file this size and hash? size: None: any."""
    try:
        if size is not None and path.stat().st_size != size:
            return False
        return _sha256(path) == sha256
    except OSError:
        return False


def _download(url: str, file: RawFile, to: Path, advance: Advance) -> None:
    """Download to `to`; go on where an earlier download broke off, as long as each try brings bytes."""
    to.parent.mkdir(parents=True, exist_ok=True)
    part = to.with_name(f"{to.name}.part")
    resumed = part.exists()
    advance(_size(part))
    while (before := _size(part)) < file.bytes:
        try:
            _receive(url, file, part, advance)
        except requests.RequestException as error:
            if _size(part) <= before:
                raise BadInput(url, f"is out of reach ({_reason(error)}); {_by_hand(url, file, to)}") from None
    if not is_whole(part, file.bytes, file.sha256):
        difference = _difference(part, file)
        part.unlink()
        advance(-file.bytes)
        if resumed:  # what lay there may have been the fault
            return _download(url, file, to, advance)
        raise BadInput(url, f"is another file than the catalogue's: {difference}; {_by_hand(url, file, to)}")
    os.replace(part, to)
    return None


def _receive(url: str, file: RawFile, part: Path, advance: Advance) -> None:
    """Append what the server sends, from the first missing byte on. Raises RequestException, BadInput."""
    have = _size(part)
    # identity: sizes and ranges are those of the file itself. requests reads the usual variables of proxies.
    headers = {"Accept-Encoding": "identity", **({"Range": f"bytes={have}-"} if have else {})}
    with requests.get(url, headers=headers, stream=True, timeout=TIMEOUT) as answer:
        if answer.status_code == requests.codes.requested_range_not_satisfiable:
            raise BadInput(url, f"ends before byte {have} of {file.bytes}; {_by_hand(url, file, part)}")
        if answer.status_code != requests.codes.partial_content:
            answer.raise_for_status()
            advance(-have)
            have = 0
        length = answer.headers.get("Content-Length", "") if "Content-Encoding" not in answer.headers else ""
        if length.isdigit() and (there := have + int(length)) != file.bytes:
            raise BadInput(url, f"has {there} bytes in place of {file.bytes}; {_by_hand(url, file, part)}")
        with part.open("ab" if have else "wb") as out:
            for chunk in answer.iter_content(CHUNK):
                have += len(chunk)
                if have > file.bytes:
                    raise BadInput(url, f"has more than {file.bytes} bytes; {_by_hand(url, file, part)}")
                out.write(chunk)
                advance(len(chunk))
            out.flush()
            os.fsync(out.fileno())
    if have < file.bytes:
        raise requests.ConnectionError(f"it ended after {have} of {file.bytes} bytes")


def _by_hand(url: str, file: RawFile, to: Path) -> str:
    """What a person without this connection can do."""
    place = str(to).removesuffix(".part")
    what = "it" if url == file.url else file.url
    return f"put {what} ({file.bytes} bytes, sha256 {file.sha256}) at {place}, or name a source.mirror that has it"


def _difference(path: Path, file: RawFile) -> str:
    if _size(path) != file.bytes:
        return f"{_size(path)} bytes in place of {file.bytes}"
    return f"its sha256 is {_sha256(path)} in place of {file.sha256}"


def _reason(error: Exception) -> str:
    answer = getattr(error, "response", None)
    return type(error).__name__ if answer is None else f"{answer.status_code} {answer.reason}"


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
