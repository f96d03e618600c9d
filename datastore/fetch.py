"""Fetches questions, recorded answers, corpora, tokenizers and models: aded fetch NAME...|all [KEY=VALUE ...]

    NAME            a source of conf/source; none: list them; all: every one
    source.mirror   a folder, or the beginning of a URL, that has the raw files; null: the internet
    source.out      where raw files and results go; paths.sources. Models go to paths.cache

Or a datastore that was published: aded fetch FOLDER|URL|hf://datasets/OWNER/NAME out=FILE

Each raw file is verified (size and sha256) before it is used. A download that broke off goes on where it was; what
is there and whole is not fetched again. Proxies are those of the environment (HTTPS_PROXY). Exit code 1: some failed,
one line each, and all others are there.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from tabulate import tabulate

from aded.config.command_line import PATHS, compose_config, run_command
from aded.config.objects import Kinds
from aded.errors import BadInput
from aded.files.datastores.array_file import ArrayFile, check_replaceable
from aded.settings import FilePath
from aded.shown import say, show_log, warn
from datastore.cleaning.cleaning import described
from datastore.open import open_datastore
from datastore.publish import NAME, read_manifest
from datastore.sources.catalogue import names, read_source
from datastore.sources.download import chunks, receive, unfetched
from datastore.sources.fetching import fetch, is_there

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


FETCH: Kinds = {"source": {"mirror": FilePath | None, "out": FilePath}, "paths": PATHS}
"""The keys at the top of conf/fetch.yaml."""


@dataclass
class FetchSettings:
    """All other keys are those of conf/fetch.yaml."""

    out: str | None = None
    """The file to write, of a published datastore."""


def run(arguments: list[str], settings: FetchSettings) -> None:
    show_log()
    wanted = [one for one in arguments if "=" not in one]
    if settings.out or any("/" in one for one in wanted):
        if len(arguments) != 1 or not settings.out:
            raise BadInput("out", "write: aded fetch FOLDER|URL|hf://datasets/OWNER/NAME out=FILE")
        print_datastore(fetch_datastore(arguments[0], Path(settings.out).expanduser()))
        return
    whole = compose_config([one for one in arguments if "=" in one], "fetch", FETCH)
    cfg, cache = whole.source, whole.paths.cache
    out = Path(cfg.out).expanduser()
    if not wanted:
        say(overview(out, cache))
        return
    wanted = names() if "all" in wanted else wanted
    for name in wanted:
        read_source(name)  # so that a misspelt name fetches nothing
    if failed := fetch_all(wanted, out, cfg.mirror, cache):
        warn(f"{len(failed)} of {len(wanted)} failed: {', '.join(failed)}")
        sys.exit(1)


def fetch_all(wanted: list[str], out: Path, mirror: str | None, cache: str) -> list[str]:
    """Fetch the sources; print each result's path. Returns the names of those that failed."""
    failed = []
    for name in wanted:
        try:
            paths = fetch(name, out, mirror, cache)
        except BadInput as error:
            failed.append(name)
            warn(f"{name}: {error}")
        else:
            say("\n".join(map(str, paths)))
    return failed


def print_datastore(file: ArrayFile) -> None:
    """What it was built from, and for: the tokenizer must be that of the model that uses it."""
    facts = described(file.header, str(file.path))
    say(tabulate([fact for fact in facts.items() if fact[0] not in ("levels", "fingerprint")], disable_numparse=True))
    say(file.path)


def overview(out: Path, cache: str) -> str:
    """The catalogue, one source a line."""
    sources = [(name, read_source(name)) for name in names()]
    rows = [
        (
            name,
            f"{source.total_bytes / 1e6:.1f}",
            source.licence,
            "yes" if is_there(name, source, out, cache) else "",
            source.what,
        )
        for name, source in sources
    ]
    return tabulate(rows, ("source", "MB", "licence", "there", "what"), disable_numparse=True)


def main() -> None:
    run_command(run, FetchSettings, __doc__ or "", hydra=True)
