"""One command from recorded answers to tables and plots, on answers and a corpus of our own."""

from __future__ import annotations

import json
from pathlib import Path

import forked
import pytest
from hydra import compose, initialize_config_dir
from tiny import tiny_tokenizer

from aded.command_line import CONF
from aded.errors import BadInput
from scripts import recorded_results
from scripts.recorded_results import ABLATIONS, TABLE_1, main, read_command_line

TEXTS = ["the cat sat on the mat", "the rat sat on the hat", "a cat and a rat and a hat", "on the mat the cat sat"]


@pytest.fixture
def words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The command line for two answer files of one benchmark, one of them short, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    tiny_tokenizer().save_pretrained("tokenizer")
    place = Path("answers/alpaca")
    place.mkdir(parents=True)
    files = {
        "question": [{"question_id": n, "category": "cats", "turns": [f"what {n}?"]} for n in range(3)],
        "vicuna-7b": [{"question_id": n, "choices": [{"index": 0, "turns": [TEXTS[n]]}]} for n in range(3)],
        "llama-2-7b-chat": [
            {"question_id": n, "choices": [{"index": 0, "turns": [" ".join(TEXTS)]}]} for n in range(3)
        ],
    }
    for name, lines in files.items():
        (place / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    Path("corpus.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS * 2))
    return ["answers", "corpus=corpus.jsonl", "tokenizer=tokenizer", "small=3", "jobs=1"]


def test_every_sweep_composes_and_bears_its_own_answers(words: list[str]) -> None:
    sources, out, jobs = read_command_line(words)
    assert (str(out), jobs, sources.ablate.stem) == ("results/recorded", 1, "vicuna-7b")
    sweeps = list(sources.sweeps())
    assert len(sweeps) == len(ABLATIONS) + 2 * 2
    with initialize_config_dir(str(CONF), version_base="1.3"):
        for sweep in sweeps:
            largest = [f"{key}={value.split(',')[-1]}" for key, value in (word.split("=", 1) for word in sweep)]
            config = compose("config", largest)
            assert config.benchmark.question_file == "answers/alpaca/question.jsonl"
            llama = config.model.answers.endswith("llama-2-7b-chat.jsonl")
            assert config.model.template.name == ("llama-2" if llama else "vicuna_v1.1")
            assert config.datastore.path.endswith(".suffixes" if config.method.name == "rest" else ".ngrams")
            assert "first-3" not in config.datastore.path, "table 2 ends with the whole corpus"
            assert config.paths.output.startswith("outputs/recorded/")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("corpus=nowhere", "corpus: nowhere is no file"),
        ("tokenizer=", "tokenizer: is missing"),
        ("jobs=0", "jobs: '0' must be a whole number, 1 or more"),
        ("ablate=nowhere", "ablate: nowhere is no file"),
        ("colour=red", "colour: no such key"),
        ("corpus.jsonl", "ANSWERS: name one folder"),
        ("tokenizer", "ANSWERS: name one folder"),
    ],
)
def test_bad_words_are_refused_by_name(words: list[str], change: str, problem: str) -> None:
    key = change.partition("=")[0]
    with pytest.raises(BadInput, match=problem.replace(".", r"\.")):
        read_command_line([*(word for word in words if not word.startswith(f"{key}=")), change])


def test_a_folder_of_no_benchmark_is_refused(words: list[str]) -> None:
    Path("answers/alpaca").rename("answers/cats")
    with pytest.raises(BadInput, match="cats is no benchmark of conf/benchmark"):
        read_command_line(words)


@pytest.mark.slow
def test_from_answers_to_tables_and_plots(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(recorded_results.subprocess, "run", forked.run)
    monkeypatch.setattr(recorded_results, "ABLATIONS", ("search",))
    monkeypatch.setattr("sys.argv", ["recorded_results", *words])
    main()
    assert capsys.readouterr().err == ""
    out = Path("results/recorded")
    for name in (TABLE_1, "search"):
        assert f"[Table]({name}/paper.md)" in (out / "README.md").read_text()
        for file in ("paper.md", "paper.tex", "paper.csv", "table.md", "table.csv"):
            assert (out / name / file).stat().st_size
    table = (out / TABLE_1 / "paper.md").read_text()
    lines = [line.split("|") for line in table.splitlines() if line.startswith("| ")]
    ours = {line[1].strip(): line for line in lines}
    for method in ("prompt_lookup", "rest", "aded", "aded_best_first", "aded_backoff"):
        assert "–" not in (ours[method][2].strip(), ours[method][5].strip()), "both models have their number"
    # The ablations are of the smallest file alone.
    assert "llama" not in (out / "search" / "paper.md").read_text()
