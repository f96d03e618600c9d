"""One command from recorded answers to tables and plots, on answers and a corpus of our own."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import forked
import pytest
from command import Command
from tiny import tiny_tokenizer

from aded.config.command_line import CONF, compose_config, split_settings
from aded.errors import BadInput
from datastore.sources.catalogue import read_source
from scripts.results import recorded
from scripts.results.recorded import (
    ABLATIONS,
    ANSWERS,
    LEARNING,
    QUESTIONS,
    TABLE_1,
    ResultsSettings,
    fetch_sources,
    main,
    read_sources,
)

TEXTS = ["the cat sat on the mat", "the rat sat on the hat", "a cat and a rat and a hat", "on the mat the cat sat"]


@pytest.fixture
def arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
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


def test_every_sweep_composes_and_has_its_own_answers(arguments: list[str]) -> None:
    settings, folders = split_settings(ResultsSettings, arguments)
    sources = read_sources(folders, settings)
    assert (settings.out, settings.jobs, sources.ablate.stem) == ("results/recorded", 1, "vicuna-7b")
    sweeps = list(sources.sweeps())
    assert len(sweeps) == len(ABLATIONS) - 2 + 2 * (1 + 2) + 2 * 3, "the causes are of both answers"
    for sweep in sweeps:
        config = compose_config(
            [f"{key}={value.split(',')[-1]}" for key, value in (one.split("=", 1) for one in sweep)]
        )
        assert config.benchmark.question_file == "answers/alpaca/question.jsonl"
        llama = config.model.answers.endswith("llama-2-7b-chat.jsonl")
        assert config.model.template.name == ("llama-2" if llama else "vicuna_v1.1")
        assert config.datastore.path.endswith(".suffixes" if config.method.name == "rest" else ".ngrams")
        assert "small" not in config.datastore.path, "table 2 ends with the whole corpus"
        assert config.paths.output.startswith("outputs/recorded/")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("corpus=nowhere", "corpus: nowhere is no file"),
        ("tokenizer=", "tokenizer: is missing"),
        ("jobs=0", "jobs: 0 must be 1 or more"),
        ("ablate=nowhere", "ablate: nowhere is no file"),
        ("colour=red", "colour: no such key"),
        ("corpus.jsonl", "ANSWERS: name one folder"),
        ("tokenizer", "ANSWERS: name one folder"),
    ],
)
def test_bad_arguments_are_refused_by_name(arguments: list[str], change: str, problem: str, command: Command) -> None:
    key, equals, _ = change.partition("=")
    kept = [argument for argument in arguments if not (equals and argument.startswith(f"{key}="))]
    assert command.refusal(main, *kept, change).startswith(problem)


def test_answers_of_a_model_whose_template_is_not_known_are_refused(arguments: list[str], command: Command) -> None:
    shutil.copy("answers/alpaca/vicuna-7b.jsonl", "answers/alpaca/llama-3.1-8b.jsonl")
    assert "llama-3.1-8b.jsonl is of a model whose template is not known" in command.refusal(main, *arguments)


def test_without_answers_the_committed_ones_are_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fetched = []

    def fetches(name: str, out: Path, mirror: str | None) -> list[Path]:
        fetched.append((name, mirror))
        paths = [out / result for result in read_source(name).results]
        for path in paths:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("x" * len(path.name))
        return paths

    monkeypatch.setattr(recorded, "fetch", fetches)
    monkeypatch.setenv("ADED_CACHE", str(tmp_path))
    sources = fetch_sources(ResultsSettings(mirror="m"))
    assert {name for name, _ in fetched} == {*QUESTIONS, *ANSWERS, "chat_corpus", "llama_2_tokenizer"}
    assert {mirror for _, mirror in fetched} == {"m"}
    assert sources.tokenizer == str(tmp_path / "sources" / "tokenizers" / "llama-2")
    for file in sources.answers:
        assert file.with_name("question.jsonl").exists() == (file.parent.name != "human_eval")
    committed = (CONF.parent / "results" / "recorded" / "README.md").read_text()
    assert f"are of {', '.join(f'{file.parent.name}/{file.stem}' for file in sources.answers)};" in committed
    with pytest.raises(BadInput, match="ANSWERS: is missing, and corpus is given"):
        fetch_sources(ResultsSettings(corpus=str(sources.corpus)))


def test_answers_to_unknown_benchmarks_are_skipped_with_a_warning(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    settings, folders = split_settings(ResultsSettings, arguments)
    known = read_sources(folders, settings).answers
    shutil.copytree("answers/alpaca", "answers/cats")
    assert read_sources(folders, settings).answers == known
    assert capsys.readouterr().err == (
        "answers/cats: cats is no benchmark of conf/benchmark; its answers are skipped\n"
    )
    shutil.rmtree("answers/alpaca")
    with pytest.raises(BadInput, match="holds no BENCHMARK"):
        read_sources(folders, settings)


@pytest.mark.thorough
def test_from_answers_to_tables_and_plots(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(recorded.subprocess, "run", forked.run)
    monkeypatch.setattr(recorded, "ABLATIONS", ("search",))
    monkeypatch.setattr(recorded, "DRAWN", ("search",))
    monkeypatch.setattr("sys.argv", ["recorded_results", *arguments])
    main()
    assert capsys.readouterr().err == ""
    out = Path("results/recorded")
    readme = (out / "README.md").read_text()
    command = "python -m scripts.results.recorded ANSWERS corpus=CORPUS tokenizer=TOKENIZER"
    assert f"{command} small=3 ablate=ANSWERS/alpaca/vicuna-7b.jsonl\n" in readme
    for link in re.findall(r"\]\((.*?)\)", readme):
        assert (out / link).is_file()
    for name in (TABLE_1, "search"):
        assert f"({name}/comparison_with_paper.md)" in readme
        for file in ("comparison_with_paper.tex", "mean_accepted_tokens.md", "summary.md", "summary.csv"):
            assert (out / name / file).stat().st_size
    assert {path.parent.name for path in out.rglob("*.svg")} == {"search"}
    table = (out / TABLE_1 / "comparison_with_paper.md").read_text()
    lines = [line.split("|") for line in table.splitlines() if line.startswith("| ")]
    ours = {line[1].strip(): line for line in lines}
    learning = [f"{method} (adaptation={scope})" for method in LEARNING for scope in ("prompt", "session")]
    for method in ("prompt_lookup", "rest", *learning):
        assert "–" not in (ours[method][3].strip(), ours[method][6].strip()), "both models have their number"
    # The ablations are of the smallest file alone.
    assert "llama" not in (out / "search" / "comparison_with_paper.md").read_text()
