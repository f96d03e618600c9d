"""A run is what its settings and the contents of its files say, from the command line."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from shell import Shell
from tiny import tiny_tokenizer

from aded.config.command_line import compose_config, plain
from aded.identity import tokenizer_fingerprint
from aded.records.config import fingerprints
from aded.records.finished_runs import read_run
from datastore.ngrams import count_ngrams, write_ngrams

VOCABULARY = 128
TEXTS = ["the cat sat on the mat", "the rat sat on the hat", "a cat and a rat and a hat"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Path:
    """Everything that a run may read: a model with its tokenizer, n-grams, questions and recorded answers."""
    place = tmp_path_factory.mktemp("made")
    shutil.copytree(folder, place / "model")
    write_datastore(place / "tiny.ngrams", TEXTS)
    answers = [{"question_id": n, "choices": [{"index": 0, "turns": [text]}]} for n, text in enumerate(TEXTS)]
    questions = [{"question_id": n, "category": "cats", "turns": [f"what {n}?"]} for n in range(len(TEXTS))]
    for name, rows in (("answers", answers), ("questions", questions)):
        (place / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return place


def write_datastore(path: Path, texts: Sequence[str]) -> None:
    ids = [np.array(tiny_tokenizer()(text)["input_ids"]) for text in texts]
    header = {"tokenizer": tokenizer_fingerprint(tiny_tokenizer()), "vocabulary": str(VOCABULARY)}
    write_ngrams(path, count_ngrams(ids, 3, VOCABULARY), header)


@pytest.fixture
def place(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "place"))


def recorded(place: Path) -> list[str]:
    return [
        "model=recorded",
        "model/template=chat",
        f"model.answers={place / 'answers.jsonl'}",
        f"model.tokenizer={place / 'model'}",
        "benchmark=alpaca",
        f"benchmark.question_file={place / 'questions.jsonl'}",
        "method=aded",
        f"datastore.path={place / 'tiny.ngrams'}",
    ]


def replace(place: Path, key: str) -> None:
    """Put other contents at the path that `key` names."""
    if key == "datastore.path":
        write_datastore(place / "tiny.ngrams", TEXTS[:1])
    elif key in ("model.path", "model.tokenizer"):
        file = place / "model" / "tokenizer_config.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), "model_max_length": 77}))
    else:
        file = place / ("answers.jsonl" if key == "model.answers" else "questions.jsonl")
        file.write_text(file.read_text().replace("at", "og"))


def check_refused(shell: Shell, place: Path, run: Sequence[str], key: str) -> None:
    """The run does not go on when the file of `key` is another one, and its rows stay."""
    kept = (shell.out / "rows.jsonl").read_text()
    replace(place, key)
    code, output, errors = shell(*run)
    assert (code, output, errors.count("\n")) == (2, "", 1)
    assert errors.startswith(f"output_dir: {shell.out} ")
    assert f" {key} ({place}" in errors
    assert (shell.out / "rows.jsonl").read_text() == kept


def test_a_run_does_not_go_on_with_another_file_but_does_when_its_files_were_moved(
    shell: Shell, made: Path, place: Path
) -> None:
    """Half the rows of one file and half of another's are a result of neither, and a finished run is of the first."""
    run = recorded(place)
    assert shell(*run)[0] == 0
    whole, summary = shell.rows(), shell.summary()
    for finished in (True, False):
        if not finished:
            (shell.out / "rows.jsonl").write_text(json.dumps(whole[0]) + "\n")
            (shell.out / "summary.json").unlink()
        for key in ("model.answers", "model.tokenizer", "benchmark.question_file", "datastore.path"):
            check_refused(shell, place, run, key)
            shutil.copytree(made, place, dirs_exist_ok=True)
    place = place.rename(place.with_name("elsewhere"))
    (place / "answers.jsonl").rename(place / "renamed.jsonl")
    moved = [word.replace("answers.jsonl", "renamed.jsonl") for word in recorded(place)]
    assert shell(*moved)[0] == 0
    assert (shell.rows()[0], shell.summary()["run_id"]) == (whole[0], summary["run_id"])
    assert read_run(shell.out).config["model.answers"] == str(place / "renamed.jsonl")
    replace(place, "benchmark.question_file")
    code, output, _ = shell(*moved, f"paths.output={place / 'runs'}", "output_dir=null")
    assert (code, Path(output.split()[-1]) == shell.out) == (0, False)


def test_a_run_does_not_go_on_with_another_model(shell: Shell, place: Path) -> None:
    run = [f"model={place / 'model'}", "method=autoregressive", "benchmark.limit=1", "benchmark.max_new_tokens=4"]
    for _ in range(2):
        assert shell(*run)[0] == 0
    check_refused(shell, place, run, "model.path")


def test_a_run_does_not_go_on_with_other_code_of_ones_own_drafter(
    shell: Shell, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Our own code, as the method's, the benchmark's and that of the builder of datastores, counts by its version."""
    assert not [key for key in fingerprints(plain(compose_config(["method=aded"]))) if key.endswith("_target_")]
    monkeypatch.syspath_prepend(place)
    file, code = place / "mine_here.py", "from baselines.tokens.prompt_lookup import PromptLookup as Mine\n"
    file.write_text(code)
    others = [word for word in recorded(place) if not word.startswith(("method=", "datastore"))]
    run = [*others, "method=custom", "method._target_=mine_here.Mine"]
    assert shell(*run)[0] == 0
    file.write_text(code + "Mine.budget = 3\n")
    code_now, _, errors = shell(*run)
    assert code_now == 2
    assert "method._target_ (mine_here.Mine) has changed" in errors


def test_an_order_counts_where_it_chooses_other_questions(shell: Shell, place: Path) -> None:
    """A record from before there was an order has the first questions, and no such key."""
    limited = [*recorded(place), "benchmark.limit=2"]
    assert shell(*limited)[0] == 0
    assert "benchmark.order" not in read_run(shell.out).config
    file = place / "questions.jsonl"
    file.write_text(file.read_text().replace("cats", "dogs", 2))
    shell.out = shell.out.with_name("first")
    assert shell(*limited, "benchmark.order=first")[0] == 0
    first = read_run(shell.out)
    assert [row.question_id for row in first.rows] == ["0", "1"]
    assert "benchmark.order" not in first.config
    code, _, errors = shell(*limited)
    assert (code, errors.count("\n")) == (2, 1)
    assert "benchmark.order was first and is in_turn" in errors
    shell.out = shell.out.with_name("in_turn")
    assert shell(*limited)[0] == 0
    in_turn = read_run(shell.out)
    assert [row.question_id for row in in_turn.rows] == ["0", "2"]
    assert in_turn.config["benchmark.order"] == "in_turn"


def test_a_refused_run_leaves_no_trace_and_the_corrected_command_runs(shell: Shell, place: Path) -> None:
    before = sorted(shell.out.parent.rglob("*"))
    # The first is refused when the drafter is built.
    for wrong in ("method.order=4", "model.answers=none", "datastore.path=none", "decoding.seed=x"):
        key = wrong.split("=")[0]
        code, _, errors = shell(*(word for word in recorded(place) if not word.startswith(key)), wrong)
        assert (code, errors.count("\n")) == (2, 1), errors
        assert sorted(shell.out.parent.rglob("*")) == before, wrong
    assert shell(*recorded(place))[0] == 0


def test_only_settings_that_name_files_have_fingerprints(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    (place / "aded").write_text("a file that bears a method's name")
    config = {
        "model": {"name": "model", "path": "model", "revision": None, "dtype": "float32"},
        "method": {"name": "aded", "_target_": "aded", "budget": 3, "parts": {"table": "tiny.ngrams"}},
        "datastore": {"path": None, "corpus": {"separator": "."}},
        "benchmark": {"name": "x", "stop_strings": ["answers.jsonl"], "text": "", "home": "~nobody\0"},
        "output_dir": "questions.jsonl",
    }
    assert fingerprints(config).keys() == {"model.path", "method.parts.table"}
    config["datastore"] = {"corpus": {"path": "model"}}
    of_corpus = fingerprints(config)["datastore.corpus.path"]
    (place / "model" / "new.bin").write_text("new")
    (place / "model" / "notes.md").write_text("new")
    assert fingerprints(config)["datastore.corpus.path"] not in (of_corpus, fingerprints(config)["model.path"])
    there = fingerprints({"model": {"answers": str(place / "tiny.ngrams")}})
    assert there["model.answers"] == fingerprints(config)["method.parts.table"]
