"""Building datastore files, through the function and the command line."""

from __future__ import annotations

import json
import logging
import os
import time
from pathlib import Path
from threading import Thread

import pytest
from command import Command
from texts import TEXTS, Texts
from transformers import PreTrainedTokenizerFast

from aded.errors import BadInput
from aded.files.atomic import lock_file
from aded.files.datastores.ngram_file import open_ngrams
from aded.files.datastores.suffix_file import open_suffixes
from datastore.build import main
from datastore.builder import build


@pytest.fixture
def place(tokenizer: PreTrainedTokenizerFast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder. It contains a tokenizer, `tok`, and a corpus, `rows.jsonl`, whose last row has no text."""
    tokenizer.save_pretrained(tmp_path / "tok")
    rows = [{"text": text} for text in TEXTS]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in [*rows, {"no": 1}]))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


ROWS = ("corpus=jsonl", "corpus.path=rows.jsonl", "tokenizer=tok")


def test_one_command_builds_both_files_from_one_stream(
    place: Path, tokenizer: PreTrainedTokenizerFast, command: Command, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    done = command(main, *ROWS, "out=new/x.ngrams", "suffixes='~/x.suffixes'", "order=4")
    assert done[:2] == (0, "built new/x.ngrams and ~/x.suffixes\n"), done.err
    assert "5 documents" in caplog.text
    assert "skipped 1: 1 no text" in caplog.text
    ngrams, stream = open_ngrams(place / "new" / "x.ngrams"), open_suffixes(place / "x.suffixes")
    assert ngrams.order == 4
    ids = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in TEXTS]
    assert stream.tokens.tolist() == [token for text in ids for token in [*text, stream.separator]]
    a, b, c = tokenizer("abc", add_special_tokens=False)["input_ids"]
    assert ngrams.successors(a, b)[0].tolist() == [c]
    facts = {"documents": "5", "prompts": "5", "tokens": str(sum(map(len, ids))), "skipped": "1", "corpus": "jsonl"}
    for file in (ngrams, stream):
        assert file.header.items() >= facts.items()
    assert sorted(os.listdir()) == ["new", "rows.jsonl", "tok", "x.suffixes"]
    assert os.listdir("new") == ["x.ngrams"]


def test_parts_write_the_bytes_of_one_build(place: Path, command: Command) -> None:
    assert command(main, *ROWS, "out=one").code == 0
    assert command(main, *ROWS, "out=x", "parts=4", "cluster=debug").out == "built x\n"
    assert Path("x").read_bytes() == Path("one").read_bytes()
    assert sorted(os.listdir()) == ["one", "rows.jsonl", "tok", "x"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ("", "out: "),
        ("out=x order=6", "order: "),
        ("out=x tokenizer=none", "tokenizer: "),
        ("out=x corpus.path=none.jsonl", "corpus.path: "),
        ("out=x corpus.path=empty.jsonl", "corpus: "),
        ("out=rows.jsonl/x", "out: "),
        ("out=.", "out: . is a folder"),
        ("suffixes=..", "suffixes: .. is a folder"),
        ("out=x tokenizer=???", "tokenizer: must be given"),
        ("out=x parts=0", "parts: 0"),
        ("out=x suffixes=y parts=2", "parts: are parts of an n-gram"),
        ("parts=2", "parts: are parts of an n-gram file"),
        ("out=x cluster=lsf", "cluster/lsf"),
        ("out=x corpus.path=none parts=2 cluster=debug", "corpus.path: no file none"),
        ("out=x corpus=text corpus.path=sub", "corpus.path: no file sub"),
        # What a build reads or writes too.
        ("out=x suffixes=tok/../x", "suffixes: tok/../x belongs to out=x"),
        ("out=sub/x corpus=text corpus.path=.", "out: sub/x belongs to corpus.path=."),
        ("out=linked", "out: linked belongs to corpus.path="),
        ("out=hard", "out: hard belongs to corpus.path="),
        ("out=tok/tokenizer.json", "out: tok/tokenizer.json belongs to tokenizer=tok"),
        ("out=asked corpus.report=[prompts:asked]", "out: asked belongs to corpus.report=asked"),
        ("suffixes=asked corpus.exclude=[human_eval,prompts:asked]", "suffixes: asked belongs to corpus.exclude="),
    ],
)
def test_bad_input_is_one_line_and_builds_nothing(
    arguments: str, problem: str, place: Path, command: Command
) -> None:
    (place / "sub").mkdir()
    (place / "empty.jsonl").write_text('{"text": " "}\n')
    (place / "asked").write_text('{"prompt": "one"}\n')
    (place / "linked").symlink_to("rows.jsonl")
    (place / "hard").hardlink_to(place / "rows.jsonl")
    before = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    done = command(main, *ROWS, *arguments.split())
    assert (done.code, done.out) == (2, "")
    assert problem in done.err.splitlines()[-1]
    assert {path: path.read_bytes() for path in place.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("stage", ["datastore.builder.tokenise", "datastore.ngrams.GrowingTrie.append", "os.fsync"])
def test_a_full_disk_is_reported_and_an_interrupted_build_leaves_nothing(
    stage: str, tokenizer: PreTrainedTokenizerFast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for error, seen in (
        (OSError(28, "No space left on device"), r"^out: .*x.ngrams cannot be written \(No space left"),
        (KeyboardInterrupt(), "^$"),
    ):

        def stop(*_: object, error: BaseException = error, **__: object) -> None:
            raise error

        monkeypatch.setattr(stage, stop)
        with pytest.raises((BadInput, KeyboardInterrupt), match=seen):
            build(Texts(*TEXTS), tokenizer, out=tmp_path / "x.ngrams")
        assert os.listdir(tmp_path) == []


def test_what_a_killed_build_left_is_removed(tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    out, scratch = tmp_path / "x.ngrams", tmp_path / ".x.ngrams.building"
    build(Texts(*TEXTS), tokenizer, out=tmp_path / "one")
    scratch.mkdir()
    for path in (scratch / "tokens", tmp_path / ".x.ngrams.7.partial", tmp_path / ".x.suffixes.7.partial"):
        path.write_bytes(b"\1\0\2\0")
    build(Texts(*TEXTS), tokenizer, out=out, suffixes=tmp_path / "x.suffixes")
    assert sorted(os.listdir(tmp_path)) == ["one", "x.ngrams", "x.suffixes"]
    assert out.read_bytes() == (tmp_path / "one").read_bytes()


def test_two_builds_of_one_file_wait_for_each_other(
    tokenizer: PreTrainedTokenizerFast, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    corpus = Texts(*TEXTS)
    other = lock_file(tmp_path / ".x.building" / "lock", lambda: None)
    second = Thread(target=build, args=(corpus, tokenizer), kwargs={"out": tmp_path / "x"})
    second.start()
    while second.is_alive() and not any("waiting for another process" in message for message in caplog.messages):
        time.sleep(0.01)
    assert corpus.reads == 0
    other.lock.release()
    second.join()
    assert os.listdir(tmp_path) == ["x"]
