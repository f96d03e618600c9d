"""Merged n-gram files are those of one build."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from command import Command
from texts import TEXTS, Texts
from tiny import tiny_tokenizer
from transformers import PreTrainedTokenizerFast

from aded.errors import BadInput
from aded.files.datastores.ngram_file import open_ngrams
from datastore.builder import build
from datastore.merge import main, merge
from datastore.ngrams import write_ngrams


def copied(path: Path) -> Path:
    """Another file of the same contents: the same part twice is no part of a corpus."""
    return Path(shutil.copy(path, path.with_name(f"{path.name} copy")))


def test_merged_parts_equal_the_whole(tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    build(Texts(*TEXTS), tokenizer, out=tmp_path / "whole")
    paths = [tmp_path / str(number) for number in range(3)]
    for path, texts in zip(paths, (TEXTS[:2], TEXTS[2:3], TEXTS[3:]), strict=True):
        build(Texts(*texts), tokenizer, out=path)
    merge(tmp_path / "merged", paths)
    merge(tmp_path / "pair", paths[:2])
    merge(tmp_path / "in rounds", [tmp_path / "pair", paths[2]])
    merged, whole, rounds = ((tmp_path / name).read_bytes() for name in ("merged", "whole", "in rounds"))
    assert merged == whole == rounds


def test_merging_reads_its_inputs_in_parts(
    tokenizer: PreTrainedTokenizerFast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where one token begins more windows than are in memory; and orders that no document is long enough for."""
    for texts in (TEXTS, ["ab", "a"]):
        build(Texts(*texts), tokenizer, out=tmp_path / "one")
        build(Texts(*texts, *texts), tokenizer, out=tmp_path / "twice")
        with monkeypatch.context() as patch:
            patch.setattr("datastore.ngrams.WINDOWS", 3)
            merge(tmp_path / "merged", [tmp_path / "one", copied(tmp_path / "one")])
        merged, twice = (open_ngrams(tmp_path / name) for name in ("merged", "twice"))
        for mine, other in zip(merged.ngrams[:7], twice.ngrams[:7], strict=True):
            assert mine.tobytes() == other.tobytes()


def test_files_that_do_not_fit_together_are_not_merged(tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    build(Texts(*TEXTS), tokenizer, out=tmp_path / "a", order=3)
    build(Texts(*TEXTS), tokenizer, out=tmp_path / "b")
    build(Texts(*TEXTS), tiny_tokenizer(["é"]), out=tmp_path / "c", order=3)
    file = open_ngrams(tmp_path / "a")
    header = {key: file.header[key] for key in ("tokenizer", "vocabulary")}
    write_ngrams(tmp_path / "no prompts", file, header)
    token = file.ngrams.token.copy()  # its checksums are right; two of its nodes have changed places
    token[[0, 1]] = token[[1, 0]]
    crafted = replace(file, ngrams=file.ngrams._replace(token=token))
    write_ngrams(tmp_path / "crafted", crafted, header, file.prompts)
    before = sorted(os.listdir(tmp_path))
    for other, message in (
        ("b", "merge files of one kind"),
        ("c", "was built with the tokenizer"),
        ("none", "no file"),
        ("no prompts", "does not know its prompts"),
        ("crafted", r"crafted is damaged \(node 0 is out of order\)"),
    ):
        with pytest.raises(BadInput, match=message):
            merge(tmp_path / "out", [tmp_path / "a", tmp_path / other])
    assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        ("a", "out"),
        ("a out=.", "out"),
        ("out=b", "inputs"),
        ("out=b other", "datastore.path"),
        ("out=b a into=c", "into"),
        ("out=b a linked", "inputs"),  # no file twice
        ("out=b hard linked", "inputs"),
        ("out=linked a", "out"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(
    arguments: str,
    key: str,
    tokenizer: PreTrainedTokenizerFast,
    tmp_path: Path,
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    build(Texts(*TEXTS), tokenizer, out=tmp_path / "a")
    (tmp_path / "other").write_text("no datastore")
    (tmp_path / "linked").symlink_to("a")
    (tmp_path / "hard").hardlink_to(tmp_path / "a")
    monkeypatch.chdir(tmp_path)
    assert command.refusal(main, *arguments.split()).startswith(f"{key}: ")
    assert sorted(os.listdir()) == ["a", "hard", "linked", "other"]


def test_a_file_merged_alone_is_the_same(
    tokenizer: PreTrainedTokenizerFast, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(Texts(*TEXTS), tokenizer, out=tmp_path / "a")
    monkeypatch.chdir(tmp_path)
    assert command(main, "out=m", "a").out == "built m\n"
    assert Path("m").read_bytes() == Path("a").read_bytes()
