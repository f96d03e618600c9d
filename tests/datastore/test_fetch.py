"""The command, against a server in this process that plays the internet or the mirror."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from file_server import FileServer, serving
from tiny_gguf import tiny_gguf

import aded
from aded.config import choices
from aded.config.choices import read_choice
from aded.config.objects import CONF
from aded.errors import BadInput
from aded.files.models.embedded_model import FETCHED
from aded.identity import sha256
from aded.records.environment import environment
from datastore import fetch
from datastore.sources.catalogue import converted, names, read_source
from datastore.sources.fetching import announcement

CONTENTS = {"one": b'{"question_id": 1, "turns": ["a"]}\n' * 9, "two": bytes(300_000)}


def raw_path(name: str) -> str:
    return f"owner/{name}/0a1b/{name}.jsonl"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FileServer]:
    """A catalogue of two sources, and their publisher."""
    with serving({raw_path(name): content for name, content in CONTENTS.items()}) as running:
        shutil.copytree(CONF, tmp_path / "conf", ignore=shutil.ignore_patterns("source"))
        (tmp_path / "conf" / "source").mkdir()
        for name, content in CONTENTS.items():
            sha256 = hashlib.sha256(content).hexdigest()
            source = {
                "what": f"source {name}",
                "licence": "CC-BY-NC-4.0",
                "caution": "NON-COMMERCIAL USE ONLY",
                "files": [{"url": f"{running.url}/{raw_path(name)}", "bytes": len(content), "sha256": sha256}],
                "convert": {"_target_": "datastore.sources.answers.unchanged"},
                "results": {f"answers/{name}.jsonl": sha256},
            }
            (tmp_path / "conf" / "source" / f"{name}.yaml").write_text(yaml.safe_dump(source))
        monkeypatch.setattr(choices, "CONF", tmp_path / "conf")
        monkeypatch.chdir(tmp_path)
        yield running


def called(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """The exit code of the command."""
    choices._kept.cache_clear()  # as in a new process
    monkeypatch.setattr(sys, "argv", ["fetch", "source.out=out", *arguments])
    try:
        fetch.main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def there() -> set[str]:
    return {
        name
        for name, content in CONTENTS.items()
        if (path := Path(f"out/answers/{name}.jsonl")).exists() and path.read_bytes() == content
    }


def test_all_once(
    server: FileServer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture,
) -> None:
    caplog.set_level("INFO")
    assert called(monkeypatch, "all") == 0
    assert there() == {"one", "two"}
    assert caplog.messages[0].startswith("one: NON-COMMERCIAL USE ONLY. ")
    assert capsys.readouterr().out == "out/answers/one.jsonl\nout/answers/two.jsonl\n"
    assert called(monkeypatch, "all") == 0
    for damaged in ("out/answers/one.jsonl", "out/made/two.json"):
        Path(damaged).write_bytes(b"[")
        assert called(monkeypatch, "all") == 0
        assert there() == {"one", "two"}
    assert len(server.asked) == 2, "the raw files are there"


def test_another_catalogue_is_fetched_again(server: FileServer, monkeypatch: pytest.MonkeyPatch) -> None:
    assert called(monkeypatch, "one") == 0
    server.files[raw_path("one")] = b"newer"
    path = Path("conf/source/one.yaml")
    text = path.read_text().replace(hashlib.sha256(CONTENTS["one"]).hexdigest(), hashlib.sha256(b"newer").hexdigest())
    path.write_text(text.replace(f"bytes: {len(CONTENTS['one'])}", "bytes: 5"))
    assert called(monkeypatch, "one") == 0
    assert Path("out/answers/one.jsonl").read_bytes() == b"newer"


def test_one_fault_is_one_line_and_the_others_arrive(
    server: FileServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    content = server.files.pop(raw_path("one"))
    assert called(monkeypatch, "all") == 1
    fault, total = capsys.readouterr().err.splitlines()
    assert fault.startswith(f"one: {server.url}/{raw_path('one')}: ")
    assert total == "1 of 2 failed: one"
    assert there() == {"two"}
    place = Path(fault.partition(") at ")[2].rpartition(", or name a source.mirror")[0])
    place.write_bytes(content)  # by hand, as it says
    assert called(monkeypatch, "all") == 0
    assert there() == {"one", "two"}


def test_killed_half_way_it_goes_on(server: FileServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    server.dies_after, server.stalls = 200_000, True
    code = (
        "import sys, pathlib; from aded.config import choices; choices.CONF = pathlib.Path('conf').resolve(); "
        "from datastore.fetch import main; sys.argv = ['fetch', 'two', 'source.out=out']; main()"
    )
    environment = {**os.environ, "PYTHONPATH": str(CONF.parent)}
    with subprocess.Popen([sys.executable, "-c", code], env=environment, stderr=subprocess.DEVNULL) as process:
        assert server.stalled.wait(60)
        sha256 = hashlib.sha256(CONTENTS["two"]).hexdigest()
        part = Path(f"out/raw/{raw_path('two')}.{sha256[:8]}.part")
        while not (part.exists() and part.stat().st_size):
            assert process.poll() is None
        process.kill()
    have = part.stat().st_size
    assert 0 < have <= 200_000
    assert there() == set()
    server.dies_after, server.stalls = None, False
    server.released.set()
    assert called(monkeypatch, "two") == 0
    assert there() == {"two"}
    assert server.asked[-1].endswith(f"bytes={have}-")


def test_a_fetched_folder_is_a_mirror(server: FileServer, monkeypatch: pytest.MonkeyPatch) -> None:
    assert called(monkeypatch, "all") == 0
    server.files.clear()
    Path("out").rename("first")
    assert called(monkeypatch, "one", "two", "source.mirror=first/raw") == 0
    assert there() == {"one", "two"}
    assert len(server.asked) == 2


def test_a_conversion_that_comes_out_otherwise_writes_nothing(
    server: FileServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    path = Path("conf/source/one.yaml")
    source = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump({**source, "results": {"answers/one.jsonl": "0" * 64}}))
    assert called(monkeypatch, "one") == 1
    assert capsys.readouterr().err.startswith("one: one: answers/one.jsonl ")
    assert there() == set()


def test_the_catalogue_is_listed_and_a_wrong_name_fetches_nothing(
    server: FileServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    assert called(monkeypatch, "two") == 0
    assert called(monkeypatch) == 0
    assert "CC-BY-NC-4.0  yes      source two" in capsys.readouterr().out
    assert called(monkeypatch, "one", "twoo") == 2
    assert "did you mean two?" in capsys.readouterr().err
    assert called(monkeypatch, "one", "source.mirrow=x") == 2
    assert len(server.asked) == 1


def test_a_model_is_converted_once_and_then_goes_by_its_name(
    server: FileServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    name, folder = FETCHED[0], Path("cache/models") / FETCHED[0]
    content = tiny_gguf(Path("tiny.gguf")).read_bytes()
    server.files["owner/tiny.gguf"] = content
    file = {"url": f"{server.url}/owner/tiny.gguf", "bytes": len(content), "sha256": sha256(content)}
    source = {"what": "a model", "licence": "Apache-2.0", "files": [file], "model_bits": 4}
    Path(f"conf/source/{name}.yaml").write_text(yaml.safe_dump(source))
    monkeypatch.setenv("ADED_CACHE", "cache")
    with pytest.raises(BadInput, match=f"^model: .*aded fetch {name}$"):
        aded.load(name)
    assert called(monkeypatch, name) == 0
    assert capsys.readouterr().out == f"{folder}\n"
    made = folder.stat().st_mtime_ns
    assert called(monkeypatch, name) == 0
    assert (folder.stat().st_mtime_ns, len(server.asked)) == (made, 1)
    model, tokenizer = aded.load(name, dtype="bfloat16")
    assert aded.generate(model, tokenizer, "the", drafter=None, max_new_tokens=4, kernels="torch").steps == 3
    record = environment(aded.load_target(name, kernels="torch").target.describe())
    assert record.weights == "weights of the 4-bit file, computed in bfloat16"
    (folder / "model.safetensors").write_bytes(b"damaged")
    with pytest.raises(BadInput, match=f"not whole; run aded fetch {name}$"):
        aded.load(name)
    assert called(monkeypatch, name) == 0
    assert aded.load(name)[1].eos_token == "<|im_end|>"


@pytest.mark.parametrize("name", sorted(path.stem for path in (CONF / "source").glob("*.yaml")))
def test_every_source_is_well_formed(name: str, tmp_path: Path) -> None:
    source = read_source(name)
    assert name in names()
    text = (CONF / "source" / f"{name}.yaml").read_text()
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
