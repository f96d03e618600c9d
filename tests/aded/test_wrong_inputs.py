"""Ten wrong inputs that a new user gives on the first day: each ends in one line that names the key."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import tiny_model, tiny_tokenizer

import aded
from aded import run
from aded.config.command_line import ending_in_one_line
from aded.identity import tokenizer_fingerprint
from datastore import fetch
from datastore.ngrams import count_ngrams, write_ngrams
from datastore.suffix_array import with_separators, write_suffixes
from scripts import tables

SOURCE = "mt_bench_questions"
USUAL = (
    "model=tiny method=aded datastore.path=right.ngrams output_dir=new benchmark.limit=1 benchmark.max_new_tokens=4 "
    "pairing=off progress=false"
)


@pytest.fixture
def place(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a user works: a model, datastores of three kinds, a folder without weights, and a record."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    monkeypatch.setenv("ADED_CACHE", str(tmp_path / "cache"))
    shutil.copytree(folder, tmp_path / "tiny")
    tiny_tokenizer().save_pretrained(tmp_path / "no_weights")
    tokens = torch.arange(9).numpy()
    for name, tokenizer in (("right", tokenizer_fingerprint(tiny_tokenizer())), ("other", "f" * 32)):
        header = {"tokenizer": tokenizer, "vocabulary": "128"}
        write_ngrams(tmp_path / f"{name}.ngrams", count_ngrams([tokens], 3, 128), header)
        write_suffixes(tmp_path / f"{name}.suffixes", with_separators([tokens], 128), header)
    return tmp_path


def two_prompts() -> None:
    with ending_in_one_line(""):
        generate = aded.drafter("prompt_lookup").generate
        model: Any = tiny_model("llama")
        model.generate(torch.ones(2, 4, dtype=torch.long), custom_generate=generate, max_new_tokens=4)


A_RUN, FETCH, TABLES = run.main, fetch.main, tables.main
WRONG = {
    "another tokenizer's file": (A_RUN, "datastore.path=other.ngrams", "datastore.path: other.ngrams .*tokenizer"),
    "a suffix file": (A_RUN, "datastore.path=right.suffixes", "datastore.path: right.suffixes is a suffix file"),
    "no weights": (A_RUN, "model=no_weights", "model.path: no_weights "),
    "a huge budget": (A_RUN, "method.budget=1000000", "method.budget: 1000000 must be 65536 or less"),
    "a missing library": (A_RUN, "logger=wandb", "logger: wandb is not installed; pip install"),
    "another run's folder": (A_RUN, "method.budget=3 output_dir=taken", "output_dir: taken .*method.budget was 64 "),
    "no place for files": (A_RUN, "output_dir=/proc/nope", "output_dir: /proc/nope .*takes no files.*another place"),
    "an unreachable source": (
        FETCH,
        f"{SOURCE} source.out=out source.mirror=http://127.0.0.1:9",
        f"{SOURCE}: http://127.0.0.1:9/.*source.mirror",
    ),
    "outputs that were moved": (TABLES, "moved", ".*moved"),
    "a batch of two": (two_prompts, "", "custom_generate: one .* 2$"),
}


@pytest.mark.parametrize(("command", "arguments", "line"), WRONG.values(), ids=WRONG.keys())
def test_a_wrong_input_ends_in_one_line(
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    command: Callable[[], None],
    arguments: str,
    line: str,
) -> None:
    given = {word.partition("=")[0]: word for word in arguments.split()}
    if command is run.main:
        given = {word.partition("=")[0]: word for word in USUAL.split()} | given
    monkeypatch.setitem(sys.modules, "wandb", None)
    if "output_dir=taken" in arguments:
        monkeypatch.setattr(sys, "argv", ["command", *USUAL.replace("=new", "=taken").split()])
        run.main()
    monkeypatch.setattr(sys, "argv", ["command", *given.values()])
    capfd.readouterr()
    with pytest.raises(SystemExit) as stop:
        command()
    lines = capfd.readouterr().err.splitlines()
    assert stop.value.code == (1 if command is FETCH else 2)
    assert [one for one in lines if re.match(line, one)], lines
    assert len(lines) == (2 if command is FETCH else 1), "of several sources, how many failed comes last"
    assert not (place / "new").exists(), "a record that was not begun"
