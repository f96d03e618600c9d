from dataclasses import fields
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from command import Command
from made_up_run import row, times, timing, write_run

from aded.commands.tables import main
from aded.records.finished_runs import read_runs
from aded.records.rows import Row
from aded.records.summary import Summary
from aded.report import paper
from aded.report.columns import COLUMNS
from aded.report.lines import SCOPES, lines_by_seed, lines_of
from aded.report.paper import blocks
from aded.report.published import Footnotes
from aded.report.tables.accepted import in_both_scopes
from aded.report.tables.summary import all_numbers, as_markdown, ranking, ranking_frame, summary_frame

COLUMN, MAKER = "questions in the corpus", "method.draft_maker._target_"
SPEEDUP, RATE, BASELINE_RATE = "speedup [95 %]", "tokens/s", "autoregressive tokens/s"


def paired(speedup: float, rate: float, questions: int = 6) -> list[Row]:
    """Rows of equal speedups; rate: of autoregressive decoding, in tokens per second."""
    plain = 16 / rate
    return [row(number, 0, [8, 8], **times(plain / speedup, plain, 16)) for number in range(questions)]


def frame(folder: Path) -> pd.DataFrame:
    return summary_frame(lines_by_seed(read_runs([folder])))


def text_of(folder: Path) -> str:
    return as_markdown(lines_by_seed(read_runs([folder])))


def test_each_method_has_its_own_paired_rate_and_the_fastest_is_first(tmp_path: Path) -> None:
    write_run(tmp_path / "a", paired(1.5, 20.0), method="fast", answers=None)
    write_run(tmp_path / "b", paired(0.5, 30.0), method="slow", answers=None)
    found = frame(tmp_path)
    assert found["method"].tolist() == ["fast", "slow"]
    assert found[RATE].tolist() == ["30.0", "15.0"]
    assert found[BASELINE_RATE].tolist() == ["20.0", "30.0"]
    assert found[SPEEDUP].tolist() == ["1.50 [1.50, 1.50]", "0.50 [0.50, 0.50]"]
    assert found["identical outputs"].tolist() == ["6 of 6", "6 of 6"]
    assert "tiny on mt_bench ran at 20.0 to 30.0 tokens/s" in text_of(tmp_path)


@pytest.mark.parametrize(
    ("cost", "answers", "trees"),
    [("measured", None, "sized"), ("none", None, "whole"), ("measured", "a", "whole"), ("t.json", "a", "sized")],
)
def test_a_table_says_whether_trees_are_sized(tmp_path: Path, cost: str, answers: str | None, trees: str) -> None:
    settings = {"method.cost": cost, "method.budget": 8}
    write_run(tmp_path / "a", [row(n, 0, [2]) for n in range(6)], answers=answers, settings=settings)
    assert f"trees {trees}" in text_of(tmp_path)
    assert ("Trees are sized" in ranking(read_runs([tmp_path]))) == (trees == "sized")


def test_every_table_is_best_first(tmp_path: Path) -> None:
    for name, accepted in (("few", [1, 1]), ("many", [4, 4]), ("more", [2, 2])):
        write_run(tmp_path / name, [row(n, 0, accepted) for n in range(6)], method=name, answers="tiny.jsonl")
    for name, speedup in (("slow", 0.5), ("fast", 2.0)):
        write_run(tmp_path / name, paired(speedup, 20.0), method=name, answers=None)
    runs = read_runs([tmp_path])
    right = ["fast", "slow", "many", "more", "few"]
    rows = lines_by_seed(runs)
    accepted_tokens = blocks(lines_of(runs), [], Footnotes())["mt_bench, mean accepted tokens"]
    for table in (summary_frame(rows), ranking_frame(rows), all_numbers(runs), accepted_tokens):
        assert table["method"].tolist() == right
    assert [line.name for line in in_both_scopes(runs)] == right


def test_a_column_that_is_empty_in_all_rows_is_left_out_and_the_csv_has_every_number(tmp_path: Path) -> None:
    write_run(tmp_path / "a", [row(81, 0, [2, 3])], settings={"method.budget": 4})
    accepted = {f"accepted tokens, {scope}": "2.50" for scope in ("cold", "session")}
    names = {"method": "aded", "model": "vicuna-7b-v1.5", "benchmark": "mt_bench", "answers": "recorded"}
    assert frame(tmp_path).to_dict("records") == [{**names, "questions": "1²", **accepted}]
    write_run(tmp_path / "b", [row(81, 0, [2, 3])], settings={"method.budget": 16})
    found = all_numbers(read_runs([tmp_path]))
    assert set(found.columns) == {field.name for field in fields(Summary)} | {"line", "answers"}
    assert found[["line", "model", "mean_accepted_tokens"]].values.tolist() == [
        [f"aded (budget={budget})", "vicuna-7b-v1.5", 2.5] for budget in (4, 16)
    ]


def test_every_table_says_how_many_questions_the_corpus_holds(tmp_path: Path, command: Command) -> None:
    found = "human_eval 9 of 164, mt_bench 2 of 80, prompts:0123abcd 1 of 3"
    checked: dict[str, Any] = {"datastore": "a", "datastore_questions": found}
    write_run(tmp_path / "a", [row(81, 0, [2, 3])], datastore="b")
    write_run(tmp_path / "b", [row(81, 0, [2, 2])], method="prompt_lookup")
    assert COLUMN not in frame(tmp_path)
    write_run(tmp_path / "c", [row(81, 0, [2, 1])], method="rest", **checked)
    for folder, fingerprint in (("e", "0123abcd" * 4), ("f", "0123abce" * 4)):
        asked: dict[str, Any] = {"benchmark": "prompts", "files": {"benchmark.question_file": fingerprint}, **checked}
        write_run(tmp_path / folder, [row(83, 0, [2, 1])], method=f"rest {folder}", **asked)
    right = {"aded": "not checked", "prompt_lookup": "–", "rest": "2 of 80"}
    right |= {"rest e": "1 of 3", "rest f": "not checked"}
    for table in (frame(tmp_path), ranking_frame(lines_by_seed(read_runs([tmp_path])))):
        assert table.set_index("method")[COLUMN].to_dict() == right
    assert command(main, str(tmp_path)).code == 0
    for name in ("mean_accepted_tokens", "comparison_with_paper"):
        lines = [line for line in (tmp_path / f"{name}.md").read_text().splitlines() if "its corpus holds" in line]
        assert [line.split(":")[0] for line in lines] == ["- rest", "- rest e"]


def test_runs_that_differ_in_the_seed_alone_are_one_row(tmp_path: Path) -> None:
    for seed, speedup in enumerate((1.5, 2.0, 2.5)):
        write_run(tmp_path / f"a{9 - seed}", paired(speedup, 10.0, 6 + seed), answers=None, seed=seed)
        write_run(tmp_path / f"again{seed}", paired(speedup, 10.0), method="once", answers=None)
        warm = {"decoding.temperature": 0.5}
        write_run(tmp_path / f"warm{seed}", paired(2 * speedup, 10.0), answers=None, seed=seed, settings=warm)
    runs = read_runs([tmp_path])
    low, high = 2.0 - 0.5 * 4.30265 / 3**0.5, 2.0 + 0.5 * 4.30265 / 3**0.5
    ours = frame(tmp_path).set_index("method").loc["aded (decoding.temperature=0.0)"]
    assert ours[SPEEDUP].startswith(f"2.00 [{low:.2f}, {high:.2f}]¹")
    assert (ours[RATE], ours["identical outputs"]) == (f"20.0 [{10 * low:.1f}, {10 * high:.1f}]", "21 of 21")
    assert (ours["accepted tokens, cold"], ours["questions"]) == ("8.00 [8.00, 8.00]", "6")
    for table in (frame(tmp_path), ranking_frame(lines_by_seed(runs))):
        assert sorted(table["method"]) == [f"aded (decoding.temperature={one})" for one in (0.0, 0.5)] + 3 * ["once"]
    assert len(all_numbers(runs)) == 9, "summary.csv has each run"
    assert "seeds 0, 1, 2" in text_of(tmp_path)


def test_settings_that_differ_between_methods_and_models_have_a_column(tmp_path: Path) -> None:
    write_run(tmp_path / "a", [row(81, 0, [2])], settings={"method.budget": 64, "method.adaptation": "prompt"})
    write_run(tmp_path / "b", [row(81, 0, [2])], method="best", settings={"method.budget": 3})
    traced = {"model.compute": "vicuna-7b", "method.adaptation": "session"}
    rows = [row(81, 0, [2], **times(1.0, 2.0, 2))]
    write_run(tmp_path / "c", rows, answers="a/llama.jsonl", method="traced", settings=traced)
    found = frame(tmp_path).set_index("method")[["model", "answers", "budget", "adaptation"]]
    assert {name: list(values) for name, *values in found.itertuples()} == {
        "aded": ["vicuna-7b-v1.5", "recorded", "64", "prompt"],
        "best": ["vicuna-7b-v1.5", "recorded", "3", "–"],
        "traced": ["llama", "recorded, trace of vicuna-7b", "–", "session"],
    }


def test_a_swept_budget_that_no_tree_reached_is_named(tmp_path: Path) -> None:
    for budget in (4, 8, 64):
        nodes = min(budget, 8)
        write_run(
            tmp_path / str(budget), [row(81, 0, [2], drafted_nodes=[nodes])], settings={"method.budget": budget}
        )
    (said,) = (line for line in text_of(tmp_path).splitlines() if "Budgets that no tree reached" in line)
    assert said.endswith(": aded (budget=64), at most 8 nodes.")


def test_what_the_rows_have_in_common_stands_above_them(tmp_path: Path) -> None:
    settings = {"method.budget": 7, "benchmark.limit": 6, "benchmark.order": "in_turn", "model.dtype": "float32"}
    write_run(tmp_path / "a", paired(1.5, 20.0), answers=None, settings=settings, engine="eager")
    above = text_of(tmp_path / "a").split("\n\n")[0]
    for words in ("benchmark.limit=6, benchmark.order=in_turn", "budget 7", "dtype float32", "made up"):
        assert words in above


def test_numbers_that_show_little_are_marked(tmp_path: Path) -> None:
    mixed = [*paired(0.7, 20.0), row(9, 0, [8, 8], **times(0.12, 0.8, 16))]
    write_run(tmp_path / "a", mixed, method="unclear", answers=None)
    write_run(tmp_path / "b", paired(1.5, 20.0), method="clear", answers=None)
    write_run(tmp_path / "c", paired(2.0, 20.0, 4), method="few", answers=None)
    write_run(tmp_path / "d", paired(9.0, 20.0), method="impossible", answers=None)
    found = frame(tmp_path).set_index("method")
    assert found.index.tolist() == ["clear", "unclear", "few", "impossible"], "what has no ground has no rank"
    assert found["questions"].to_dict() == {"unclear": "7", "clear": "6", "few": "4²", "impossible": "6"}
    assert found[SPEEDUP]["clear"].startswith("1.50 [1.50, 1.50]")
    assert found[SPEEDUP]["unclear"].endswith("]¹³")
    assert found[SPEEDUP][["few", "impossible"]].tolist() == ["2.00", "–³"]
    assert "no speedup: 9.00 was measured, more than 8.00" in text_of(tmp_path)


def test_reasons_for_marks_are_one_line_for_a_benchmark_and_kind(tmp_path: Path) -> None:
    for benchmark in ("mt_bench", "human_eval"):
        for method, disturbed in {"a": 4, "b": 6, "c": 6}.items():
            slow = timing(20, 1.0, 40, 2.0, others=[0.5] * disturbed + [0.0] * (20 - disturbed))
            rows = [row(n, 0, [2, 2] * 10, timings=[slow], **times(1.0, 2.0, 40)) for n in range(6)]
            write_run(tmp_path / benchmark / method, rows, method=method, benchmark=benchmark, answers=None)
    runs, sources = read_runs([tmp_path]), Footnotes()
    assert sum(len(run.summary.marks) for run in runs) == 6
    frames = blocks(lines_of(runs), [], sources)
    for text in (text_of(tmp_path), paper.as_markdown(frames, sources), ranking(runs)):
        ours = [line.removeprefix("- ") for line in text.splitlines() if line.startswith(("- ³", "³"))]
        assert [line.split(",")[0] for line in ours] == ["³ human_eval", "³ mt_bench"]
        assert all("48 to 72 of 240 slices" in line and " a" in line and " c" in line for line in ours)


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        (
            [{}, {"method.more": 1}, {"method.more": 1, "decoding.verification": "rejection"}],
            ["", " (more=1)", " (decoding.verification=rejection, more=1)"],
        ),
        ([{"method.cost": None}, {"method.cost": "none"}], None),  # they read alike
        ([{"benchmark.limit": None}, {"benchmark.limit": 2}], [f" (benchmark.limit={one})" for one in ("none", 2)]),
        ([{MAKER: "some.module.Mcts"}, {MAKER: "some.module.Full"}], [" (draft_maker=Mcts)", " (draft_maker=Full)"]),
        ([{"model.dtype": f"float{one}"} for one in (32, 16)], [f" (model.dtype=float{one})" for one in (32, 16)]),
        ([{"method.lookup": None}, {"method.lookup": "1" * 32}], [" (lookup=none)", " (lookup=a file)"]),
        (
            [{"method.lookup": file} for file in (None, "1" * 32, "2" * 32)],
            [f" (lookup={one})" for one in ("none", "1" * 12, "2" * 12)],
        ),
    ],
)
def test_names_tell_runs_apart(tmp_path: Path, settings: list[dict[str, Any]], names: list[str] | None) -> None:
    for number, each in enumerate(settings):
        write_run(tmp_path / str(number), [row(81, 0, [2])], settings=each)
    found = frame(tmp_path)["method"]
    assert found.nunique() == len(settings)
    assert names is None or set(found) == {f"aded{name}" for name in names}
    assert "learned from" not in frame(tmp_path), "no method says so"


@pytest.mark.parametrize(
    ("learned_from", "scorer", "shown"),
    [
        ([], None, "nothing"),
        (["other models' answers"], "another-7b", "other models' answers"),
        (["other models' answers"], "Vicuna-7B-v1.5", "other models' answers, the target's answers"),
        (["other models' answers"], "vicuna-7b-v1.5-16k", "other models' answers"),
    ],
)
def test_a_row_says_who_taught_it(tmp_path: Path, learned_from: list[str], scorer: str | None, shown: str) -> None:
    scorer = scorer and f"answers/{scorer}.jsonl"
    write_run(tmp_path / "a", [row(81, 0, [2])], learned_from=learned_from, scorer=scorer)
    assert frame(tmp_path)["learned from"].tolist() == [shown]


def test_accepted_tokens_stand_below_what_is_kept_over_questions(tmp_path: Path) -> None:
    for setting, values in (("prompt", [2.0, None]), ("session", [None, 2.0]), ("off", [2.0, 2.0])):
        write_run(tmp_path / setting, [row(81, 0, [2])], settings={"method.adaptation": setting})
        (line,) = lines_of(read_runs([tmp_path / setting]))
        assert [COLUMNS[f"accepted tokens, {scope}"].number(line) for scope in SCOPES] == values
