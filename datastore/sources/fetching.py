"""One source: its raw files verified, converted, and its results written whole; what is there already stays."""

from __future__ import annotations

import hashlib
import json
import logging
import sys
from pathlib import Path
from time import monotonic
from urllib.parse import urlsplit

from tqdm import tqdm

from aded.errors import BadInput
from aded.extras import naming_the_extra
from aded.files.atomic import lock_file, write_bytes, write_text
from datastore.sources.catalogue import Source, converted, read_source
from datastore.sources.download import is_whole, raw_file

SECONDS = 10.0
"""Between two lines about a long download, where there is no terminal."""
log = logging.getLogger(__name__)


def fetch(name: str, out: Path, mirror: str | None = None) -> list[Path]:
    """The paths of the source's results below `out`, fetched unless they are there. Raises BadInput.

    mirror: a folder or the beginning of a URL that has the raw files; None: the internet.
    """
    source = read_source(name)
    paths = [out / result for result in source.results]
    try:
        # Two downloads of one file would mix their bytes.
        with naming_the_extra(), lock_file(out / ".lock", lambda: log.info("waiting for another fetch to %s", out)):
            if is_there(name, source, out):
                log.info("%s: is there", name)
            else:
                log.info("%s", announcement(name, source))
                _make(name, source, out, mirror)
    except OSError as error:
        problem = f"{error.strerror or error}; what has arrived stays, and the same command goes on behind it"
        raise BadInput(str(error.filename or out), problem) from None
    return paths


def announcement(name: str, source: Source) -> str:
    """What is about to be fetched: one line, which says first what its licence forbids."""
    hosts = ", ".join(sorted({publisher(file.url) for file in source.files}))
    caution = f"{source.caution}. " if source.caution else ""
    return (
        f"{name}: {caution}{source.what}; {source.total_bytes / 1e6:.1f} MB from {hosts}; licence: {source.licence}"
    )


def publisher(url: str) -> str:
    """HOST/OWNER/REPOSITORY of a URL."""
    parts = urlsplit(url)
    return "/".join([parts.netloc, *parts.path.split("/")[1:3]])


def is_there(name: str, source: Source, out: Path) -> bool:
    """Are all results as they were made, from these very raw files?"""
    try:
        made = json.loads(_made_file(name, out).read_text(encoding="utf-8"))
        return made["from"] == _origin(source) and all(
            is_whole(out / path, None, made["results"][path]) for path in source.results
        )
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _make(name: str, source: Source, out: Path, mirror: str | None) -> None:
    with Progress(name, source.total_bytes) as progress:
        raw = [raw_file(file, out / "raw", mirror, progress.advance) for file in source.files]
    contents = dict(zip(source.results, converted(name, source, raw), strict=True))
    hashes = {path: hashlib.sha256(content).hexdigest() for path, content in contents.items()}
    for path, expected in source.results.items():
        if expected not in (None, hashes[path]):
            raise BadInput(name, f"{path} came out otherwise than the catalogue says; this version cannot convert it")
    for path, content in contents.items():
        write_bytes(out / path, content, name)
    made = {"from": _origin(source), "results": hashes}
    write_text(_made_file(name, out), json.dumps(made, indent=1) + "\n", name)


def _made_file(name: str, out: Path) -> Path:
    return out / "made" / f"{name}.json"


def _origin(source: Source) -> dict[str, object]:
    """What results depend on."""
    return {"files": [file.sha256 for file in source.files], "convert": dict(source.convert)}


class Progress:
    """How far a download is: a bar on a terminal, elsewhere a line now and then."""

    def __init__(self, name: str, total: int) -> None:
        self.name, self.total, self.have, self.last = name, total, 0, monotonic()
        hidden = not sys.stderr.isatty()
        self.bar = tqdm(desc=name, total=total, unit="B", unit_scale=True, leave=False, disable=hidden)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.close()

    def advance(self, count: int) -> None:
        """count: of bytes."""
        self.have += count
        self.bar.update(count)
        if self.bar.disable and monotonic() - self.last > SECONDS:
            self.last = monotonic()
            log.info("%s: %.1f of %.1f MB", self.name, self.have / 1e6, self.total / 1e6)
