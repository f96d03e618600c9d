"""What is printed of a datastore file."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import Command
from texts import TEXTS, Texts
from tiny import tiny_tokenizer
from transformers import PreTrainedTokenizerFast

from datastore.builder import build
from datastore.info import describe, main


def test_the_most_frequent_entries_come_first(tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    build(Texts("aab", "aac"), tokenizer, out=tmp_path / "a", suffixes=tmp_path / "s", order=2)
    a, b, c = tokenizer("abc", add_special_tokens=False)["input_ids"]
    lines = [line.split() for line in describe(tmp_path / "a", None, 2).splitlines()]
    assert lines[lines.index(["4", str(a)]) + 1] == ["1", str(b)]
    assert [["2", str(a), str(a)], ["1", str(a), str(b)]] == lines[-2:]
    lines = [line.split() for line in describe(tmp_path / "s", None, 9).splitlines()]
    assert lines[-3:] == [["4", str(a)], ["1", str(b)], ["1", str(c)]]


def test_the_command(
    tokenizer: PreTrainedTokenizerFast, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer.save_pretrained(tmp_path / "tok")
    tiny_tokenizer(["é"]).save_pretrained(tmp_path / "other")
    build(Texts(*TEXTS, *TEXTS), tokenizer, out=tmp_path / "a", suffixes=tmp_path / "s", order=3)
    monkeypatch.chdir(tmp_path)
    lines = command(main, "a", "tokenizer=tok", "top=1", "--verify").out.splitlines()
    assert ["documents", "10"] in [line.split() for line in lines]
    assert lines[-1].split(maxsplit=1) == ["8", "'he '"]
    for arguments, key in (
        ("", "FILE"),
        ("a s", "FILE"),
        ("none", "datastore.path"),
        ("a top=0", "top"),
        ("a tokeniser=y", "tokeniser"),
        ("a tokenizer=other", "datastore.path"),
    ):
        assert command.refusal(main, *arguments.split()).startswith(f"{key}: ")


@pytest.mark.parametrize("name", ["a", "s"])
def test_a_damaged_file_is_refused(
    name: str, tokenizer: PreTrainedTokenizerFast, tmp_path: Path, command: Command
) -> None:
    build(Texts(*TEXTS), tokenizer, out=tmp_path / "a", suffixes=tmp_path / "s")
    whole = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(whole[:-40] + bytes([whole[-40] ^ 1]) + whole[-39:])
    assert "damaged" in command.refusal(main, str(tmp_path / name), "--verify")


def test_a_lookup_file_says_how_well_it_predicts(tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    texts = [f"the cat number {n} sat on the mat of the dog number {n * n}" for n in range(200)]
    build(Texts(*texts), tokenizer, lookup=tmp_path / "l")
    facts = dict(line.split(maxsplit=1) for line in describe(tmp_path / "l", None, 9).splitlines()[1:-1])
    assert 0 < float(facts["nats"]) < 10
    assert facts["documents"] == "200"
