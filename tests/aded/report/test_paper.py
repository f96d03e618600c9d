import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from made_up_run import MACHINE, row, times, write_run

from aded.errors import BadInput
from aded.records.finished_runs import read_runs
from aded.records.metrics import over_seeds
from aded.records.rows import Row
from aded.report.lines import ACCEPTED, BASELINE, Line, baselines, lines_of
from aded.report.paper import NOT_MEASURED, PAPER, as_markdown, blocks, long_table, paper_table, row_by_row
from aded.report.published import FILES, Footnotes, Published, beside, read_published

FIGURE = Published("aded", "vicuna-7b", "mt_bench", "mean_accepted_tokens", 2.0, None, (("order", "3"),), "A100", "P")
ORDER = {"method.order": 3}
CORPUS: dict[str, Any] = {"datastore": "a", "datastore_prompts": "500", "datastore_tokens": "3900000"}


def timed(question: int, lengths: list[int], method: float, plain: float) -> Row:
    return row(question, 0, lengths, **times(method, plain, sum(lengths)))


def found(folder: Path) -> list[Line]:
    runs = read_runs([folder])
    return [*lines_of(runs), *baselines(runs)]


def frame(folder: Path, metric: str = "mean accepted tokens") -> pd.DataFrame:
    return blocks(found(folder), [FIGURE], Footnotes())[f"mt_bench, {metric}"]


def test_a_cell_is_the_mean_over_runs_that_differ_in_the_seed_alone(tmp_path: Path) -> None:
    for seed, lengths in enumerate(([1, 1], [1, 2], [4, 4])):
        write_run(tmp_path / str(seed), [row(81, 0, lengths), row(82, 0, lengths)], seed=seed)
    (line,) = found(tmp_path)
    assert (line.name, len(line.runs)) == ("aded", 3)
    assert line.estimates[ACCEPTED] == over_seeds([1.0, 1.5, 4.0], [0, 1, 2])
    text = str(frame(tmp_path).set_index("method").loc["aded", "vicuna-7b-v1.5: ours"])
    assert text.startswith("2.17 [-1.83, 6.16] (3 seeds)")


def test_runs_of_other_settings_engines_machines_and_answers_stay_apart(tmp_path: Path) -> None:
    known: list[dict[str, Any]] = [{}, {"engine": "eager"}, {"machine": {**MACHINE, "cores": 9}}]
    known += [{"answers": "llama-2-7b-chat.jsonl"}, {"engine": "compiled"}]
    for number, one in enumerate(known, 1):
        settings = {"method.budget": 64 if one else 7}
        write_run(tmp_path / str(number), [row(81, 0, [number])], settings=settings, **one)
    mine = {(line.first.model, line.name): line.estimates[ACCEPTED].value for line in found(tmp_path)}
    assert sorted(mine.values()) == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert mine["llama-2-7b-chat", "aded (budget=64)"] == 4.0
    assert len({line for model, line in mine if model == "vicuna-7b-v1.5"}) == 4
    assert any("engine=compiled" in line for _, line in mine)


def test_speedup_and_latency_are_ratios_of_sums_and_each_engines_baseline_has_its_own_line(tmp_path: Path) -> None:
    for engine, plain in (("eager", 6.0), ("compiled", 2.0)):
        rows = [timed(number, [8], 1.0, plain if number % 2 else 2.0) for number in range(6)]
        write_run(tmp_path / engine, rows, answers=None, engine=engine)
    mine = {line.name: line.estimates for line in found(tmp_path)}
    value, low, high = mine["aded (engine=eager)"]["speedup"]
    assert (value, 2.0 < (low or 0) < 4.0 < (high or 0) < 6.0) == (pytest.approx(4.0), True)
    latencies = {name: estimates["latency_ms_per_token"].value for name, estimates in mine.items()}
    assert latencies["aded (engine=eager)"] == pytest.approx(125.0)
    assert [latencies[f"{BASELINE} (engine={engine})"] for engine in ("eager", "compiled")] == [500.0, 250.0]


def test_an_estimate_of_several_runs_lies_in_its_interval(tmp_path: Path) -> None:
    """One run on a slower machine moves what is pooled over the runs, and not their median."""
    for seed, slower in enumerate((1.0, 1.1, 8.0)):
        rows = [timed(n, [2, 2 + n % 3], slower * (0.5 + 0.01 * n), slower) for n in range(12)]
        write_run(tmp_path / str(seed), rows, answers=None, seed=seed)
    assert {line.name: len(line.runs) for line in found(tmp_path)} == {"aded": 3, BASELINE: 3}
    for line in found(tmp_path):
        for name, (value, low, high) in line.estimates.items():
            assert (low or 0) <= value <= (high or 0), (line.name, name)


def test_ours_stands_beside_the_published_figure_and_their_ratio(tmp_path: Path) -> None:
    write_run(tmp_path / "a", [row(81 + number, 0, [2, 3]) for number in range(5)], settings=ORDER, **CORPUS)
    (line,) = frame(tmp_path).to_dict("records")
    assert line["vicuna-7b-v1.5: ours"] == "2.50 [2.50, 2.50] r1"
    assert line["vicuna-7b-v1.5: published"] == "2.00 p1"
    assert line["vicuna-7b-v1.5: ratio"] == "1.25 d1"
    sources = Footnotes()
    blocks(found(tmp_path), [FIGURE], sources)
    (text,) = (one for one in sources.legend() if one.startswith("d1"))
    assert "model vicuna-7b-v1.5, published vicuna-7b; corpus of 500 prompts and 3,900,000 tokens, published" in text
    (line,) = long_table(found(tmp_path), [FIGURE]).to_dict("records")
    assert (line["value"], line["runs"], line["ratio"], line["published_source"]) == (2.5, 1, 1.25, "P")
    assert line["folders"] == str(tmp_path / "a")


@pytest.mark.parametrize(
    "settings", [{"method.order": 2}, {**ORDER, "benchmark.limit": 3}, {**ORDER, "decoding.temperature": 0.7}]
)
def test_other_settings_stand_beside_nothing(tmp_path: Path, settings: dict[str, object]) -> None:
    write_run(tmp_path / "a", [row(81, 0, [2])], settings=settings)
    ours, theirs = frame(tmp_path).to_dict("records")
    assert ours["vicuna-7b-v1.5: published"] == "–"
    assert "vicuna-7b-v1.5: ratio" not in ours, "no row has one"
    assert (theirs["method"], theirs["vicuna-7b-v1.5: ours"]) == ("aded as published (order=3)", "–")


def test_the_budget_stands_beside_the_method_and_lines_are_sorted_by_it(tmp_path: Path) -> None:
    write_run(tmp_path / "plain", [row(81, 0, [1])], method="autoregressive")
    assert frame(tmp_path)["method"].tolist() == ["autoregressive"], "no figures of methods that were not run"
    for budget in (16, 8, 128):
        write_run(tmp_path / str(budget), [row(81, 0, [2])], settings={**ORDER, "method.budget": budget})
    lines = {f"aded (budget={budget})": str(budget) for budget in (8, 16, 128)}
    assert frame(tmp_path).set_index("method")["budget"].to_dict() == lines | {"autoregressive": "–"}
    assert frame(tmp_path)["method"].tolist() == [*lines, "autoregressive"]


def test_an_interval_that_contains_1_and_few_questions_are_remarked(tmp_path: Path) -> None:
    rows = [timed(number, [4], 1.0 + number % 2, 2.0 - number % 2) for number in range(6)]
    write_run(tmp_path / "a", rows, answers=None)
    write_run(tmp_path / "b", rows[:2], method="few", answers=None)
    sources = Footnotes()
    frames = blocks(found(tmp_path), [], sources)
    (table,) = (one for title, one in frames.items() if "speedup" in title)
    many, few = table["tiny: ours"]
    assert re.fullmatch(r"1\.00 \[0\.\d\d, 1\.\d\d\]¹³ m2", many)
    assert few == "1.00 m1"
    text = as_markdown(frames, sources)
    assert all(words in text for words in ("¹ The interval contains 1", "- m2: ", "Fewer than 5"))


def test_published_figures_are_read_table_1_first_and_a_damaged_file_is_refused(tmp_path: Path) -> None:
    figures = read_published()
    assert len({one.source for one in figures}) > 5
    write_run(tmp_path / "a", [row(81, 0, [2])], method="rest", settings={"method.threads": 6})
    one = beside(figures, "mean_accepted_tokens", read_runs([tmp_path])[0])
    assert one is not None
    assert (one.value, one.source) == (1.97, "arXiv 2407.12021v2, table 1")
    (tmp_path / FILES[0]).write_text("method,value\naded,2\n")
    with pytest.raises(BadInput, match=FILES[0]):
        read_published(tmp_path)


SETTINGS = (("order", "3"), ("draft_maker", "Mcts"))
MCTS = {**ORDER, "method.draft_maker._target_": "some.module.Mcts"}
FIGURES = [
    Published(method, "vicuna-7b", "mt_bench", "mean_accepted_tokens", value, None, settings, "A6000", source)
    for method, value, settings, source in (
        ("aded", 4.0, SETTINGS, f"{PAPER}table 1"),
        ("rest", 2.5, (), f"{PAPER}table 1"),
        ("rest", 9.0, (), "elsewhere"),
        ("lookahead", 1.9, (), f"{PAPER}table 1"),
    )
]


def replayed(folder: Path, accepted: int, tokens: int, scope: str = "prompt", **known: Any) -> None:
    known["settings"] = {"method.adaptation": scope, **known.get("settings", MCTS)}
    rows = [row(n, 0, [accepted, 2]) for n in range(6)]
    write_run(folder, rows, datastore=str(tokens), datastore_tokens=str(tokens), adaptation=scope, **known)


def test_each_cause_is_measured_or_says_that_it_is_not(tmp_path: Path) -> None:
    replayed(tmp_path / "large", 4, 4_000_000)
    replayed(tmp_path / "rest", 2, 4_000_000, method="rest", settings={})
    page = row_by_row(lines_of(read_runs([tmp_path])), FIGURES)
    assert page == "", "no cause is measured"
    replayed(tmp_path / "small", 2, 1_000_000)
    replayed(tmp_path / "session", 5, 4_000_000, "session")
    replayed(tmp_path / "off", 9, 8_000_000, "off")
    replayed(tmp_path / "original", 4, 4_000_000, "session", method="draftretriever", settings={})
    found = lines_of(read_runs([tmp_path]))
    aded, rest = paper_table(found, FIGURES).to_dict("records")
    assert (aded["ours, cold"], aded["ours, session"], aded["corpus"]) == ("3.00", "3.50", "4.0")
    assert (aded["paper"], aded["ratio"], aded["difference"]) == ("4.00", "0.88", "+0.50")
    assert aded["original code"] == "-0.50", "its own drafter, less ours, in one session"
    assert aded["corpus, per doubling"] == "+0.50 (1.0 to 4.0)", "3.00 - 2.00 over two doublings"
    assert aded["doublings"] == "2.0", "of the 1.00 that the original code leaves"
    assert (rest["original code"], rest["corpus, per doubling"]) == (NOT_MEASURED, NOT_MEASURED)
    page = row_by_row(found, FIGURES)
    assert "without a run here: 1 of mean accepted tokens" in page
