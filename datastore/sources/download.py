"""A file from a folder, a web server or the Hub: whole and verified, or not at all.

A download that broke off leaves a part, and the next one goes on behind its last byte. pooch and fsspec start such a
file again, and huggingface_hub's client does below 10 MB.
"""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import requests
from tqdm import tqdm

from aded.errors import BadInput
from aded.identity import has_sha256
from datastore.scratch import locked

if TYPE_CHECKING:
    from huggingface_hub import HfUri

CHUNK = 1 << 15
"""Bytes written at once; as many are lost, at most, where a connection breaks off."""
TIMEOUT = (10, 60)
"""Seconds to connect, and seconds without a byte."""
SECONDS = 10.0
"""Between two lines about a long download, where there is no terminal."""


def receive(
    url: str,
    to: Path,
    size: int,
    expected: str,
    check: Callable[[Path], object] = lambda _: None,
    read: Callable[[int], Iterator[bytes]] | None = None,
) -> None:
    """Have the file of this size and hash at `to`, fetched unless it is there. Raises BadInput.

    url: as of `chunks`
    check: called with the file before it takes its name; where it raises BadInput, the file is thrown away.
    read: the bytes of the file from a position on, put together otherwise; None: those of `url`
    """
    # Named by its content: the part of another file is never gone on with, nor lost. What is put together has a part
    # of its own, before which no page comes to stand that a server sends in place of the file.
    begun = f"{to.name}.{expected[:8]}"
    part = to.with_name(f"{begun}.{'together.' if read else ''}part")
    lock = to.with_name(f".{to.name}.fetching")
    try:
        with locked(lock, to):
            if not has_sha256(to, expected):
                _complete(url, part, size, read or partial(chunks, url))
                _check(part, url, expected, check)
                os.replace(part, to)
            for left in to.parent.glob(f"{glob.escape(begun)}.*part"):
                left.unlink()
    except OSError as error:
        raise unfetched(error, url, to) from None


def chunks(url: str, start: int = 0) -> Iterator[bytes]:
    """The bytes of a file from `start` on. Raises BadInput, OSError.

    url: a path, http(s)://..., or hf://datasets/OWNER/NAME[@REVISION]/FILE
    """
    if "://" not in url:
        with Path(url).expanduser().open("rb") as file:
            file.seek(start)
            yield from iter(partial(file.read, CHUNK), b"")
        return
    # identity: ranges are those of the file itself. requests reads the usual variables of proxies.
    headers = {"Accept-Encoding": "identity", **({"Range": f"bytes={start}-"} if start else {})}
    if url.startswith("hf://"):
        url, login = _on_the_hub(url)
        headers |= login
    elif not url.startswith(("http://", "https://")):
        raise BadInput(url, "is none of a folder, http://, https:// and hf://datasets/OWNER/NAME")
    with requests.get(url, headers=headers, stream=True, timeout=TIMEOUT) as answer:
        answer.raise_for_status()
        # A server that knows no ranges answers with the whole file.
        before = 0 if answer.status_code == requests.codes.partial_content else start
        for chunk in answer.iter_content(CHUNK):
            yield chunk[before:]
            before = max(0, before - len(chunk))


def unfetched(error: OSError, url: str, to: Path) -> BadInput:
    """The one line about a file that was not fetched. to: the file at fault where the error names none."""
    if isinstance(error, requests.RequestException):
        answer = error.response
        reason = type(error).__name__ if answer is None else f"{answer.status_code} {answer.reason}"
        return BadInput(url, f"is out of reach ({reason}); what has arrived stays")
    problem = f"{error.strerror or error}; what has arrived stays, and the same command goes on behind it"
    return BadInput(str(error.filename or to), problem)


def place_on_hub(uri: str) -> HfUri:
    """What hf://datasets/OWNER/NAME[@REVISION][/FILE] names. Raises BadInput."""
    from huggingface_hub import parse_hf_uri

    try:
        found = parse_hf_uri(uri)
    except ValueError as error:
        raise BadInput(uri, f"is no dataset on the Hub ({error}); write hf://datasets/OWNER/NAME") from None
    if found.type != "dataset":
        raise BadInput(uri, "is no dataset on the Hub; write hf://datasets/OWNER/NAME")
    return found


def _on_the_hub(uri: str) -> tuple[str, dict[str, str]]:
    """The URL of a file on the Hub, and the headers with the token of `hf auth login`."""
    from huggingface_hub import hf_hub_url, is_offline_mode
    from huggingface_hub.utils import build_hf_headers

    file = place_on_hub(uri)
    if is_offline_mode():
        raise BadInput(uri, "is on the Hub, and HF_HUB_OFFLINE is set; name a folder or a web server that has it")
    return hf_hub_url(file.id, file.path_in_repo, repo_type="dataset", revision=file.revision), build_hf_headers()


def _complete(url: str, part: Path, size: int, read: Callable[[int], Iterator[bytes]]) -> None:
    """Complete the part, also where connections break, as long as each try brings bytes. Raises BadInput, OSError."""
    quiet = 0.0 if sys.stderr.isatty() else SECONDS
    with (
        part.open("ab") as file,
        tqdm(desc=part.name, total=size, unit="B", unit_scale=True, leave=False, delay=quiet) as bar,
    ):
        bar.mininterval = max(quiet, bar.mininterval)
        bar.update(file.tell())
        while (before := file.tell()) < size:
            try:
                for chunk in read(before):
                    file.write(chunk[: size - file.tell()])
                    bar.update(len(chunk))
                    if file.tell() == size:
                        break
            except requests.RequestException:
                if file.tell() == before:
                    raise
            if file.tell() == before:
                raise BadInput(url, f"ends after {before} of {size} bytes")
        file.flush()
        os.fsync(file.fileno())


def _check(part: Path, url: str, expected: str, check: Callable[[Path], object]) -> None:
    """Raise BadInput, and remove the part, unless it is the file that was described."""
    try:
        if not has_sha256(part, expected):
            problem = f"did not arrive as the file with sha256 {expected}; the same command fetches all of it again"
            raise BadInput(url, problem)
        check(part)
    except BadInput:
        part.unlink()
        raise
