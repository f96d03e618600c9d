import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import pytest
import yaml
from command import Command
from file_server import FileServer, serving
from huggingface_hub import HfApi, constants
from texts import TEXTS, Texts
from transformers import PreTrainedTokenizerFast

from aded.errors import BadInput
from aded.identity import tokenizer_fingerprint
from datastore import fetch, publish
from datastore.builder import build
from datastore.fetch import fetch_datastore
from datastore.publish import manifest_of
from datastore.sources import download


@pytest.fixture(scope="module")
def built(tokenizer: PreTrainedTokenizerFast, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built")
    build(Texts(*TEXTS), tokenizer, out=folder / "a.ngrams", suffixes=folder / "a.suffixes")
    tokenizer.save_pretrained(folder / "tok")
    return folder


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "CHUNK", 100)


def shared(built: Path, to: str | Path, name: str = "a.ngrams", **said: str) -> Path:
    publish.publish(built / name, str(to), publish.PublishSettings(**said))
    return Path(to)


@pytest.fixture
def folder(built: Path, tmp_path: Path) -> Path:
    return shared(built, tmp_path / "shared")


@pytest.fixture(scope="module")
def content(built: Path) -> bytes:
    return (built / "a.ngrams").read_bytes()


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def refused(key: str, action: Callable[..., object], *arguments: Any) -> str:
    with pytest.raises(BadInput) as error:
        action(*arguments)
    assert error.value.key == key
    return error.value.problem


@pytest.mark.parametrize("name", ["a.ngrams", "a.suffixes"])
def test_what_one_publishes_another_fetches(
    name: str, command: Command, built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = command(publish.main, str(built / name), "to=new/shared", "licence=mit")
    assert "aded fetch new/shared out=" in done.out, done.err
    assert sorted(files(Path("new/shared"))) == ["README.md", name, "manifest.json"]
    found = command(fetch.main, "new/shared/", "out=deep/x").out.splitlines()
    assert ["documents", "5"] in [line.split() for line in found]
    assert found[-1] == "deep/x"
    assert files(Path("deep")) == {"x": (built / name).read_bytes()}


def test_the_card_says_what_it_is(built: Path, folder: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    said = {"licence": "mit", "sources": "chats of 2023", "tokenizer": str(built / "tok")}
    _, metadata, text = (shared(built, folder, **said) / "README.md").read_text().split("---\n", 2)
    assert yaml.safe_load(metadata)["license"] == "mit"
    for part in (*said.values(), tokenizer_fingerprint(tokenizer), f"aded fetch {folder} out=a.ngrams"):
        assert part in metadata + text


def test_a_file_that_is_no_datastore_is_not_replaced(folder: Path, content: bytes, tmp_path: Path) -> None:
    out, other = tmp_path / "x", tmp_path / "other"
    for text in ("my thesis", '{"format": "aded-pack"}'):
        out.write_text(text)
        refused("out", fetch_datastore, str(folder), out)
        assert out.read_text() == text
    out.write_bytes(content[:-700])  # damaged
    assert fetch_datastore(str(folder), out).path.read_bytes() == content
    other.mkdir()
    (other / "a.txt").write_bytes(bytes(2000))
    (other / "manifest.json").write_text(manifest_of(other / "a.txt").text())
    refused("datastore.path", fetch_datastore, str(other), tmp_path / "y")
    assert list(files(tmp_path)) == ["x"]


def test_a_manifest_is_not_trusted(folder: Path, tmp_path: Path) -> None:
    path = folder / "manifest.json"
    right = json.loads(path.read_text())
    bad: dict[str, object] = {"file": "../secret", "bytes": 1 << 50, "sha256": "0" * 63, "extra": 1, "format": "x"}
    changed = [(json.dumps({**right, key: value}).encode(), f"{key}: ") for key, value in bad.items()]
    version_1, two_lines = json.dumps({**right, "version": 1}), json.dumps({**right, "file": "a\nb"})
    others = [(version_1.encode(), "version 1"), (two_lines.encode(), "file: "), (b"[]", ""), (b"\xff", "UTF-8")]
    for crafted, part in changed + others:
        path.write_bytes(crafted)
        assert part in refused(str(path), fetch_datastore, str(folder), tmp_path / "x")
        assert files(tmp_path) == {}


def test_other_peoples_files_are_not_written_over(built: Path, tmp_path: Path) -> None:
    for name in ("README.md", "manifest.json", "a.ngrams"):
        (tmp_path / name).write_bytes(b"# a.ngrams\n\nMy thesis.\n\xff")
        before = files(tmp_path)
        assert name in refused("to", shared, built, tmp_path)
        assert files(tmp_path) == before
        (tmp_path / name).unlink()


@pytest.mark.parametrize("kept", ["README.md", "README.md a.ngrams"])
def test_a_publication_that_was_interrupted_goes_on(
    kept: str, folder: Path, built: Path, tokenizer: PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    for path in folder.iterdir():
        if path.name not in kept.split():
            path.unlink()
    refused("to", shared, built, folder, "a.suffixes")
    build(Texts("newer"), tokenizer, out=tmp_path / "a.ngrams")
    shared(tmp_path, folder)
    assert (folder / "a.ngrams").read_bytes() == (tmp_path / "a.ngrams").read_bytes()
    assert sorted(files(folder)) == ["README.md", "a.ngrams", "manifest.json"]
    shared(folder, folder)  # it may lie there already
    assert len(files(folder)) == 3
    with patch("shutil.copyfileobj", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        shared(tmp_path, folder)
    assert not (folder / "manifest.json").exists(), "who sees it finds the whole file"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[FileServer]:

    def start(repo_id: str, revision: str | None) -> str:
        return f"datasets/{repo_id}/resolve/{revision or 'main'}/"

    def names(_: HfApi, repo_id: str, *, repo_type: str, revision: str | None) -> list[str]:
        before = start(repo_id, revision)
        return [name.removeprefix(before) for name in running.files if name.startswith(before)]

    def commit(_: HfApi, repo_id: str, operations: list[Any], *, revision: str | None, **__: str) -> None:
        for operation in operations:
            with operation.as_file() as file:
                running.files[start(repo_id, revision) + operation.path_in_repo] = file.read()

    with serving({}) as running:
        for name, made in {"create_repo": Mock(), "list_repo_files": names, "create_commit": commit}.items():
            monkeypatch.setattr(HfApi, name, made)
        template = constants.HUGGINGFACE_CO_URL_TEMPLATE.replace(constants.ENDPOINT, running.url)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        yield running


@pytest.mark.parametrize("revision", ["", "@v2"])
def test_to_the_hub_and_back(
    revision: str, hub: FileServer, built: Path, content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, other = f"hf://datasets/acme/chat{revision}", "datasets/acme/other/resolve/main/README.md"
    shared(built, name)
    shared(built, name)
    hub.files[other] = b"# Other people's\n"
    before = dict(hub.files)
    refused("to", shared, built, "hf://datasets/acme/other")
    refused("to", shared, built, name, "a.suffixes")
    assert hub.files == before
    place, names = f"datasets/acme/chat/resolve/{revision[1:] or 'main'}", ("README.md", "a.ngrams", "manifest.json")
    assert sorted({*before} - {other}) == [f"{place}/{each}" for each in names]
    hub.dies_after = 900
    fetch_datastore(name, tmp_path / "x")
    assert (tmp_path / "x").read_bytes() == content
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert "HF_HUB_OFFLINE" in refused(f"{name}/manifest.json", fetch_datastore, name, tmp_path / "y")


def test_a_hub_that_takes_no_files(hub: object, built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HfApi, "create_repo", Mock(side_effect=ConnectionError("401 Unauthorized\nmore")))
    assert "401 Unauthorized;" in refused("to", shared, built, "hf://datasets/acme/chat")


Main = Callable[[], None]
REFUSED: dict[Main, dict[str, list[str]]] = {
    publish.main: {
        "FILE": [""],
        "to": ["a.ngrams", "a.ngrams to=hf://datasets/a/b/c", "a.ngrams to=a.suffixes"],
        "hf://acme/chat": ["a.ngrams to=hf://acme/chat"],
        "license": ["a.ngrams to=shared license=mit"],
        "tokenizer": ["a.ngrams to=shared tokenizer=nowhere/at/all"],
        "datastore.path": ["damaged to=shared"],
        ".a": [".a to=shared"],
    },
    fetch.main: {"nowhere/manifest.json": ["nowhere out=x"], "out": ["tok out=tok", "some/folder", "out=x"]},
}


@pytest.mark.parametrize("main", REFUSED)
def test_bad_input_is_one_line_and_writes_nothing(
    main: Main, command: Command, built: Path, content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, target in {"a.ngrams": "a.ngrams", "a.suffixes": "a.suffixes", "tok": "tok", ".a": "a.ngrams"}.items():
        (tmp_path / name).symlink_to(built / target)
    (tmp_path / "damaged").write_bytes(content[:-60] + bytes([content[-60] ^ 1]) + content[-59:])
    before = sorted(os.listdir(tmp_path))
    monkeypatch.chdir(tmp_path)
    for key, commands in REFUSED[main].items():
        for arguments in commands:
            assert command.refusal(main, *arguments.split()).startswith(f"{key}: ")
            assert sorted(os.listdir(tmp_path)) == before
