"""A file arrives whole, whatever happens on the way, or its name is not taken."""

from __future__ import annotations

import errno
import hashlib
import io
import logging
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from file_server import FileServer, serving

from aded.errors import BadInput
from aded.files.atomic import lock_file
from datastore.sources.download import CHUNK, chunks, receive

CONTENT = random.Random(7).randbytes(1 << 20)
SHA256 = hashlib.sha256(CONTENT).hexdigest()
NAME = "a file=1.jsonl"


@pytest.fixture
def server() -> Iterator[FileServer]:
    with serving({NAME.replace(" ", "%20"): CONTENT}) as running:
        yield running


def got(server: FileServer, to: Path, url: str = "") -> list[str]:
    """What was asked of the server to have the file; no other file is left."""
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


@pytest.mark.parametrize("lengths", [True, False])
def test_it_goes_on_where_the_connection_broke(server: FileServer, tmp_path: Path, lengths: bool) -> None:
    server.dies_after, server.lengths = 12 * CHUNK, lengths
    assert got(server, tmp_path / "x") == ["", f"{12 * CHUNK}-", f"{24 * CHUNK}-"]


def test_a_server_without_ranges(server: FileServer, tmp_path: Path) -> None:
    server.dies_after, server.ranges = 12 * CHUNK, False
    assert fails(f"{server.url}/{NAME}", tmp_path / "x") == 12 * CHUNK
    server.dies_after = None
    got(server, tmp_path / "x")


def test_a_damaged_part_and_another_file_are_refused_and_then_fetched_again(
    server: FileServer, tmp_path: Path
) -> None:
    url, part, files = f"{server.url}/{NAME}", tmp_path / f"x.{SHA256[:8]}.part", server.files
    for left in (b"x" * 1000, b"x" * (len(CONTENT) + 1)):
        part.write_bytes(left)
        assert fails(url, tmp_path / "x") == -1
    for there, kept in ((CONTENT[:-1] + b"x", -1), (b"", 0), (None, 0), (CONTENT[:-1], len(CONTENT) - 1)):
        server.files = {} if there is None else dict.fromkeys(files, there)
        assert fails(url, tmp_path / "x") == kept
    server.files = files
    assert got(server, tmp_path / "x") == [f"{len(CONTENT) - 1}-"]


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:9/x", "s3://a/b/x", "hf://datasets/a/b..c/x", "hf://a/b/x", "none"]
)
def test_what_is_out_of_reach_or_no_place(url: str, tmp_path: Path) -> None:
    assert fails(url, tmp_path / "x") == 0


def test_a_folder_is_a_place_too(server: FileServer, tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(CONTENT)
    assert got(server, tmp_path / "to" / "x", str(tmp_path / NAME)) == []
    assert b"".join(chunks(str(tmp_path / NAME), 5)) == CONTENT[5:]


class Full(io.FileIO):
    """A file on a disk with room for ten chunks."""

    def write(self, chunk: Any) -> int:
        if self.tell() >= 10 * CHUNK:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.name)
        return super().write(chunk)


def test_a_full_disk_keeps_what_arrived(server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    part = tmp_path / f"x.{SHA256[:8]}.part"
    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", lambda path, mode: Full(path, mode))
        assert fails(f"{server.url}/{NAME}", tmp_path / "x", str(part)) == 10 * CHUNK
    assert got(server, tmp_path / "x") == [f"{10 * CHUNK}-"]


def test_two_fetches_of_one_file_wait_for_each_other(
    server: FileServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    command = Thread(target=got, args=(server, tmp_path / "x"))
    with lock_file(tmp_path / ".x.fetching", lambda: None):
        command.start()
        while command.is_alive() and not caplog.messages:
            time.sleep(0.01)
        assert server.asked == []
    command.join()
    assert len(server.asked) == 1


def test_a_proxy_of_the_environment(server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", server.url)
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    server.files["http://nowhere.invalid/x"] = CONTENT  # a proxy is asked for the whole URL
    assert got(server, tmp_path / "x", "http://nowhere.invalid/x") == [""]
