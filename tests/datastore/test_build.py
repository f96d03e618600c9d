"""Building, merging and printing datastore files, through the functions and the command line."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import ModuleType

import forked
import numpy as np
import pytest
from command import Command
from texts import TEXTS, Texts
from tiny import tiny_tokenizer
from transformers import PreTrainedTokenizerFast

from aded.errors import BadInput
from aded.files.datastores.ngram_file import open_ngrams
from aded.files.datastores.suffix_file import open_suffixes
from datastore import build as command
from datastore import info, merge
from datastore.builder import build
from datastore.ngrams import write_ngrams

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def folder(tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> Path:
    """Contains a tokenizer, `tok`, and a corpus, `rows.jsonl`."""
    tokenizer.save_pretrained(tmp_path / "tok")
    rows = [{"text": text} for text in TEXTS]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in [*rows, {"no": 1}]))
    return tmp_path


Result = tuple[int, str, str]
"""Exit code, stdout and stderr."""


@pytest.fixture
def run(command: Command) -> Callable[..., Result]:
    """Run a command in this process."""
    return lambda module, *arguments: command(module.main, *arguments)


def contents(path: Path) -> list[bytes]:
    """All arrays of an n-gram file."""
    return [array.tobytes() for array in open_ngrams(path).ngrams[:7]]


def test_one_command_builds_both_files_from_one_stream(
    folder: Path, tokenizer: PreTrainedTokenizerFast, run: Callable[..., Result], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    out, suffixes = folder / "new" / "x.ngrams", folder / "x.suffixes"
    arguments = (f"corpus.path={folder}/rows.jsonl", f"tokenizer={folder}/tok", f"out={out}", f"suffixes={suffixes}")
    code, output, errors = run(command, "corpus=jsonl", *arguments, "order=4")
    assert (code, output) == (0, f"built {out} and {suffixes}\n"), errors
    assert "5 documents" in caplog.text
    assert "skipped 1: 1 no text" in caplog.text
    ngrams, stream = open_ngrams(out), open_suffixes(suffixes)
    assert ngrams.order == 4
    ids = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in TEXTS]
    assert stream.tokens.tolist() == [token for text in ids for token in [*text, stream.separator]]
    a, b, c = tokenizer("abc", add_special_tokens=False)["input_ids"]
    assert ngrams.successors(a, b)[0].tolist() == [c]
    facts = {"documents": "5", "prompts": "5", "tokens": str(sum(map(len, ids))), "skipped": "1", "corpus": "jsonl"}
    for file in (ngrams, stream):
        assert file.header.items() >= facts.items()
    assert sorted(os.listdir(folder)) == ["new", "rows.jsonl", "tok", "x.suffixes"]
    assert os.listdir(folder / "new") == ["x.ngrams"]


@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        ("corpus=jsonl corpus.path=rows.jsonl tokenizer=tok", "out"),
        ("corpus=jsonl corpus.path=rows.jsonl tokenizer=tok out=x order=0", "order"),
        ("corpus=jsonl corpus.path=rows.jsonl tokenizer=tok out=x order=6", "order"),
        ("corpus=jsonl corpus.path=rows.jsonl tokenizer=none out=x", "tokenizer"),
        ("corpus=jsonl corpus.path=none.jsonl tokenizer=tok out=x", "corpus.path"),
        ("corpus=jsonl corpus.path=empty.jsonl tokenizer=tok out=x", "corpus"),
        ("corpus=jsonl corpus.path=rows.jsonl tokenizer=tok out=rows.jsonl/x", "out"),
        ("corpus=jsonl corpus.path=rows.jsonl tokenizer=tok out=.", "out: . is a folder; name a file in it, as NAME"),
        ("corpus=jsonl corpus.path=rows.jsonl tokenizer=tok suffixes=..", "suffixes: .. is a folder"),
        ("corpus=jsonl corpus.path=rows.jsonl tokenizer=tok out=sub parts=2", "out: sub is a folder"),
        ("corpus=jsonl tokenizer=tok out=x", "corpus.path: must be given"),
        ("corpus=jsonl corpus.path=rows.jsonl out=x", "tokenizer: must be given"),
        ("corpus=nonesuch tokenizer=tok out=x", "corpus/nonesuch"),
        ("corpus=jsonl corpus.path=rows.jsonl tokenizer=tok out=5", "out: 5"),
        ("corpus=jsonl corpus.path=rows.jsonl tokenizer=tok out=x order=[3]", "order: [3]"),
        ("corpus=jsonl corpus.path=rows.jsonl corpus.skip=nan tokenizer=tok out=x", "corpus.skip: nan"),
        ("corpus=jsonl corpus.path=rows.jsonl tokenizer=tok out=x parts=0", "parts: 0 must be 1 or more"),
        (
            "corpus=jsonl corpus.path=rows.jsonl tokenizer=tok out=x suffixes=y parts=2",
            "parts: are parts of an n-gram",
        ),
        ("corpus=jsonl corpus.path=rows.jsonl tokenizer=tok parts=2", "parts: are parts of an n-gram file"),
        ("corpus=jsonl corpus.path=rows.jsonl tokenizer=tok out=x cluster=lsf", "cluster/lsf"),
        ("corpus=jsonl corpus.path=rows.jsonl tokenizer=tok out=x cluster.at_once=0", "cluster.at_once: 0"),
        ("corpus=jsonl corpus.path=none tokenizer=tok out=x parts=2 cluster=debug", "corpus.path: no file none"),
        ("corpus=text corpus.path=sub tokenizer=tok out=x", "corpus.path: no file sub"),
        ("corpus=text corpus.path=*.py tokenizer=tok out=x", "corpus.path: no file *.py"),
        ("corpus=text corpus.path=. tokenizer=tok out=sub/x", "out: sub/x belongs to corpus.path=."),
        ("corpus=text corpus.path=*.jsonl tokenizer=tok out=rows.jsonl", "out: rows.jsonl belongs to corpus.path="),
    ],
)
def test_bad_input_is_reported_in_one_line_and_builds_nothing(
    arguments: str, key: str, folder: Path, monkeypatch: pytest.MonkeyPatch, run: Callable[..., Result]
) -> None:
    (folder / "sub").mkdir()
    (folder / "empty.jsonl").write_text('{"text": " "}\n')
    before = sorted(os.listdir(folder))
    monkeypatch.chdir(folder)
    code, _, errors = run(command, *arguments.split())
    assert code == 2
    assert key in errors.strip().splitlines()[-1]
    assert sorted(os.listdir(folder)) == before


def test_parts_write_the_bytes_of_one_build(folder: Path, run: Callable[..., Result]) -> None:
    arguments = ("corpus=jsonl", f"corpus.path={folder}/rows.jsonl", f"tokenizer={folder}/tok")
    assert run(command, *arguments, f"out={folder}/one")[0] == 0
    code, output, errors = run(command, *arguments, f"out={folder}/x", "parts=4", "cluster=debug")
    assert (code, output) == (0, f"built {folder}/x\n"), errors
    assert (folder / "x").read_bytes() == (folder / "one").read_bytes()
    assert sorted(os.listdir(folder)) == ["one", "rows.jsonl", "tok", "x"]


def copied(path: Path) -> Path:
    """Another file of the same contents: the same part twice is no part of a corpus."""
    return Path(shutil.copy(path, path.with_name(f"{path.name} copy")))


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ("corpus.path=rows.jsonl tokenizer=tok out=x suffixes=x", "suffixes: x belongs to out=x too"),
        ("corpus.path=rows.jsonl tokenizer=tok out=x suffixes=tok/../x", "suffixes: tok/../x belongs to out=x too"),
        ("corpus.path=rows.jsonl tokenizer=tok out=rows.jsonl", "out: rows.jsonl belongs to corpus.path="),
        ("corpus.path=rows.jsonl tokenizer=tok out=linked", "out: linked belongs to corpus.path="),
        (
            "corpus.path=linked tokenizer=tok suffixes=rows.jsonl",
            "suffixes: rows.jsonl belongs to corpus.path=linked",
        ),
        ("corpus.path=rows.jsonl tokenizer=tok out=hard", "out: hard belongs to corpus.path="),
        ("corpus.path=rows.jsonl tokenizer=tok out=tok/tokenizer.json", "belongs to tokenizer=tok too"),
        ("corpus.path=rows.jsonl tokenizer=tok out=tok", "out: tok belongs to tokenizer=tok too"),
        (
            "corpus.path=rows.jsonl tokenizer=tok corpus.report=[prompts:asked] out=asked",
            "out: asked belongs to corpus.report=asked too",
        ),
        (
            "corpus.path=rows.jsonl tokenizer=tok corpus.exclude=[human_eval,prompts:asked] suffixes=./asked",
            "suffixes: asked belongs to corpus.exclude=asked too",
        ),
    ],
)
def test_a_build_writes_over_nothing_that_it_reads_or_writes(
    arguments: str, problem: str, folder: Path, monkeypatch: pytest.MonkeyPatch, run: Callable[..., Result]
) -> None:
    (folder / "asked").write_text('{"prompt": "one"}\n')
    (folder / "linked").symlink_to("rows.jsonl")
    (folder / "hard").hardlink_to(folder / "rows.jsonl")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    monkeypatch.chdir(folder)
    code, output, errors = run(command, "corpus=jsonl", *arguments.split())
    assert (code, output, errors.count("\n")) == (2, "", 1)
    assert problem in errors
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ("out=b a a", "inputs: a belongs to inputs=a too"),
        ("out=b a linked", "inputs: linked belongs to inputs=a too"),
        ("out=b hard linked", "inputs: linked belongs to inputs=hard too"),
        ("out=a a", "out: a belongs to inputs=a too"),
        ("out=linked a", "out: linked belongs to inputs=a too"),
    ],
)
def test_a_merge_takes_no_file_twice(
    arguments: str,
    problem: str,
    tokenizer: PreTrainedTokenizerFast,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    run: Callable[..., Result],
) -> None:
    build(Texts(*TEXTS), tokenizer, out=tmp_path / "a")
    (tmp_path / "linked").symlink_to("a")
    (tmp_path / "hard").hardlink_to(tmp_path / "a")
    before = (tmp_path / "a").read_bytes()
    monkeypatch.chdir(tmp_path)
    code, output, errors = run(merge, *arguments.split())
    assert (code, output, errors.count("\n")) == (2, "", 1)
    assert errors.startswith(problem)
    assert sorted(os.listdir(tmp_path)) == ["a", "hard", "linked"]
    assert (tmp_path / "a").read_bytes() == before


def test_merged_parts_equal_the_whole(tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    parts = [TEXTS[:2], TEXTS[2:3], TEXTS[3:]]
    build(Texts(*TEXTS), tokenizer, out=tmp_path / "whole")
    paths = [tmp_path / str(number) for number in range(len(parts))]
    for path, texts in zip(paths, parts, strict=True):
        build(Texts(*texts), tokenizer, out=path)
    merge.merge(tmp_path / "merged", paths)
    merge.merge(tmp_path / "pair", paths[:2])
    merge.merge(tmp_path / "in rounds", [tmp_path / "pair", paths[2]])
    merged, whole, rounds = ((tmp_path / name).read_bytes() for name in ("merged", "whole", "in rounds"))
    assert merged == whole == rounds


def test_orders_that_no_document_is_long_enough_for_are_empty(
    tokenizer: PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    build(Texts("ab", "a"), tokenizer, out=tmp_path / "a", order=3)
    merge.merge(tmp_path / "b", [tmp_path / "a", copied(tmp_path / "a")])
    for name, times in (("a", [1]), ("b", [2])):
        opened = open_ngrams(tmp_path / name)
        assert opened.times(opened.level(2)).tolist() == times
        assert len(opened.level(3)) == 0


def test_merging_reads_its_inputs_in_parts(
    tokenizer: PreTrainedTokenizerFast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(Texts(*TEXTS), tokenizer, out=tmp_path / "one")
    build(Texts(*TEXTS, *TEXTS), tokenizer, out=tmp_path / "twice")
    monkeypatch.setattr("datastore.ngrams.WINDOWS", 3)
    merge.merge(tmp_path / "merged", [tmp_path / "one", copied(tmp_path / "one")])
    assert contents(tmp_path / "merged") == contents(tmp_path / "twice")


def test_files_that_do_not_fit_together_are_not_merged(tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    build(Texts(*TEXTS), tokenizer, out=tmp_path / "a", order=3)
    build(Texts(*TEXTS), tokenizer, out=tmp_path / "b")
    build(Texts(*TEXTS), tiny_tokenizer(["é"]), out=tmp_path / "c", order=3)
    for other, message in (("b", "merge files of one kind"), ("c", "was built with the tokenizer"), ("d", "no file")):
        with pytest.raises(BadInput, match=message):
            merge.merge(tmp_path / "out", [tmp_path / "a", tmp_path / other])
    assert sorted(os.listdir(tmp_path)) == ["a", "b", "c"]


def test_a_crafted_file_is_not_merged(tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    """Its checksums are right; two of its nodes have changed places."""
    build(Texts(*TEXTS), tokenizer, out=tmp_path / "a", order=3)
    file = open_ngrams(tmp_path / "a")
    token, header = file.ngrams.token.copy(), {key: file.header[key] for key in ("tokenizer", "vocabulary")}
    token[[0, 1]] = token[[1, 0]]
    crafted = replace(file, ngrams=file.ngrams._replace(token=token))
    write_ngrams(tmp_path / "crafted", crafted, header, file.prompts)
    with pytest.raises(BadInput, match=r"crafted is damaged \(node 0 is out of order\); build it again"):
        merge.merge(tmp_path / "out", [tmp_path / "a", tmp_path / "crafted"])
    assert sorted(os.listdir(tmp_path)) == ["a", "crafted"]


def test_merge_and_info_have_command_lines(
    folder: Path, tokenizer: PreTrainedTokenizerFast, run: Callable[..., Result]
) -> None:
    build(Texts(*TEXTS), tokenizer, out=folder / "a", order=3)
    assert run(merge, f"out={folder}/m", f"{folder}/a", str(copied(folder / "a")))[:2] == (0, f"built {folder}/m\n")
    code, output, _ = run(info, f"{folder}/m", f"tokenizer={folder}/tok", "top=1")
    assert code == 0
    assert ["documents", "10"] in [line.split() for line in output.splitlines()]
    assert output.splitlines()[-1].split(maxsplit=1) == ["8", "'he '"]
    assert run(info, f"{folder}/m", "--tokenizer", f"{folder}/tok", "--top", "1") == (0, output, "")


@pytest.mark.parametrize(
    ("module", "arguments", "key"),
    [
        (info, "", "FILE"),
        (info, "a b", "FILE"),
        (info, "none", "datastore.path"),
        (info, "x top=0", "top"),
        (info, "x top=many", "top"),
        (info, "x tokeniser=y", "tokeniser"),
        (merge, "", "out"),
        (merge, "a", "out"),
        (merge, "a out=", "out"),
        (merge, "a out=tok", "out"),
        (merge, "a out=.", "out"),
        (merge, "out=b", "inputs"),
        (merge, "out=b rows.jsonl", "datastore.path"),
        (merge, "out=b a into=c", "into"),
    ],
)
def test_bad_input_of_merge_and_info_is_one_line_that_names_the_key(
    module: ModuleType,
    arguments: str,
    key: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    run: Callable[..., Result],
) -> None:
    monkeypatch.chdir(folder)
    code, output, errors = run(module, *arguments.split())
    assert (code, output, errors.count("\n")) == (2, "", 1)
    assert errors.startswith(f"{key}: ")


@pytest.mark.parametrize(("module", "work"), [(info, "describe"), (merge, "merge")])
def test_an_interrupted_command_ends_with_code_130(
    module: ModuleType, work: str, monkeypatch: pytest.MonkeyPatch, run: Callable[..., Result]
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, work, interrupt)
    code, _, errors = run(module, "a", *(["out=b"] if module is merge else []))
    assert (code, errors.count("\n")) == (130, 1)


def test_info_prints_the_most_frequent_entries_first(tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    build(Texts("aab", "aac"), tokenizer, out=tmp_path / "a", suffixes=tmp_path / "s", order=2)
    a, b, c = tokenizer("abc", add_special_tokens=False)["input_ids"]
    lines = [line.split() for line in info.describe(tmp_path / "a", None, 2).splitlines()]
    at = lines.index(["4", str(a)])
    assert lines[at + 1] == ["1", str(b)]
    assert [["2", str(a), str(a)], ["1", str(a), str(b)]] == lines[-2:]
    lines = [line.split() for line in info.describe(tmp_path / "s", None, 9).splitlines()]
    assert lines[-3:] == [["4", str(a)], ["1", str(b)], ["1", str(c)]]
    tiny_tokenizer(["é"]).save_pretrained(tmp_path / "other")
    with pytest.raises(BadInput, match="was built with the tokenizer"):
        info.describe(tmp_path / "a", str(tmp_path / "other"), 2)


def test_info_refuses_a_damaged_file(tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    build(Texts(*TEXTS), tokenizer, out=tmp_path / "a", suffixes=tmp_path / "s")
    for name in ("a", "s"):
        whole = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(whole[:-40] + bytes([whole[-40] ^ 1]) + whole[-39:])
        with pytest.raises(BadInput, match=f"{name} is .*damaged"):
            info.describe(tmp_path / name, None, 2, verify=True)


SLOW_BUILD = """
import sys, time
from pathlib import Path
sys.path.insert(0, "tests")
from texts import TEXTS, Texts
from tiny import tiny_tokenizer
from datastore import builder
from datastore.corpora.corpus import Conversation, Corpus

class Endless(Corpus):
    def conversations(self):
        yield Conversation(["ab"], 0)
        Path(sys.argv[2]).touch()
        time.sleep(60)

builder.build(Endless("endless"), tiny_tokenizer(), out=Path(sys.argv[1]))
"""


def building(out: Path, code: str) -> BaseProcess:
    """A process that is in the middle of building `out`."""
    reading = out.parent.with_name(out.parent.name + "-reading")
    child = forked.start(["-c", code, str(out), str(reading)], cwd=REPOSITORY)
    while not reading.exists():
        assert child.is_alive()
        time.sleep(0.01)
    return child


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_an_interrupted_build_leaves_no_file_and_the_next_starts_clean(
    how: signal.Signals, tokenizer: PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    out = tmp_path / "x.ngrams"
    child = building(out, SLOW_BUILD)
    assert child.pid
    os.kill(child.pid, how)
    child.join()
    assert child.exitcode != 0
    left = os.listdir(tmp_path)
    assert left == ([".x.ngrams.building"] if how == signal.SIGKILL else [])
    if how == signal.SIGKILL:  # it could as well have been writing the file
        (tmp_path / f".x.ngrams.{child.pid}.partial").touch()
        (tmp_path / f".x.suffixes.{child.pid}.partial").touch()
    build(Texts(*TEXTS), tokenizer, out=out, suffixes=tmp_path / "x.suffixes")
    build(Texts(*TEXTS), tokenizer, out=tmp_path / "y")
    assert sorted(os.listdir(tmp_path)) == ["x.ngrams", "x.suffixes", "y"]
    assert contents(out) == contents(tmp_path / "y")


@pytest.mark.parametrize(
    "stage", ["datastore.builder.tokenise", "datastore.counting.growing_trie.GrowingTrie.append", "os.fsync"]
)
def test_a_full_disk_is_reported_and_leaves_nothing(
    stage: str, tokenizer: PreTrainedTokenizerFast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(stage, full)
    with pytest.raises(BadInput, match=r"^out: .*x.ngrams cannot be written \(No space left on device\)"):
        build(Texts(*TEXTS), tokenizer, out=tmp_path / "x.ngrams")
    assert os.listdir(tmp_path) == []


def test_two_builds_of_one_file_wait_for_each_other(tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    out = tmp_path / "x.ngrams"
    child = building(out, SLOW_BUILD.replace("time.sleep(60)", "time.sleep(1)"))
    start = time.perf_counter()
    build(Texts(*TEXTS), tokenizer, out=out)
    assert time.perf_counter() - start > 0.5
    child.join()
    assert child.exitcode == 0
    assert open_ngrams(out).header["corpus"] == "texts"
    assert os.listdir(tmp_path) == ["x.ngrams"]


def test_building_twice_writes_the_same_bytes(tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    for name in ("a", "b"):
        build(Texts(*TEXTS), tokenizer, out=tmp_path / name, suffixes=tmp_path / f"{name}.suffixes", order=3)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert np.array_equal(
        open_suffixes(tmp_path / "a.suffixes").tokens, open_suffixes(tmp_path / "b.suffixes").tokens
    )
