from __future__ import annotations

import errno
import hashlib
import io
import os
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from file_server import FileServer, serving

from aded.errors import BadInput
from datastore.sources.catalogue import RawFile
from datastore.sources.download import CHUNK, raw_file

CONTENT = random.Random(7).randbytes(1 << 20)
PATH = "owner/repository/0a1b/data/a file=1.jsonl"


@pytest.fixture(autouse=True)
def without_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def server() -> Iterator[FileServer]:
    with serving({PATH.replace(" ", "%20"): CONTENT}) as running:
        yield running


def described(server: FileServer, content: bytes = CONTENT) -> RawFile:
    return RawFile(f"{server.url}/{PATH.replace(' ', '%20')}", len(content), hashlib.sha256(content).hexdigest())


def got(file: RawFile, folder: Path, mirror: str | None = None) -> tuple[Path, int]:
    """The file, and the bytes that the progress counted."""
    counted: list[int] = []
    path = raw_file(file, folder, mirror, counted.append)
    return path, sum(counted)


def fails(file: RawFile, folder: Path, mirror: str | None = None) -> str:
    with pytest.raises(BadInput) as error:
        got(file, folder, mirror)
    assert "\n" not in str(error.value)
    assert not (folder / PATH).exists(), "what is not verified bears no name"
    return str(error.value)


def test_a_whole_file_arrives_once(server: FileServer, tmp_path: Path) -> None:
    for _ in range(2):
        path, counted = got(described(server), tmp_path)
        assert (path, path.read_bytes() == CONTENT, counted) == (tmp_path / PATH, True, len(CONTENT))
    assert len(server.asked) == 1
    assert [each.name for each in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("ranges", [True, False])
@pytest.mark.parametrize("lengths", [True, False])
def test_it_goes_on_where_the_connection_broke(
    server: FileServer, tmp_path: Path, ranges: bool, lengths: bool
) -> None:
    server.dies_after, server.ranges, server.lengths = 12 * CHUNK, ranges, lengths
    if not ranges:
        assert "is out of reach" in fails(described(server), tmp_path)
        server.dies_after = None
    path, counted = got(described(server), tmp_path)
    assert path.read_bytes() == CONTENT
    assert counted == len(CONTENT)
    if ranges:
        assert [each.rpartition(" ")[2] for each in server.asked[1:]] == [
            f"bytes={12 * CHUNK}-",
            f"bytes={24 * CHUNK}-",
        ]


def test_what_lay_there_and_was_wrong_is_fetched_again(server: FileServer, tmp_path: Path) -> None:
    part = tmp_path / f"{PATH}.part"
    part.parent.mkdir(parents=True)
    for left in (b"x" * 1000, b"x" * len(CONTENT), b"x" * (len(CONTENT) + 1)):
        (tmp_path / PATH).unlink(missing_ok=True)
        part.write_bytes(left)
        assert got(described(server), tmp_path)[0].read_bytes() == CONTENT
    (tmp_path / PATH).write_bytes(CONTENT[:-1] + b"x")
    assert got(described(server), tmp_path)[0].read_bytes() == CONTENT


@pytest.mark.parametrize("lengths", [True, False])
@pytest.mark.parametrize(
    ("there", "problem"),
    [
        (CONTENT[:-1], r"has 1048575 bytes in place of 1048576|ends before byte 1048575 of 1048576"),
        (CONTENT + b"x", r"has 1048577 bytes in place of 1048576|has more than 1048576 bytes"),
        (CONTENT[:-1] + b"x", "is another file than the catalogue's: its sha256 is .* in place of "),
        (b"", r"has 0 bytes in place of|is out of reach"),
    ],
)
def test_another_file_is_refused(
    server: FileServer, tmp_path: Path, there: bytes, problem: str, lengths: bool
) -> None:
    file = described(server)
    server.lengths = lengths
    server.files = {name: there for name in server.files}
    message = fails(file, tmp_path)
    assert re.search(problem, message), message
    assert f"; put it (1048576 bytes, sha256 {file.sha256}) at {tmp_path / PATH}" in message
    server.files = {name: CONTENT for name in server.files}
    assert got(file, tmp_path)[0].read_bytes() == CONTENT


def test_a_file_that_is_gone(server: FileServer, tmp_path: Path) -> None:
    server.files = {}
    assert "is out of reach (404 Not Found); put it (" in fails(described(server), tmp_path)


def test_offline_the_advice_can_be_followed(server: FileServer, tmp_path: Path) -> None:
    file = RawFile(f"http://127.0.0.1:9/{PATH}", len(CONTENT), hashlib.sha256(CONTENT).hexdigest())
    message = fails(file, tmp_path)
    assert f"http://127.0.0.1:9/{PATH}: is out of reach (ConnectionError); put it (" in message
    place = Path(message.partition(") at ")[2].rpartition(", or name a source.mirror")[0])
    place.write_bytes(CONTENT)
    assert got(file, tmp_path)[0] == place


def test_a_full_disk_keeps_what_arrived(server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", opened_on_a_full_disk)
        with pytest.raises(OSError, match="No space left"):
            got(described(server), tmp_path)
    assert (tmp_path / f"{PATH}.part").stat().st_size == 10 * CHUNK
    assert got(described(server), tmp_path)[0].read_bytes() == CONTENT
    assert server.asked[-1].endswith(f"bytes={10 * CHUNK}-")


class Full(io.FileIO):
    """A file on a disk with room for ten chunks."""

    def write(self, chunk: Any) -> int:
        if self.tell() >= 10 * CHUNK:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.name)
        return super().write(chunk)


def opened_on_a_full_disk(path: Path, mode: str) -> Full:
    return Full(path, mode)


def test_a_mirror_is_a_folder_or_another_server(server: FileServer, tmp_path: Path) -> None:
    file = RawFile(f"https://nowhere.invalid/{PATH}", len(CONTENT), hashlib.sha256(CONTENT).hexdigest())
    mirror = tmp_path / "mirror"
    assert f"{mirror / PATH}: no such file; it is https://nowhere.invalid/{PATH}" in fails(
        file, tmp_path / "raw", str(mirror)
    )
    (mirror / PATH).parent.mkdir(parents=True)
    (mirror / PATH).write_bytes(CONTENT[1:])
    assert f"{mirror / PATH}: is another file than https://nowhere.invalid/" in fails(
        file, tmp_path / "raw", str(mirror)
    )
    (mirror / PATH).write_bytes(CONTENT)
    assert got(file, tmp_path / "raw", str(mirror)) == (mirror / PATH, len(CONTENT))
    assert f"; put https://nowhere.invalid/{PATH} (" in fails(file, tmp_path / "raw", f"{server.url}/elsewhere")
    assert got(file, tmp_path / "raw", f"{server.url}/")[0] == tmp_path / "raw" / PATH


def test_a_proxy_of_the_environment(server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", server.url)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    url = f"http://nowhere.invalid/{PATH.replace(' ', '%20')}"
    server.files[url] = CONTENT  # a proxy is asked for the whole URL
    file = RawFile(url, len(CONTENT), hashlib.sha256(CONTENT).hexdigest())
    assert got(file, tmp_path)[0].read_bytes() == CONTENT
