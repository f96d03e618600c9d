"""The table of single runs: a row says what its run is, and what its numbers do not show."""

import json
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from made_up_run import row, times, write_run

from aded.records.finished_runs import read_runs
from aded.records.rows import Row, Timing
from aded.records.summary import Summary
from scripts.report.accepted_tokens import lines
from scripts.report.cells import cells
from scripts.report.comparison import Sources, as_markdown, blocks
from scripts.report.corpus_questions import COLUMN
from scripts.report.ranking import ranking_frame
from scripts.report.summary_table import all_numbers, as_text, summary_frame
from scripts.tables import main

SPEEDUP, RATE, BASELINE_RATE = "speedup [95 %]", "tokens/s", "autoregressive tokens/s"


def paired(speedup: float, rate: float, questions: int = 6) -> list[Row]:
    """Rows of equal speedups; rate: of autoregressive decoding, in tokens per second."""
    plain = 4 / rate
    return [row(number, 0, [2, 2], **times(plain / speedup, plain, 4)) for number in range(questions)]


def frame(folder: Path) -> pd.DataFrame:
    return summary_frame(read_runs([folder]))


def test_each_method_has_its_own_paired_rate_and_the_fastest_is_first(tmp_path: Path) -> None:
    write_run(tmp_path / "a", paired(1.5, 20.0), method="fast", answers=None)
    write_run(tmp_path / "b", paired(0.5, 30.0), method="slow", answers=None)
    found = frame(tmp_path)
    assert found["method"].tolist() == ["fast", "slow"]
    assert found[RATE].tolist() == ["30.0", "15.0"]
    assert found[BASELINE_RATE].tolist() == ["20.0", "30.0"]
    assert found[SPEEDUP].tolist() == ["1.50 [1.50, 1.50]", "0.50 [0.50, 0.50]"]
    assert found["identical outputs"].tolist() == ["6 of 6", "6 of 6"]
    text = as_text(read_runs([tmp_path]))
    assert "Autoregressive decoding of tiny on mt_bench ran at 20.0 to 30.0 tokens/s" in text


def test_every_table_is_best_first(tmp_path: Path) -> None:
    """By speedup; methods without one, by accepted tokens, come last."""
    for name, accepted in (("few", [1, 1]), ("many", [4, 4]), ("more", [2, 2])):
        write_run(tmp_path / name, [row(n, 0, accepted) for n in range(6)], method=name, answers="tiny.jsonl")
    for name, speedup in (("slow", 0.5), ("fast", 2.0)):
        write_run(tmp_path / name, paired(speedup, 20.0), method=name, answers=None)
    runs = read_runs([tmp_path])
    right = ["fast", "slow", "many", "more", "few"]
    accepted_tokens = blocks(cells(runs), [], Sources())["mt_bench, mean accepted tokens"]
    for table in (summary_frame(runs), ranking_frame(runs), all_numbers(runs), accepted_tokens):
        assert table["method"].tolist() == right
    assert [line.name for line in lines(runs)] == right


def test_columns_that_are_empty_in_all_rows_are_left_out(tmp_path: Path) -> None:
    write_run(tmp_path / "a", [row(81, 0, [2, 3])])
    assert frame(tmp_path).to_dict("records") == [
        {
            "method": "aded",
            "model": "vicuna-7b-v1.5",
            "benchmark": "mt_bench",
            "answers": "recorded",
            "questions": "1²",
            "accepted tokens, cold": "2.50",
            "accepted tokens, session": "2.50",
        }
    ]


def test_every_table_says_how_many_questions_the_corpus_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that was not checked says so, once another one was."""
    checked: dict[str, Any] = {
        "datastore": "a",
        "datastore_questions": "human_eval 9 of 164, mt_bench 2 of 80, prompts:0123abcd 1 of 3",
    }
    write_run(tmp_path / "a", [row(81, 0, [2, 3])], datastore="b")
    write_run(tmp_path / "b", [row(81, 0, [2, 2])], method="prompt_lookup")
    assert COLUMN not in frame(tmp_path)
    write_run(tmp_path / "c", [row(81, 0, [2, 1])], method="rest", **checked)
    write_run(tmp_path / "d", [row(82, 0, [2, 1])], method="rest", benchmark="alpaca", **checked)
    for folder, mark in (("e", "0123abcd" * 4), ("f", "0123abce" * 4)):
        asked: dict[str, Any] = {"benchmark": "prompts", "files": {"benchmark.question_file": mark}}
        write_run(tmp_path / folder, [row(83, 0, [2, 1])], method=f"rest {folder}", **asked, **checked)
    found = frame(tmp_path)
    assert dict(zip(found["method"] + " " + found["benchmark"], found[COLUMN], strict=True)) == {
        "aded mt_bench": "not checked",
        "prompt_lookup mt_bench": "–",
        "rest mt_bench": "2 of 80",
        "rest alpaca": "not checked",
        "rest e prompts": "1 of 3",
        "rest f prompts": "not checked",
    }
    assert set(ranking_frame(read_runs([tmp_path]))[COLUMN]) == {"not checked", "–", "2 of 80", "1 of 3"}
    monkeypatch.setattr("sys.argv", ["tables", str(tmp_path)])
    main()
    assert "2 of 80" in capsys.readouterr().out
    for name in ("mean_accepted_tokens", "comparison_with_paper"):
        lines = [line for line in (tmp_path / f"{name}.md").read_text().splitlines() if "its corpus holds" in line]
        assert lines == [
            "- rest: its corpus holds 2 of 80 questions of mt_bench.",
            "- rest e: its corpus holds 1 of 3 questions of prompts.",
        ]


VARIANTS: dict[str, dict[str, Any]] = {
    "method.top_k": {"settings": {"method.top_k": 9}},
    "method.draft_maker._target_": {"settings": {"method.draft_maker._target_": "some.module.Full"}},
    "benchmark.limit": {"settings": {"benchmark.limit": 2}},
    "model.dtype": {"settings": {"model.dtype": "float16"}},
    "engine": {"engine": "compiled"},
}


@pytest.mark.parametrize("key", VARIANTS)
def test_rows_name_every_setting_in_which_they_differ(tmp_path: Path, key: str) -> None:
    usual: dict[str, Any] = {
        "settings": {"method.top_k": 4, "method.draft_maker._target_": "some.module.Mcts", "model.dtype": "float32"},
        "engine": "eager",
    }
    variant = VARIANTS[key]
    other = {**usual, **variant, "settings": {**usual["settings"], **variant.get("settings", {})}}
    write_run(tmp_path / "a", paired(3.0, 10.0), answers=None, **usual)
    write_run(tmp_path / "b", paired(2.0, 10.0), answers=None, **other)
    values = {
        "method.top_k": ("top_k=4", "top_k=9"),
        "method.draft_maker._target_": ("draft_maker=Mcts", "draft_maker=Full"),
        "benchmark.limit": ("benchmark.limit=none", "benchmark.limit=2"),
        "model.dtype": ("model.dtype=float32", "model.dtype=float16"),
        "engine": ("engine=eager", "engine=compiled"),
    }
    assert frame(tmp_path)["method"].tolist() == [f"aded ({value})" for value in values[key]]


def test_runs_that_differ_in_the_seed_alone_are_one_row(tmp_path: Path) -> None:
    """Their mean and its interval, in every table; what is no repetition stays apart."""
    for seed, speedup in enumerate((1.5, 2.0, 2.5)):
        write_run(tmp_path / f"a{9 - seed}", paired(speedup, 10.0), answers=None, seed=seed)
        write_run(tmp_path / f"again{seed}", paired(speedup, 10.0), method="once", answers=None)
        warm = {"decoding.temperature": 0.5}
        write_run(tmp_path / f"warm{seed}", paired(2 * speedup, 10.0), answers=None, seed=seed, settings=warm)
    runs = read_runs([tmp_path])
    low, high = 2.0 - 0.5 * 4.30265 / 3**0.5, 2.0 + 0.5 * 4.30265 / 3**0.5
    ours = frame(tmp_path).set_index("method").loc["aded (decoding.temperature=0.0)"]
    assert ours[SPEEDUP].startswith(f"2.00 [{low:.2f}, {high:.2f}]¹")
    assert (ours[RATE], ours["identical outputs"]) == (f"20.0 [{10 * low:.1f}, {10 * high:.1f}]", "18 of 18")
    assert ours["accepted tokens, cold"] == "2.00 [2.00, 2.00]"
    for table in (frame(tmp_path), ranking_frame(runs)):
        assert sorted(table["method"]) == [f"aded (decoding.temperature={one})" for one in (0.0, 0.5)] + 3 * ["once"]
    assert len(all_numbers(runs)) == 9, "summary.csv has each run"
    assert "seeds 0, 1, 2" in as_text(runs)


def test_settings_that_differ_between_methods_and_models_have_a_column(tmp_path: Path) -> None:
    write_run(tmp_path / "a", [row(81, 0, [2])], settings={"method.budget": 64, "method.adaptation": "prompt"})
    write_run(tmp_path / "b", [row(81, 0, [2])], method="best", settings={"method.budget": 3})
    write_run(
        tmp_path / "c",
        [row(81, 0, [2], **times(1.0, 2.0, 2))],
        answers="a/llama.jsonl",
        method="traced",
        settings={"model.compute": "vicuna-7b", "method.adaptation": "session"},
    )
    found = frame(tmp_path).set_index("method")
    assert found["budget"].to_dict() == {"aded": "64", "best": "3", "traced": "–"}
    assert found["adaptation"].to_dict() == {"aded": "prompt", "best": "–", "traced": "session"}
    assert found["answers"].to_dict() == {
        "aded": "recorded",
        "best": "recorded",
        "traced": "recorded, trace of vicuna-7b",
    }
    assert found["model"].to_dict() == {"aded": "vicuna-7b-v1.5", "best": "vicuna-7b-v1.5", "traced": "llama"}


def test_what_the_rows_have_in_common_stands_above_them(tmp_path: Path) -> None:
    settings = {"method.budget": 7, "benchmark.limit": 6, "benchmark.max_new_tokens": 96, "model.dtype": "float32"}
    write_run(tmp_path / "a", paired(1.5, 20.0), answers=None, settings=settings, engine="eager")
    in_turn = settings | {"benchmark.order": "in_turn"}
    write_run(tmp_path / "in_turn" / "a", paired(1.5, 20.0), answers=None, settings=in_turn, engine="eager")
    assert "benchmark.limit=6, benchmark.order=in_turn, at" in as_text(read_runs([tmp_path / "in_turn"]))
    common = as_text(read_runs([tmp_path / "a"])).split("\n\n")[0].splitlines()
    assert common[0] == "- mt_bench: 6 questions, benchmark.limit=6, at most 96 new tokens per answer"
    assert common[1].endswith(
        "budget 7, temperature 0.0, engine eager, dtype float32, machine made up, 2 cores, 1 thread"
    )


def test_numbers_that_show_little_are_marked(tmp_path: Path) -> None:
    mixed = [*paired(0.5, 20.0, 3), row(9, 0, [2, 2], **times(0.05, 0.2, 4))]
    write_run(tmp_path / "a", mixed, method="unclear", answers=None)
    write_run(tmp_path / "b", paired(1.5, 20.0), method="clear", answers=None)
    found = frame(tmp_path).set_index("method")
    assert found["questions"].to_dict() == {"unclear": "4²", "clear": "6"}
    assert found[SPEEDUP].str.endswith("]¹³").to_dict() == {"unclear": True, "clear": False}
    text = as_text(read_runs([tmp_path]))
    assert "- ¹ The interval contains 1" in text
    assert "- ² Fewer than 5 questions" in text
    (tmp_path / "a").rename(tmp_path.with_name("elsewhere"))
    assert "contains 1" not in as_text(read_runs([tmp_path]))


def test_reasons_for_marks_are_one_line_for_a_benchmark_and_kind(tmp_path: Path) -> None:
    busy = {"a": (4, 0.5), "b": (6, 0.5), "c": (6, 0.5)}
    for benchmark in ("mt_bench", "human_eval"):
        for method, (disturbed, share) in busy.items():
            others = [share] * disturbed + [0.0] * (20 - disturbed)
            made = [row(n, 0, [2, 2] * 10, **times(1.0, 2.0, 40)) for n in range(6)]
            slow = [replace(one, timings=[replace_others(one.timings[0], others)]) for one in made]
            write_run(tmp_path / benchmark / method, slow, method=method, benchmark=benchmark, answers=None)
    runs = read_runs([tmp_path])
    assert sum(len(run.summary.marks) for run in runs) == 6
    sources = Sources()
    frames = blocks(cells(runs), [], sources)
    for text in (as_text(runs), as_markdown(frames, sources)):
        ours = [line for line in text.splitlines() if line.startswith("- ³")]
        assert [line.split(",")[0] for line in ours] == ["- ³ human_eval", "- ³ mt_bench"]
        assert all("48 to 72 of 240 slices" in line and " a" in line and " c" in line for line in ours)


def replace_others(one: Timing, others: list[float]) -> Timing:
    assert one.slices is not None
    return replace(one, slices=replace(one.slices, others=others))


def test_the_csv_has_every_number_the_rows_name_and_its_answers(tmp_path: Path) -> None:
    write_run(tmp_path / "a", [row(81, 0, [2, 3])], settings={"method.budget": 4})
    write_run(tmp_path / "b", [row(81, 0, [2, 3])], settings={"method.budget": 16})
    found = all_numbers(read_runs([tmp_path]))
    assert set(found.columns) == {field.name for field in fields(Summary)} | {"line", "answers"}
    assert found["line"].tolist() == ["aded (budget=4)", "aded (budget=16)"]
    assert found["model"].tolist() == ["vicuna-7b-v1.5"] * 2
    assert found["mean_accepted_tokens"].tolist() == [2.5, 2.5]


def cut_a_row(path: Path) -> None:
    """As a kill would leave it, were rows not flushed whole."""
    first, second = path.read_text().splitlines()
    path.write_text(f"{first}\n{second[: len(second) // 2]}")


DAMAGE: dict[str, tuple[str, Callable[[Path], object]]] = {
    **{
        f"{name} deleted": (name, Path.unlink)
        for name in ("config.yaml", "environment.json", "rows.jsonl", "summary.json")
    },
    "row cut": ("rows.jsonl", cut_a_row),
    "foreign row": ("rows.jsonl", lambda path: path.write_text('{"id": 1}\n' * 2)),
}


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], dict[str, bytes]]:
    def made(folder: Path) -> dict[str, bytes]:
        """What the command writes, by file name."""
        monkeypatch.setattr("sys.argv", ["tables", str(folder)])
        main()
        return {path.name: path.read_bytes() for path in folder.glob("*.*")}

    return made


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_run_is_named_and_the_tables_are_those_of_the_others(
    tmp_path: Path,
    damage: str,
    tables: Callable[[Path], dict[str, bytes]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_run(tmp_path / "good", [row(81, 0, [1, 2, 3]), row(82, 0, [2, 2])], method="good")
    right = tables(tmp_path)
    comparison = {f"comparison_with_paper.{kind}" for kind in ("md", "tex", "csv")}
    both = {f"{name}.{kind}" for name in ("summary", "mean_accepted_tokens") for kind in ("md", "csv")}
    assert right.keys() == both | comparison | {"summary.tex"}
    write_run(tmp_path / "hurt", [row(81, 0, [4, 4]), row(82, 0, [4])], method="hurt")
    assert b"hurt" in tables(tmp_path)["comparison_with_paper.csv"]
    name, hurt = DAMAGE[damage]
    hurt(tmp_path / "hurt" / name)
    capsys.readouterr()
    assert tables(tmp_path) == right
    (line,) = capsys.readouterr().err.splitlines()
    assert str(tmp_path / "hurt") in line
    assert name in line


def test_a_file_of_spec_bench_is_shown_as_measured_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(tmp_path / "runs" / "a", [row(81, 0, [1, 2, 3])], benchmark="spec_bench")
    file = tmp_path / "vicuna-7b-v1.5-eagle.jsonl"
    lines = [
        {"question_id": n, "choices": [{"accept_lengths": lengths}]}
        for n, lengths in ((81, [5, 3, 3]), (161, [4, 1]))
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    monkeypatch.setattr("sys.argv", ["tables", str(tmp_path / "runs"), str(file)])
    main()
    text = (tmp_path / "runs" / "mean_accepted_tokens.md").read_text()
    assert "vicuna-7b-v1.5-eagle, measured elsewhere" in text
    assert "3.2 (macro 3.083333333333333" in text
    monkeypatch.setattr("sys.argv", ["tables", str(tmp_path / "runs"), str(tmp_path / "none.jsonl")])
    capsys.readouterr()
    with pytest.raises(SystemExit, match="2"):
        main()
    assert capsys.readouterr().err.startswith("RUN_FILE: ")


@pytest.mark.parametrize("arguments", [[], ["nowhere"], ["."], ["colour=red"]])
def test_bad_input_is_one_line(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["tables", *arguments])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert len(capsys.readouterr().err.splitlines()) == 1
