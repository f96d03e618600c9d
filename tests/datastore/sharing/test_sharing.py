"""What is published arrives as it was, whatever happens on the way, and nothing else takes its name."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml
from file_server import FileServer, serving
from huggingface_hub import CommitOperationAdd, HfApi, constants
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from texts import TEXTS, Texts
from transformers import PreTrainedTokenizerFast

from aded.errors import BadInput
from aded.files.atomic import lock_file
from aded.files.tokenizer import tokenizer_fingerprint
from datastore import fetch, publish
from datastore.builder import build
from datastore.sharing import manifest, places, publishing, receiving
from datastore.sharing.manifest import Manifest, read_manifest, runs
from datastore.sharing.receiving import fetch_datastore

BLOCK = 512
"""In place of 16 MiB: the file has several blocks, the last one not full."""


@pytest.fixture(scope="module")
def built(tokenizer: PreTrainedTokenizerFast, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a.ngrams, a.suffixes and a tokenizer, tok."""
    folder = tmp_path_factory.mktemp("built")
    build(Texts(*TEXTS), tokenizer, out=folder / "a.ngrams", suffixes=folder / "a.suffixes")
    tokenizer.save_pretrained(folder / "tok")
    return folder


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "BLOCK", BLOCK)
    monkeypatch.setattr(places, "CHUNK", 100)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


def shared(built: Path, to: str | Path, name: str = "a.ngrams", **said: str) -> Path:
    keys: dict[str, Any] = {"licence": None, "sources": None, "tokenizer": None} | said
    publishing.publish(built / name, str(to), **keys)
    return Path(to)


@pytest.fixture
def folder(built: Path, tmp_path: Path) -> Path:
    """a.ngrams, published."""
    return shared(built, tmp_path / "shared")


@pytest.fixture
def server(folder: Path) -> Iterator[FileServer]:
    """A web server that has the folder."""
    with serving({f"data/{path.name}": path.read_bytes() for path in folder.iterdir()}) as running:
        yield running


def content(built: Path) -> bytes:
    return (built / "a.ngrams").read_bytes()


def interrupted(out: Path, place: object, arrived: bytes) -> Path:
    """The part of a fetch of a.ngrams that was interrupted."""
    part = out.with_name(f"{out.name}.part")
    part.write_bytes(arrived)
    part.with_name(f"{part.name}.source").write_text(f"other\n{place}/a.ngrams")
    return part


def blocks_asked(server: FileServer) -> list[str]:
    return [asked.partition("bytes=")[2] for asked in server.asked if "a.ngrams" in asked]


@pytest.mark.parametrize("name", ["a.ngrams", "a.suffixes"])
def test_from_folder_to_folder(name: str, built: Path, tmp_path: Path) -> None:
    folder = shared(built, tmp_path / "new" / "shared", name)
    assert sorted(os.listdir(folder)) == ["README.md", name, "manifest.json"]
    opened = fetch_datastore(str(folder), tmp_path / "deep" / "x")
    assert opened.path.read_bytes() == (built / name).read_bytes()
    assert opened.header["documents"] == "5"
    assert os.listdir(tmp_path / "deep") == ["x"]


def test_the_card_says_what_it_is(
    built: Path, folder: Path, tokenizer: PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    said = {"licence": "mit", "sources": "chats of 2023", "tokenizer": str(built / "tok")}
    _, metadata, text = (shared(built, folder, **said) / "README.md").read_text().split("---\n", 2)
    expected = {"license": "mit", "viewer": False, "tags": ["speculative-decoding", "aded", "aded-ngrams"]}
    assert yaml.safe_load(metadata).items() >= expected.items()
    for part in (
        "# a.ngrams\n",
        "sequence of up to 5 tokens",
        "chats of 2023",
        "**Licence**: mit",
        tokenizer_fingerprint(tokenizer),
        "| documents     | 5 ",
        "| format        | aded-ngrams, version 3 ",
        f"aded fetch {folder} out=a.ngrams",
        f"aded run model={built / 'tok'} method=aded_backoff datastore.path=a.ngrams",
    ):
        assert part in text
    bare = (shared(built, tmp_path / "bare") / "README.md").read_text()
    assert "license: unknown" in bare
    assert "**Sources**: not stated" in bare
    assert "aded run method=" in bare


@pytest.mark.parametrize("ranges", [True, False])
def test_from_a_web_server_in_one_request(server: FileServer, built: Path, ranges: bool, tmp_path: Path) -> None:
    server.ranges = ranges
    for _ in range(2):
        fetch_datastore(f"{server.url}/data/", tmp_path / "x")
        assert (tmp_path / "x").read_bytes() == content(built)
        assert len(blocks_asked(server)) == 1, "what is there is not fetched again"
    assert sorted(os.listdir(tmp_path)) == ["shared", "x"]


@pytest.mark.parametrize("lengths", [True, False])
def test_it_goes_on_where_connections_break(server: FileServer, built: Path, lengths: bool, tmp_path: Path) -> None:
    server.dies_after, server.lengths = 700, lengths
    fetch_datastore(f"{server.url}/data", tmp_path / "x")
    assert (tmp_path / "x").read_bytes() == content(built)
    last = len(content(built)) - 1
    assert blocks_asked(server) == [f"{start}-{last}" for start in range(0, last, 700)]


def test_only_missing_and_wrong_blocks_are_fetched(server: FileServer, built: Path, tmp_path: Path) -> None:
    whole = content(built)
    damaged = bytearray(whole[: 3 * BLOCK + 7])  # the fourth block is cut short
    damaged[BLOCK + 1] ^= 1
    part = interrupted(tmp_path / "x", f"{server.url}/data", bytes(damaged))
    fetch_datastore(f"{server.url}/data", tmp_path / "x")
    assert (tmp_path / "x").read_bytes() == whole
    assert blocks_asked(server) == [f"{BLOCK}-{2 * BLOCK - 1}", f"{3 * BLOCK}-{len(whole) - 1}"]
    assert not part.exists()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=4000), st.lists(st.tuples(st.integers(0, 3000), st.binary(max_size=900)), max_size=3))
def test_whatever_arrived_becomes_the_file(
    folder: Path, built: Path, start: bytes, patches: list[tuple[int, bytes]]
) -> None:
    whole = content(built)
    lies = bytearray(start or whole)
    for at, patch in patches:
        lies[at : at + len(patch)] = patch
    interrupted(folder.with_name("x"), folder, bytes(lies))
    fetch_datastore(str(folder), folder.with_name("x"))
    assert folder.with_name("x").read_bytes() == whole
    folder.with_name("x").unlink()


def test_an_older_file_stays_until_the_new_one_is_whole(
    server: FileServer, built: Path, tmp_path: Path, tokenizer: PreTrainedTokenizerFast
) -> None:
    build(Texts("older"), tokenizer, out=tmp_path / "x")
    older, server.dies_after = (tmp_path / "x").read_bytes(), 0
    with pytest.raises(BadInput, match=r"is out of reach \(.*\); what has arrived stays"):
        fetch_datastore(f"{server.url}/data", tmp_path / "x")
    assert (tmp_path / "x").read_bytes() == older
    server.dies_after = None
    fetch_datastore(f"{server.url}/data", tmp_path / "x")
    assert (tmp_path / "x").read_bytes() == content(built)


def test_what_is_not_of_this_fetch_is_not_written_over(folder: Path, built: Path, tmp_path: Path) -> None:
    out, part = tmp_path / "x", tmp_path / "x.part"
    other = shared(built, tmp_path / "other", "a.suffixes")
    for lies in (lambda: part.write_bytes(b"mine"), lambda: interrupted(out, other, content(built)[:700])):
        lies()
        before = {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
        with pytest.raises(BadInput) as error:
            fetch_datastore(str(folder), out)
        assert str(error.value) == (
            f"out: {part} is there, and not from {folder}; move it away, or name another file"
        )
        assert {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before
    part.unlink()
    out.write_text("my thesis")
    with pytest.raises(BadInput, match=r"^out: .*x is there and no datastore; move it away, or name another file$"):
        fetch_datastore(str(folder), out)
    assert out.read_text() == "my thesis"
    out.write_bytes(content(built)[:-700])  # damaged
    assert fetch_datastore(str(folder), out).path.read_bytes() == content(built)
    assert sorted(os.listdir(tmp_path)) == ["other", "shared", "x"]


def test_a_part_goes_on_from_a_mirror_and_after_a_new_publication(
    server: FileServer, built: Path, tmp_path: Path, tokenizer: PreTrainedTokenizerFast
) -> None:
    out, whole = tmp_path / "x", content(built)
    server.files["data/a.ngrams"] = whole[: 2 * BLOCK]
    with pytest.raises(BadInput, match=r"out of reach \(416"):
        fetch_datastore(f"{server.url}/data", out)
    server.files |= {f"mirror/{name}": server.files[f"data/{name}"] for name in ("manifest.json", "a.ngrams")}
    with pytest.raises(BadInput, match=r"out of reach \(416"):
        fetch_datastore(f"{server.url}/mirror", out)
    build(Texts("newer"), tokenizer, out=tmp_path / "a.ngrams")
    newer = shared(tmp_path, tmp_path / "newer")
    server.files |= {f"mirror/{path.name}": path.read_bytes() for path in newer.iterdir()}
    fetch_datastore(f"{server.url}/mirror", out)
    assert out.read_bytes() == (tmp_path / "a.ngrams").read_bytes()


def test_a_block_that_stays_wrong(server: FileServer, built: Path, tmp_path: Path) -> None:
    whole = content(built)
    server.files["data/a.ngrams"] = whole[:600] + bytes([whole[600] ^ 1]) + whole[601:]
    count = -(-len(whole) // BLOCK)
    with pytest.raises(BadInput) as error:
        fetch_datastore(f"{server.url}/data", tmp_path / "x")
    assert str(error.value) == (
        f"{server.url}/data/a.ngrams: bytes 512 to 1023 are not those of its manifest, also when fetched again: it "
        f"is damaged, or was published anew just now; {count - 1} of {count} blocks stay"
    )
    assert blocks_asked(server) == [f"0-{len(whole) - 1}", *["512-1023"] * (receiving.TRIES - 1)]
    assert not (tmp_path / "x").exists()
    server.files["data/a.ngrams"] = whole
    fetch_datastore(f"{server.url}/data", tmp_path / "x")
    assert blocks_asked(server)[3:] == ["512-1023"]


@pytest.mark.parametrize("kept", [600, 0])
def test_a_file_that_is_cut_short(server: FileServer, built: Path, kept: int, tmp_path: Path) -> None:
    server.files["data/a.ngrams"] = content(built)[:kept]
    with pytest.raises(BadInput, match=rf"ends before byte {kept}|out of reach \(416"):
        fetch_datastore(f"{server.url}/data", tmp_path / "x")
    assert sorted(os.listdir(tmp_path)) == ["shared", "x.part", "x.part.source"]


def test_what_is_no_datastore_is_not_kept(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(bytes(2000))
    (tmp_path / "manifest.json").write_text(manifest.manifest_of(tmp_path / "a.txt").text())
    with pytest.raises(BadInput, match=r"publishes no datastore that this release reads: .*x.part is no aded-ngrams"):
        fetch_datastore(str(tmp_path), tmp_path / "x")
    assert sorted(os.listdir(tmp_path)) == ["a.txt", "manifest.json"]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"version": 2}, "is a manifest of version 2, and this release reads 1; update ADED"),
        ({"version": "1"}, "the manifest: version: '1' must be"),
        ({"format": "other"}, "the manifest: format: 'other' must be"),
        ({"file": "../secret"}, "the manifest: file: '../secret' "),
        ({"file": "/etc/passwd"}, "the manifest: file: '/etc/passwd' "),
        ({"file": ".hidden"}, "the manifest: file: '.hidden' "),
        ({"file": "a\nb"}, "the manifest: file: 'a\\nb' "),
        ({"bytes": 0}, "the manifest: bytes: 0 must be 1 or more"),
        ({"bytes": 1 << 50}, "the manifest: bytes: "),
        ({"bytes": 99999}, "blocks, which are not those of 99999 bytes"),
        ({"block_bytes": 1 << 40}, "the manifest: block_bytes: "),
        ({"blocks": ["0" * 63]}, "the manifest: blocks[0]: "),
        ({"blocks": []}, "has 0 blocks"),
        ({"extra": 1}, "the manifest: extra: no such key"),
    ],
)
def test_a_manifest_is_not_trusted(change: dict[str, object], problem: str, folder: Path) -> None:
    path = folder / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(BadInput) as error:
        fetch_datastore(str(folder), folder / "x")
    assert str(error.value).startswith(f"{path}: ")
    assert problem in str(error.value)
    assert "\n" not in str(error.value)
    assert not (folder / "x.part").exists()


@pytest.mark.parametrize("text", [b"", b"[]", b"{", b"\xff", b'{"version": NaN}'])
def test_a_manifest_that_is_none(text: bytes, folder: Path) -> None:
    (folder / "manifest.json").write_bytes(text)
    with pytest.raises(BadInput, match=r"manifest\.json: "):
        fetch_datastore(str(folder), folder / "x")


@given(st.sets(st.integers(0, 30)))
def test_runs_are_the_numbers_in_a_row(numbers: set[int]) -> None:
    found = list(runs(sorted(numbers)))
    assert [each for first, last in found for each in range(first, last + 1)] == sorted(numbers)
    assert all(after[0] > before[1] + 1 for before, after in pairwise(found))


def test_a_full_disk_is_one_line(server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = iter([None])  # for the note of the source

    def full(*_: object) -> None:
        if next(left, 0) == 0:
            raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(BadInput, match=r"x: No space left on device; what has arrived stays"):
            fetch_datastore(f"{server.url}/data", tmp_path / "x")
    fetch_datastore(f"{server.url}/data", tmp_path / "x")
    assert len(blocks_asked(server)) == 1


def test_two_fetches_of_one_file_wait_for_each_other(
    folder: Path, built: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    other = lock_file(tmp_path / ".x.fetching", lambda: None)
    command = Thread(target=fetch_datastore, args=(str(folder), tmp_path / "x"))
    command.start()
    while not any("waiting for another fetch" in message for message in caplog.messages):
        time.sleep(0.01)
    assert not (tmp_path / "x.part").exists()
    other.close()
    command.join()
    assert (tmp_path / "x").read_bytes() == content(built)
    assert sorted(os.listdir(tmp_path)) == ["shared", "x"]


class FakeHub:
    """What is published on the Hub, by dataset; `files` is what its server has."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files, self.repositories, self.commits = files, list[str](), list[str]()

    def create_repo(self, _: HfApi, repo_id: str, *, repo_type: str, exist_ok: bool) -> None:
        assert (repo_type, exist_ok) == ("dataset", True)
        self.repositories.append(repo_id)

    def list_repo_files(self, _: HfApi, repo_id: str, *, repo_type: str, revision: str | None) -> list[str]:
        start = f"{repo_type}s/{repo_id}/resolve/{revision or 'main'}/"
        return [name.removeprefix(start) for name in self.files if name.startswith(start)]

    def create_commit(
        self,
        _: HfApi,
        repo_id: str,
        operations: list[CommitOperationAdd],
        *,
        commit_message: str,
        repo_type: str,
        revision: str | None,
    ) -> None:
        assert repo_id in self.repositories
        self.commits.append(commit_message)
        for operation in operations:
            with operation.as_file() as file:
                self.files[f"{repo_type}s/{repo_id}/resolve/{revision or 'main'}/{operation.path_in_repo}"] = (
                    file.read()
                )


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[FakeHub, FileServer]]:
    with serving({}) as running:
        fake = FakeHub(running.files)
        monkeypatch.setattr(HfApi, "create_repo", lambda api, *a, **k: fake.create_repo(api, *a, **k))
        monkeypatch.setattr(HfApi, "list_repo_files", lambda api, *a, **k: fake.list_repo_files(api, *a, **k))
        monkeypatch.setattr(HfApi, "create_commit", lambda api, *a, **k: fake.create_commit(api, *a, **k))
        template = constants.HUGGINGFACE_CO_URL_TEMPLATE.replace(constants.ENDPOINT, running.url)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        yield fake, running


@pytest.mark.parametrize("revision", ["", "@v2"])
def test_to_the_hub_and_back(
    revision: str, hub: tuple[FakeHub, FileServer], built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake, server = hub
    name = f"hf://datasets/acme/chat{revision}"
    shared(built, name, licence="mit")
    assert fake.commits == ["Publish a.ngrams"]
    fake.files["datasets/acme/other/resolve/main/README.md"] = b"# Other people's\n"
    with pytest.raises(BadInput, match=r"^to: hf://datasets/acme/other has a README.md or manifest.json that `aded"):
        shared(built, "hf://datasets/acme/other")
    assert fake.commits == ["Publish a.ngrams"]
    assert f"datasets/acme/chat/resolve/{revision[1:] or 'main'}/README.md" in fake.files
    shared(built, name)
    with pytest.raises(BadInput, match=f"^to: {name} publishes a.ngrams already; name another place"):
        shared(built, name, "a.suffixes")
    server.dies_after = 900
    fetch_datastore(name, tmp_path / "x")
    assert (tmp_path / "x").read_bytes() == content(built)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(BadInput, match="HF_HUB_OFFLINE is set"):
        fetch_datastore(name, tmp_path / "y")


def test_a_hub_that_takes_no_files(hub: object, built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise ConnectionError("401 Unauthorized\nmore")

    monkeypatch.setattr(HfApi, "create_repo", refuse)
    with pytest.raises(BadInput, match=r"^to: hf://datasets/acme/chat takes no files: 401 Unauthorized; log in with"):
        shared(built, "hf://datasets/acme/chat")


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        (
            "README.md",
            "# a.ngrams\n\nMy thesis.\n",
            "has a README.md or manifest.json that `aded publish` did not write",
        ),
        ("README.md", "\udcff", "has a README.md or manifest.json that `aded publish` did not write"),
        ("manifest.json", "{}", "has a README.md or manifest.json that `aded publish` did not write"),
        ("a.ngrams", "mine", "has another a.ngrams"),
    ],
)
def test_other_peoples_files_are_not_written_over(
    name: str, text: str, problem: str, built: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    (folder / name).write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(BadInput) as error:
        shared(built, folder)
    assert str(error.value) == f"to: {folder} {problem}; name another place, or move the file away"
    assert os.listdir(folder) == [name]
    assert (folder / name).read_bytes() == text.encode(errors="surrogateescape")


@pytest.mark.parametrize("kept", ["README.md", "README.md a.ngrams", "a.ngrams manifest.json"])
def test_a_publication_that_was_interrupted_goes_on(
    kept: str, folder: Path, built: Path, tokenizer: PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    for path in folder.iterdir():
        if path.name not in kept.split():
            path.unlink()
    with pytest.raises(BadInput, match=r"^to: .*shared publishes a.ngrams already"):
        shared(built, folder, "a.suffixes")
    build(Texts("newer"), tokenizer, out=tmp_path / "a.ngrams")
    shared(tmp_path, folder)
    assert (folder / "a.ngrams").read_bytes() == (tmp_path / "a.ngrams").read_bytes()
    assert sorted(os.listdir(folder)) == ["README.md", "a.ngrams", "manifest.json"]


def test_one_process_publishes_at_a_time(folder: Path, built: Path) -> None:
    before = {path: path.read_bytes() for path in folder.iterdir()}
    with lock_file(folder / publishing.LOCK, lambda: None), pytest.raises(BadInput) as error:
        shared(built, folder)
    problem = f"another process publishes to {folder}; start the command again when that has ended"
    assert str(error.value) == f"to: {problem}"
    (folder / publishing.LOCK).unlink()
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
    shared(built, folder)


def test_a_folder_publishes_one_file(built: Path, folder: Path) -> None:
    with pytest.raises(BadInput, match=r"^to: .*shared publishes a.ngrams already"):
        shared(built, folder, "a.suffixes")
    shared(built, folder)
    shared(folder, folder)  # it may lie there already
    assert (folder / "a.ngrams").read_bytes() == content(built)


Result = tuple[int, str, str]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    """Run a command in this process: exit code, stdout and stderr."""

    def call(module: Any, *arguments: str) -> Result:
        monkeypatch.setattr(sys, "argv", [module.__name__, *arguments])
        code = 0
        try:
            module.main()
        except SystemExit as stopped:
            code = int(stopped.code or 0)
        return code, *capsys.readouterr()

    return call


def test_the_commands(
    run: Callable[..., Result],
    built: Path,
    tokenizer: PreTrainedTokenizerFast,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    code, output, errors = run(publish, str(built / "a.ngrams"), "to=shared", "licence=mit")
    assert (code, errors) == (0, "")
    assert output == f"published {built}/a.ngrams to shared; `aded fetch shared out=FILE` fetches it\n"
    code, output, _ = run(fetch, "shared", "out=x.ngrams")
    assert code == 0
    assert output.splitlines()[-1] == "x.ngrams"
    assert tokenizer_fingerprint(tokenizer) in output
    assert (tmp_path / "x.ngrams").read_bytes() == content(built)


@pytest.mark.parametrize(
    ("module", "arguments", "problem"),
    [
        (publish, "", "FILE: write: python -m datastore.publish FILE to="),
        (publish, "a.ngrams", "to: write: python -m datastore.publish FILE to="),
        (publish, "a.ngrams to=hf://acme/chat", "hf://acme/chat: is no dataset on the Hub"),
        (publish, "a.ngrams to=s3://acme/chat", "s3://acme/chat: is no dataset on the Hub"),
        (publish, "a.ngrams to=shared license=mit", "license: no such key"),
        (publish, "a.ngrams to=shared tokenizer=nowhere/at/all", "tokenizer: no folder"),
        (publish, "none to=shared", "datastore.path: no file none"),
        (publish, "damaged to=shared", "datastore.path: damaged is damaged"),
        (publish, "a.ngrams to=a.suffixes", "to: a.suffixes/a.ngrams cannot be written"),
        (publish, ".a to=shared", ".a: the manifest: file: '.a'"),
        (fetch, "nowhere/ out=x", "nowhere/: no such folder"),
        (fetch, "nowhere out=x", "nowhere: no such folder"),
        (fetch, "s3://a/b out=x", "s3://a/b: is none of a folder, http://"),
        (fetch, "hf://datasets/a out=x", "hf://datasets/a: is no dataset"),
        (fetch, "hf://datasets/-a/b out=x", "hf://datasets/-a/b: is no dataset on the Hub (Repo id must use"),
        (fetch, "hf://datasets/a/b..c out=x", "hf://datasets/a/b..c: is no dataset on the Hub (Cannot have -- or"),
        (publish, "a.ngrams to=hf://datasets/a/b.git", "hf://datasets/a/b.git: is no dataset on the Hub (Repo_id"),
        (fetch, "tok out=.", "out: . is a folder; name a file in it, as NAME"),
        (fetch, "tok out=tok", "out: tok is a folder; name a file in it, as tok/NAME"),
        (fetch, "hf://datasets/a/b out=x", "hf://datasets/a/b: is on the Hub, and HF_HUB_OFFLINE is set"),
        (fetch, "tok out=x", "tok/manifest.json: cannot be read (No such file or directory)"),
        (fetch, "some/folder", "out: write: python -m datastore.fetch FOLDER"),
        (fetch, "a b out=x", "out: write: python -m datastore.fetch FOLDER"),
        (fetch, "out=x", "out: write: python -m datastore.fetch FOLDER"),
        (fetch, "http://127.0.0.1:9/data out=x", "http://127.0.0.1:9/data: is out of reach (ConnectionError)"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(
    module: Any,
    arguments: str,
    problem: str,
    run: Callable[..., Result],
    built: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("a.ngrams", "a.suffixes", "tok", ".a", "damaged"):
        target = "a.ngrams" if name in (".a", "damaged") else name
        if name != "damaged":
            (tmp_path / name).symlink_to(built / target)
    whole = content(built)
    (tmp_path / "damaged").write_bytes(whole[:-60] + bytes([whole[-60] ^ 1]) + whole[-59:])
    before = sorted(os.listdir(tmp_path))
    monkeypatch.chdir(tmp_path)
    code, output, errors = run(module, *arguments.split())
    assert (code, output, errors.count("\n")) == (2, "", 1), errors
    assert errors.startswith(problem)
    assert sorted(os.listdir(tmp_path)) == before


def test_a_manifest_has_every_byte(built: Path) -> None:
    made = manifest.manifest_of(built / "a.ngrams")
    assert read_manifest(made.text(), "there") == made
    spans = [made.span(block) for block in range(len(made.blocks))]
    assert [start for start, _ in spans] == [0, *(end for _, end in spans[:-1])]
    assert spans[-1][1] == len(content(built))
    assert isinstance(made, Manifest)
