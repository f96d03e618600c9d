import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from command import Called, Command
from file_server import FileServer, serving
from tiny_gguf import tiny_gguf

import aded
from aded.config import choices
from aded.config.choices import read_choice
from aded.config.objects import CONF
from aded.errors import BadInput
from aded.files.models.embedded_model import FETCHED
from aded.identity import sha256
from aded.settings import checked
from datastore import fetch
from datastore.sources.catalogue import Source, converted
from datastore.sources.fetching import announcement

CONTENTS = {"one": b'{"question_id": 1, "turns": ["a"]}\n' * 9, "two": bytes(300_000)}


def raw_path(name: str) -> str:
    return f"owner/{name}/0a1b/{name}.jsonl"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FileServer]:
    monkeypatch.chdir(tmp_path)
    with serving({}) as running:
        shutil.copytree(CONF, tmp_path / "conf", ignore=shutil.ignore_patterns("source"))
        (tmp_path / "conf" / "source").mkdir()
        for name, content in CONTENTS.items():
            describe(running, name, content)
        monkeypatch.setattr(choices, "CONF", tmp_path / "conf")
        yield running


def describe(server: FileServer, name: str, content: bytes, **others: object) -> None:
    server.files[raw_path(name)] = content
    source = {
        "what": f"source {name}",
        "licence": "CC-BY-NC-4.0",
        "caution": "NON-COMMERCIAL USE ONLY",
        "files": [{"url": f"{server.url}/{raw_path(name)}", "bytes": len(content), "sha256": sha256(content)}],
        "convert": {"_target_": "datastore.sources.answers.unchanged"},
        "results": {f"answers/{name}.jsonl": sha256(content)},
    }
    Path(f"conf/source/{name}.yaml").write_text(yaml.safe_dump(source | others))
    choices._kept.cache_clear()  # as in a new process


Call = Callable[..., Called]


@pytest.fixture
def called(command: Command) -> Call:
    def call(*arguments: str) -> Called:
        return command(fetch.main, "source.out=out", *arguments)

    return call


def there() -> set[str]:
    paths = {name: Path(f"out/answers/{name}.jsonl") for name in CONTENTS}
    return {name for name, path in paths.items() if path.exists() and path.read_bytes() == CONTENTS[name]}


def test_a_file_that_was_not_fetched_stays(server: FileServer, called: Call) -> None:
    (mine := Path("out/answers/one.jsonl")).parent.mkdir(parents=True)
    mine.write_text("mine")
    code, _, errors = called("one")
    assert (code, mine.read_text()) == (1, "mine")
    assert "source.out: out/answers/one.jsonl is there and was not fetched; move it away" in errors
    mine.write_bytes(CONTENTS["one"])
    assert called("one").code == 0


def test_all_once_and_then_from_a_mirror(server: FileServer, called: Call, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    assert called("all").out == "out/answers/one.jsonl\nout/answers/two.jsonl\n"
    assert there() == {"one", "two"}
    assert caplog.messages[0].startswith("one: NON-COMMERCIAL USE ONLY. ")
    assert called("all").code == 0
    for damaged in ("out/answers/one.jsonl", "out/made/two.json"):
        Path(damaged).write_bytes(b"[")
        assert called("all").code == 0
        assert there() == {"one", "two"}
    assert len(server.asked) == 2, "the raw files are there"
    server.files.clear()
    Path("out").rename("first")
    assert called("one", "two", "source.mirror=first/raw").code == 0
    assert there() == {"one", "two"}


def test_a_changed_catalogue_is_fetched_again_if_it_fits(server: FileServer, called: Call) -> None:
    assert called("one").code == 0
    describe(server, "one", b"newer")
    assert called("one").code == 0
    assert Path("out/answers/one.jsonl").read_bytes() == b"newer"
    describe(server, "two", CONTENTS["two"], results={"answers/two.jsonl": "0" * 64})
    code, _, error = called("two")
    assert (code, error.startswith("two: two: answers/two.jsonl ")) == (1, True)
    assert there() == set()


def test_one_fault_is_one_line_and_the_others_arrive(server: FileServer, called: Call) -> None:
    content = server.files.pop(raw_path("one"))
    code, _, errors = called("all")
    fault, total = errors.splitlines()
    assert fault.startswith(f"one: {server.url}/{raw_path('one')}: ")
    assert (code, total) == (1, "1 of 2 failed: one")
    assert there() == {"two"}
    place = Path(fault.partition(") at ")[2].rpartition(", or name a source.mirror")[0])
    place.write_bytes(content)  # by hand, as it says
    assert called("all").code == 0
    assert there() == {"one", "two"}


def test_the_catalogue_is_listed_and_a_wrong_name_fetches_nothing(server: FileServer, called: Call) -> None:
    assert called("two").code == 0
    assert "CC-BY-NC-4.0  yes      source two" in called().out
    assert "did you mean two?" in called("one", "twoo").err
    assert called("one", "source.mirrow=x").code == 2
    assert len(server.asked) == 1


def test_a_fetched_model_goes_by_its_name(server: FileServer, called: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    name, folder = FETCHED[0], Path("cache/models") / FETCHED[0]
    describe(server, name, tiny_gguf(Path("tiny.gguf")).read_bytes(), convert={}, results={}, model_bits=4)
    monkeypatch.setenv("ADED_CACHE", "cache")
    with pytest.raises(BadInput, match=f"^model: .*aded fetch {name}$"):
        aded.load(name)
    assert called(name).out == f"{folder}\n"
    made = folder.stat().st_mtime_ns
    assert called(name).code == 0
    assert (folder.stat().st_mtime_ns, len(server.asked)) == (made, 1)
    assert "4-bit" in str(aded.load_target(name, kernels="torch").target.describe()["weights"])
    (folder / "model.safetensors").write_bytes(b"damaged")
    with pytest.raises(BadInput, match=f"not whole; run aded fetch {name}$"):
        aded.load(name)


@pytest.mark.parametrize("name", sorted(path.stem for path in (CONF / "source").glob("*.yaml")))
def test_every_source_is_well_formed(name: str, tmp_path: Path) -> None:
    text = (CONF / "source" / f"{name}.yaml").read_text()
    source = checked(yaml.safe_load(text), Source, name)  # composing them all takes seconds
    assert text.startswith(f"# aded fetch {name}\n")
    assert "/packages/" not in announcement(name, source), "folders of hashes say nothing"
    paths = [file.path for file in source.files]
    assert len(set(paths)) == len(paths) or name == "chat_corpus"
    for file in source.files:
        hosts = ("https://raw.githubusercontent.com/", "https://huggingface.co/", "https://files.pythonhosted.org/")
        assert file.url.startswith(hosts)
        assert re.search("/[0-9a-f]{40}/|^packages/../../[0-9a-f]{60}/", file.path), "a commit or a hash, no branch"
        assert all(piece.url.startswith("https://files.pythonhosted.org/packages/") for piece in file.pieces)
        assert sum(piece.holds for piece in file.pieces) in (0, file.bytes)
    assert ("NC" in source.licence or source.licence == "none stated") <= (source.caution is not None)
    assert (source.model_bits is not None) == (name in FETCHED)
    if source.model_bits:
        model = read_choice("model", name)
        assert (model["name"], model["path"], model["dtype"]) == (name, name, "bfloat16")
        assert len(source.files) == 1
        return
    with pytest.raises((BadInput, OSError)) as error:  # its function is there and takes its settings
        converted(name, source, [tmp_path / "no such file"] * len(source.files))
    assert "no such file" in str(error.value)
