"""A run is what its settings and the contents of its files say, from the command line; its config is plain data."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from answer_lines import TEXTS, replay_of, write_replay
from shell import Shell
from small_ngrams import write_small_ngrams
from tiny import tiny_tokenizer

from aded.config.command_line import compose_config, plain
from aded.records.config import LARGEST, fingerprints, read_config
from aded.records.finished_runs import read_run


@pytest.fixture
def place(tmp_path: Path, folder: Path) -> Path:
    """Everything that a run may read: a model with its tokenizer, n-grams, questions and recorded answers."""
    place = tmp_path / "place"
    shutil.copytree(folder, place / "model")
    write_small_ngrams(place / "tiny.ngrams", TEXTS, 128, 3, tiny_tokenizer())
    write_replay(place, [[text] for text in TEXTS])
    return place


def recorded(place: Path) -> list[str]:
    files = [f"model.tokenizer={place / 'model'}", f"datastore.path={place / 'tiny.ngrams'}"]
    return [*replay_of(place), *files, "method=aded"]


def check_refused(shell: Shell, run: Sequence[str], problem: str) -> None:
    """The run does not go on, and its rows stay."""
    kept = (shell.out / "rows.jsonl").read_text()
    code, output, errors = shell(*run)
    assert (code, output, errors.count("\n")) == (2, "", 1)
    assert errors.startswith(f"output_dir: {shell.out} ")
    assert problem in errors
    assert (shell.out / "rows.jsonl").read_text() == kept


def test_a_run_does_not_go_on_with_another_file_but_does_when_its_files_were_moved(shell: Shell, place: Path) -> None:
    """Half the rows of one file and half of another's are a result of neither, and a finished run is of the first."""
    run, answers = recorded(place), place / "answers.jsonl"
    named = {"model.answers", "model.tokenizer", "benchmark.question_file", "datastore.path"}
    assert fingerprints(plain(compose_config(run))).keys() == named
    assert shell(*run)[0] == 0
    assert "benchmark.order" not in read_run(shell.out).config, "it asks all, as ever"
    whole, summary, before = shell.rows(), shell.summary(), answers.read_text()
    answers.write_text(before.replace("at", "og"))
    check_refused(shell, run, f" model.answers ({answers})")
    (shell.out / "rows.jsonl").write_text(json.dumps(whole[0]) + "\n")
    (shell.out / "summary.json").unlink()
    check_refused(shell, run, f" model.answers ({answers})")
    answers.write_text(before)
    place = place.rename(place.with_name("elsewhere"))
    (place / "answers.jsonl").rename(place / "renamed.jsonl")
    moved = [word.replace("answers.jsonl", "renamed.jsonl") for word in recorded(place)]
    assert shell(*moved)[0] == 0
    assert (shell.rows()[0], shell.summary()["run_id"]) == (whole[0], summary["run_id"])
    assert read_run(shell.out).config["model.answers"] == str(place / "renamed.jsonl")


def test_a_run_does_not_go_on_with_other_code_of_ones_own_drafter(
    shell: Shell, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(place)
    file, code = place / "mine_here.py", "from baselines.tokens.prompt_lookup import PromptLookup as Mine\n"
    file.write_text(code)
    others = [word for word in recorded(place) if not word.startswith(("method=", "datastore"))]
    run = [*others, "method=custom", "method._target_=mine_here.Mine"]
    assert shell(*run)[0] == 0
    file.write_text(code + "Mine.budget = 3\n")
    check_refused(shell, run, "method._target_ (mine_here.Mine) has changed")


def test_an_order_counts_where_it_chooses_other_questions(shell: Shell, place: Path) -> None:
    """A record from before there was an order has the first questions, and no such key."""
    limited = [*recorded(place), "benchmark.limit=2"]
    file = place / "questions.jsonl"
    file.write_text(file.read_text().replace("cats", "dogs", 2))
    for order, asked in (("first", ["0", "1"]), ("in_turn", ["0", "2"])):
        shell.out = shell.out.with_name(order)
        assert shell(*limited, f"benchmark.order={order}")[0] == 0
        run = read_run(shell.out)
        assert [row.question_id for row in run.rows] == asked
        assert run.config.get("benchmark.order", "first") == order
        assert ("benchmark.order" in run.config) == (order == "in_turn")
    shell.out = shell.out.with_name("first")
    check_refused(shell, limited, "benchmark.order was first and is in_turn")


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


def test_what_could_be_resolved_stays_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", "secret")
    (tmp_path / "config.yaml").write_text('a: ${oc.env:API_KEY}\nb: {c: "m${a}", d: [1.0e-05, no, ~]}\n')
    config = {"a": "${oc.env:API_KEY}", "b": {"c": "m${a}", "d": [1e-5, False, None]}}
    assert read_config(tmp_path / "config.yaml") == config


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [1, 1]\nb: &b [*a, *a]\n",
        "a: !!python/object/apply:os.getcwd []\n",
        "a: " + "1:" * 100_000 + "1\n",
        "a: 1" + "0" * 400 + "\n",
        "a: 0x" + "f" * 100_000 + "\n",
        "[" * 100_000,
        "- " * 100_000,
        "a: " + "x" * LARGEST,
        "a: 2020-01-01\n",
        "? [1]\n: 2\n",
        "a: 1\n---\nb: 2\n",
        "a: \0\n",
        "[1]\n",
        "",
    ],
)
def test_what_no_config_has_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    with pytest.raises(ValueError, match=rf"^{path}: no config[^\n]*$"):
        read_config(path)
