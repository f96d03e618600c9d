import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from answer_lines import TEXTS, written
from command import Command
from made_up_run import row, write_run
from tiny import tiny_tokenizer

from aded.config.command_line import compose_config, split_settings
from aded.errors import BadInput
from datastore.sources.catalogue import read_source
from scripts.results import recorded
from scripts.results.recorded import ABLATIONS, TABLE_1, ResultsSettings, fetch_sources, main, read_sources


@pytest.fixture
def arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(tmp_path)
    tiny_tokenizer().save_pretrained("tokenizer")
    place = Path("answers/alpaca")
    place.mkdir(parents=True)
    said = {"vicuna-7b": TEXTS, "llama-2-7b-chat": [" ".join(TEXTS)] * 3}
    files: dict[str, list[dict[str, Any]]] = {
        name: [{"question_id": n, "choices": [{"index": 0, "turns": [texts[n]]}]} for n in range(3)]
        for name, texts in said.items()
    }
    files["question"] = [{"question_id": n, "category": "cats", "turns": [f"what {n}?"]} for n in range(3)]
    for name, lines in files.items():
        written(place, *lines, name=f"{name}.jsonl")
    written(Path(), *({"text": text} for text in TEXTS * 2), name="corpus.jsonl")
    return ["answers", "corpus=corpus.jsonl", "tokenizer=tokenizer", "small=3", "jobs=1"]


def test_every_sweep_composes_and_has_its_own_answers(arguments: list[str]) -> None:
    settings, folders = split_settings(ResultsSettings, arguments)
    sources = read_sources(folders, settings)
    assert (settings.out, settings.jobs, sources.ablate.stem) == ("results/recorded", 1, "vicuna-7b")
    sweeps = list(sources.sweeps())
    assert len(sweeps) == len(ABLATIONS) - 2 + 2 * (1 + 2) + 2 * 3, "the causes are of both answers"
    for sweep in sweeps:
        last = [f"{key}={values.split(',')[-1]}" for key, _, values in (one.partition("=") for one in sweep)]
        config = compose_config(last)
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
        ("colour=red", "colour: no such key"),
        ("corpus.jsonl", "ANSWERS: name one folder"),
    ],
)
def test_bad_arguments_are_refused_by_name(arguments: list[str], change: str, problem: str, command: Command) -> None:
    key, equals, _ = change.partition("=")
    kept = [argument for argument in arguments if not (equals and argument.startswith(f"{key}="))]
    assert command.refusal(main, *kept, change).startswith(problem)


def test_answers_that_cannot_be_replayed_are_named(arguments: list[str], command: Command) -> None:
    settings, folders = split_settings(ResultsSettings, arguments)
    known = read_sources(folders, settings).answers
    shutil.copytree("answers/alpaca", "answers/cats")
    command.capture.readouterr()
    assert read_sources(folders, settings).answers == known
    assert "cats is no benchmark of conf/benchmark; its answers are skipped" in command.capture.readouterr().err
    shutil.copy("answers/alpaca/vicuna-7b.jsonl", "answers/alpaca/llama-3.1-8b.jsonl")
    with pytest.raises(BadInput, match=r"llama-3.1-8b.jsonl is of a model whose template is not known"):
        read_sources(folders, settings)
    shutil.rmtree("answers/alpaca")
    with pytest.raises(BadInput, match="holds no BENCHMARK"):
        read_sources(folders, settings)


def test_without_answers_the_committed_ones_are_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    every = {*recorded.QUESTIONS, *recorded.ANSWERS, "chat_corpus", "llama_2_tokenizer"}
    assert set(fetched) == {(name, "m") for name in every}
    assert sources.tokenizer == str(tmp_path / "sources" / "tokenizers" / "llama-2")
    for file in sources.answers:
        assert file.with_name("question.jsonl").exists() == (file.parent.name != "human_eval")
    with pytest.raises(BadInput, match="ANSWERS: is missing, and corpus is given"):
        fetch_sources(ResultsSettings(corpus=str(sources.corpus)))


@pytest.mark.parametrize("failing", [None, "run", "plots"])
def test_datastores_are_built_then_sweeps_run_then_tables_written_and_a_failure_is_said(
    arguments: list[str], failing: str | None, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    calls: list[tuple[str, Sequence[str]]] = []

    def called(verb: str, words: Sequence[str]) -> bool:
        calls.append((verb, words))
        if verb == "run" and len(calls) == 3:
            (out,) = [word.partition("=")[2] for word in words if word.startswith("paths.output")]
            write_run(Path(out) / "a", [row(1, 0, [2])])
        return verb != failing

    monkeypatch.setattr(recorded, "call", called)
    done = command(main, *arguments)
    assert (done.code, "not everything succeeded" in done.err) == ((1, True) if failing else (0, False))
    verbs = [verb for verb, _ in calls]
    runs = len(ABLATIONS) - 2 + 2 * (1 + 2) + 2 * 3
    assert verbs[: 2 + runs] == ["build"] * 2 + ["run"] * runs
    assert sorted(verbs[2 + runs :]) == ["plots"] * len(recorded.DRAWN) + ["tables"] * (1 + len(ABLATIONS))
    assert [any(word.startswith("corpus.limit") for word in words) for _, words in calls[:2]] == [False, True]
    readme = Path("results/recorded/README.md").read_text()
    assert f"## {TABLE_1}" in readme
    assert "tokenizer=TOKENIZER small=3 ablate=ANSWERS/alpaca/vicuna-7b.jsonl\n" in readme
