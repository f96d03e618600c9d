import json
import logging
import os
import time
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any, cast
from unittest.mock import Mock

import pytest
from command import Command
from omegaconf import DictConfig, OmegaConf
from texts import TEXTS, Texts
from tiny import tiny_tokenizer
from transformers import PreTrainedTokenizerFast

from aded.config.command_line import compose_config
from aded.errors import BadInput
from aded.files.atomic import lock_file
from aded.files.datastores.array_file import ArrayFile
from aded.files.datastores.ngram_file import open_ngrams
from aded.files.datastores.suffix_file import open_suffixes
from aded.identity import file_fingerprint, sha256
from aded.records.environment import environment
from datastore import info, merge
from datastore.build import BUILD, main, run
from datastore.builder import build
from datastore.info import describe
from datastore.ngrams import write_ngrams
from datastore.open import open_or_build
from datastore.parts import Cluster, build_in_parts
from datastore.sources.download import receive


@pytest.fixture
def place(tokenizer: PreTrainedTokenizerFast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder. It contains a tokenizer, `tok`, and `rows.jsonl`, whose last two rows have no text."""
    tokenizer.save_pretrained(tmp_path / "tok")
    rows = [{"text": text} for text in TEXTS]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in [*rows, {"no": 1}, {"no": 2}]))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


ROWS = ("corpus=jsonl", "corpus.path=rows.jsonl", "tokenizer=tok")


def test_one_command_builds_both_files_from_one_stream(
    place: Path, tokenizer: PreTrainedTokenizerFast, command: Command, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    for left in ("new/.x.ngrams.building/tokens", "new/.x.ngrams.7.partial", ".x.suffixes.7.partial"):  # by a kill
        Path(left).parent.mkdir(parents=True, exist_ok=True)
        Path(left).write_bytes(b"\1\0")
    done = command(main, *ROWS, "out=new/x.ngrams", "suffixes='~/x.suffixes'", "order=4")
    assert done[:2] == (0, "built new/x.ngrams and ~/x.suffixes\n"), done.err
    assert "5 documents" in caplog.text
    assert "skipped 2: 2 no text" in caplog.text
    ngrams, stream = open_ngrams(place / "new" / "x.ngrams"), open_suffixes(place / "x.suffixes")
    assert ngrams.order == 4
    ids = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in TEXTS]
    assert stream.tokens.tolist() == [token for text in ids for token in [*text, stream.separator]]
    a, b, c = tokenizer("abc", add_special_tokens=False)["input_ids"]
    assert ngrams.successors(a, b)[0].tolist() == [c]
    facts = {"documents": "5", "prompts": "5", "tokens": str(sum(map(len, ids))), "skipped": "2", "corpus": "jsonl"}
    facts["source"] = f"path=rows.jsonl, contents={file_fingerprint('rows.jsonl'):.8}"
    recorded = {f"datastore_{key}": fact for key, fact in facts.items() if key != "skipped"}
    for file in (ngrams, stream):
        assert file.header.items() >= facts.items()
        described = file.describe()
        assert described == {"datastore": file.header["fingerprint"], **recorded}
        assert environment(described).datastore_source == facts["source"]
    assert command(main, *ROWS, "out=parts", "order=4", "parts=4", "cluster=debug").out == "built parts\n"
    assert Path("parts").read_bytes() == Path("new/x.ngrams").read_bytes()
    assert sorted(os.listdir()) == ["new", "parts", "rows.jsonl", "tok", "x.suffixes"]
    assert os.listdir("new") == ["x.ngrams"]


BAD_COMMANDS = {
    "": "out: ",
    "out=x order=6": "order: ",
    "out=x tokenizer=???": "tokenizer: must be given",
    "out=x cluster=lsf": "no such cluster",
    "out=sub/x corpus=text corpus.path=.": "out: sub/x belongs to corpus.path=.",
}
BAD_SETTINGS = {
    "out=x tokenizer=none": "tokenizer: ",
    "out=x corpus.path=none.jsonl": "corpus.path: ",
    "out=x corpus.path=empty.jsonl": "corpus: ",
    "out=rows.jsonl/x": "out: ",
    "out=.": "out: . is a folder",
    "out=x suffixes=y parts=2": "parts: are parts of an n-gram",
    # What a build reads or writes too.
    "out=x suffixes=tok/../x": "suffixes: tok/../x belongs to out=x",
    "out=tok/tokenizer.json": "out: tok/tokenizer.json belongs to tokenizer=tok",
    "lookup=asked corpus.exclude=[human_eval,prompts:asked]": "lookup: asked belongs to corpus.exclude=",
}


def test_bad_input_is_one_line_and_builds_nothing(place: Path, command: Command) -> None:
    (place / "sub").mkdir()
    (place / "empty.jsonl").write_text('{"text": " "}\n')
    (place / "asked").write_text('{"prompt": "one"}\n')
    before = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    for arguments, problem in BAD_COMMANDS.items():
        done = command(main, *ROWS, *arguments.split())
        assert (done.code, done.out) == (2, "")
        assert problem in done.err.splitlines()[-1]
    settings = compose_config(list(ROWS), "build", BUILD)
    for arguments, problem in BAD_SETTINGS.items():
        with pytest.raises(BadInput, match=f"^{problem}"):
            run(cast(DictConfig, OmegaConf.merge(settings, OmegaConf.from_dotlist(arguments.split()))))
        assert {path: path.read_bytes() for path in place.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("stage", ["datastore.builder.tokenise", "datastore.ngrams.GrowingTrie.append", "os.fsync"])
def test_a_full_disk_is_reported_and_an_interrupted_build_leaves_nothing(
    stage: str, tokenizer: PreTrainedTokenizerFast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = OSError(28, "No space left on device")
    for error, seen in ((full, r"^out: .*x.ngrams cannot be written \(No space left"), (KeyboardInterrupt(), "^$")):
        monkeypatch.setattr(stage, Mock(side_effect=error))
        with pytest.raises((BadInput, KeyboardInterrupt), match=seen):
            build(Texts(*TEXTS), tokenizer, out=tmp_path / "x.ngrams")
        assert os.listdir(tmp_path) == []


LOCKS = {"build": ".x.building/lock", "parts": ".x.parts/lock", "fetch": ".x.fetching"}


def write_x(work: str, folder: Path) -> None:
    tokenizer = tiny_tokenizer()
    if work == "build":
        build(Texts(*TEXTS), tokenizer, out=folder / "x")
    elif work == "parts":
        tokenizer.save_pretrained(folder / "tok")
        settings: dict[str, Any] = {"order": 2, "parts": 2, "cluster": Cluster(kind="debug", at_once=1)}
        build_in_parts(Texts(*TEXTS), str(folder / "tok"), str(folder), out=folder / "x", **settings)
    else:
        (folder / "there").write_bytes(b"x")
        receive(str(folder / "there"), folder / "x", 1, sha256(b"x"))


@pytest.mark.parametrize(("work", "lock"), LOCKS.items())
def test_two_commands_take_turns(work: str, lock: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    second = Thread(target=write_x, args=(work, tmp_path))
    with lock_file(tmp_path / lock, lambda: None):
        second.start()
        while second.is_alive() and not any("waiting for another process" in each for each in caplog.messages):
            time.sleep(0.01)
        assert not (tmp_path / "x").exists()
    second.join()
    assert (tmp_path / "x").exists()


def opened(tokenizer: PreTrainedTokenizerFast, corpus: Texts, folder: Path, **keys: Any) -> ArrayFile:
    keys = {"path": None, "order": 3, "cache": str(folder), "kind": "ngrams"} | keys
    return open_or_build(tokenizer, corpus=corpus, **keys)


def test_a_run_has_a_datastore_built_once_per_tokenizer(tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    corpus, other = Texts(*TEXTS), tiny_tokenizer(["é"])
    first = opened(tokenizer, corpus, tmp_path).path
    assert first == opened(tokenizer, corpus, tmp_path).path
    assert corpus.reads == 1
    others = [
        opened(other, corpus, tmp_path),
        opened(tokenizer, Texts("another"), tmp_path),
        opened(tokenizer, corpus, tmp_path, order=2),
        opened(tokenizer, corpus, tmp_path, kind="suffixes"),
    ]
    assert len({first, *(other.path for other in others)}) == 5
    with pytest.raises(BadInput, match="build a datastore with the model's own tokenizer"):
        opened(other, corpus, tmp_path, path=str(first))
    whole = first.read_bytes()
    first.write_bytes(whole[:-50])  # a damaged one is built again
    opened(tokenizer, corpus, tmp_path)
    assert first.read_bytes() == whole


def lines(path: Path, top: int) -> list[list[str]]:
    return [line.split() for line in describe(path, None, top).splitlines()]


@pytest.fixture
def folder(tokenizer: PreTrainedTokenizerFast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with what is built of TEXTS: `a`, and its suffixes, `s`."""
    monkeypatch.chdir(tmp_path)
    build(Texts(*TEXTS), tokenizer, out=tmp_path / "a", suffixes=tmp_path / "s", order=3)
    return tmp_path


def test_the_most_frequent_entries_come_first(tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    build(Texts("aab", "aac"), tokenizer, out=tmp_path / "a", suffixes=tmp_path / "s", order=2)
    a, b, c = tokenizer("abc", add_special_tokens=False)["input_ids"]
    found = lines(tmp_path / "a", 2)
    assert found[found.index(["4", str(a)]) + 1] == ["1", str(b)]
    assert [["2", str(a), str(a)], ["1", str(a), str(b)]] == found[-2:]
    assert lines(tmp_path / "s", 9)[-3:] == [["4", str(a)], ["1", str(b)], ["1", str(c)]]


def test_info_prints_whole_files_alone(tokenizer: PreTrainedTokenizerFast, folder: Path, command: Command) -> None:
    tokenizer.save_pretrained("tok")
    tiny_tokenizer(["é"]).save_pretrained("other")
    found = command(info.main, "a", "tokenizer=tok", "top=1", "--verify").out.splitlines()
    assert ["documents", "5"] in [line.split() for line in found]
    assert found[-1].split(maxsplit=1) == ["4", "'he '"]
    refused = {"": "FILE", "a s": "FILE", "none": "datastore.path", "a top=0": "top", "a tokeniser=y": "tokeniser"}
    for arguments, key in {**refused, "a tokenizer=other": "datastore.path"}.items():
        assert command.refusal(info.main, *arguments.split()).startswith(f"{key}: ")
    for name in "as":
        whole = (folder / name).read_bytes()
        (folder / name).write_bytes(whole[:-40] + bytes([whole[-40] ^ 1]) + whole[-39:])
        assert "damaged" in command.refusal(info.main, name, "--verify")
    assert "damaged" in command.refusal(info.main, "s")


def test_info_of_lookups(tokenizer: PreTrainedTokenizerFast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("datastore.lookup.MOST_STEPS", 2)
    monkeypatch.setattr("datastore.lookup.LENGTH", 16)
    build(Texts("the cat sat on the mat " * 60), tokenizer, lookup=tmp_path / "l")
    facts = dict(line.split(maxsplit=1) for line in describe(tmp_path / "l", None, 9).splitlines()[1:-1])
    assert 0 < float(facts["nats"]) < 10
    assert facts["documents"] == "1"


def test_merged_parts_equal_the_whole(
    tokenizer: PreTrainedTokenizerFast, folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, texts in {"0": TEXTS[:2], "1": TEXTS[2:3], "2": TEXTS[3:]}.items():
        build(Texts(*texts), tokenizer, out=folder / name, order=3)
    monkeypatch.setattr("datastore.ngrams.WINDOWS", 3)
    for out, *inputs in (("merged", "0", "1", "2"), ("pair", "0", "1"), ("rounds", "pair", "2"), ("alone", "a")):
        assert command(merge.main, f"out={out}", *inputs).out == f"built {out}\n"
    merged, whole, rounds, alone = (Path(name).read_bytes() for name in ("merged", "a", "rounds", "alone"))
    assert merged == whole == rounds == alone
    other = Texts("ab")
    for source, said in (("other texts", "given texts + other texts"), ("", None)):  # "": of an earlier release
        other.source = source
        build(other, tokenizer, out=folder / "b", order=3)
        merge.merge(folder / "both", [folder / "a", folder / "b"])
        assert open_ngrams(folder / "both").header.get("source") == said


def test_files_that_do_not_fit_together_are_not_merged(tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    build(Texts(*TEXTS), tokenizer, out=folder / "b")
    build(Texts(*TEXTS), tiny_tokenizer(["é"]), out=folder / "c", order=3)
    file = open_ngrams(folder / "a")
    header = {key: file.header[key] for key in ("tokenizer", "vocabulary")}
    write_ngrams(folder / "no prompts", file, header)
    token = file.ngrams.token.copy()  # its checksums are right; two of its nodes have changed places
    token[[0, 1]] = token[[1, 0]]
    write_ngrams(folder / "crafted", replace(file, ngrams=file.ngrams._replace(token=token)), header, file.prompts)
    before = sorted(os.listdir())
    for other, message in (
        ("b", "merge files of one kind"),
        ("c", "was built with the tokenizer"),
        ("none", "no file"),
        ("no prompts", "does not know its prompts"),
        ("crafted", r"crafted is damaged \(node 0 is out of order\)"),
    ):
        with pytest.raises(BadInput, match=message):
            merge.merge(folder / "out", [folder / "a", folder / other])
    assert sorted(os.listdir()) == before


def test_bad_input_of_a_merge_is_one_line_and_writes_nothing(folder: Path, command: Command) -> None:
    Path("other").write_text("no datastore")
    Path("linked").symlink_to("a")
    Path("hard").hardlink_to("a")
    for key, commands in {
        "out": ["a", "a out=.", "a out=other", "out=linked a"],
        "inputs": ["out=b", "out=b a linked", "out=b hard linked"],  # no file twice
        "datastore.path": ["out=b other"],
        "into": ["out=b a into=c"],
    }.items():
        for arguments in commands:
            assert command.refusal(merge.main, *arguments.split()).startswith(f"{key}: ")
    assert sorted(os.listdir()) == ["a", "hard", "linked", "other", "s"]
