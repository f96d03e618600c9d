"""The paper's tables row by row: what is measured of a difference, and what is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from made_up_run import row, write_run

from aded.records.finished_runs import read_runs
from scripts.report.lines import lines_of
from scripts.report.paper.published import Published
from scripts.report.paper.row_by_row import NOT_MEASURED, PAPER, as_markdown, paper_table

SETTINGS = (("order", "3"), ("draft_maker", "Mcts"))
MCTS = {"method.order": 3, "method.draft_maker._target_": "some.module.Mcts"}
METRIC = "mean_accepted_tokens"
FIGURES = [
    Published("aded", "vicuna-7b", "mt_bench", METRIC, 4.0, None, SETTINGS, "A6000", f"{PAPER}table 1"),
    Published("rest", "vicuna-7b", "mt_bench", METRIC, 2.5, None, (), "A6000", f"{PAPER}table 1"),
    Published("rest", "vicuna-7b", "mt_bench", METRIC, 9.0, None, (), "A100", "elsewhere"),
    Published("lookahead", "vicuna-7b", "mt_bench", METRIC, 1.9, None, (), "A6000", f"{PAPER}table 1"),
]


def replayed(folder: Path, accepted: int, tokens: int, scope: str = "prompt", **known: Any) -> None:
    known["settings"] = {"method.adaptation": scope, **known.get("settings", MCTS)}
    rows = [row(n, 0, [accepted, 2]) for n in range(6)]
    write_run(folder, rows, datastore=str(tokens), datastore_tokens=str(tokens), adaptation=scope, **known)


def test_each_cause_is_measured_or_says_that_it_is_not(tmp_path: Path) -> None:
    replayed(tmp_path / "large", 4, 4_000_000)
    replayed(tmp_path / "rest", 2, 4_000_000, method="rest", settings={})
    page = as_markdown(lines_of(read_runs([tmp_path])), FIGURES)
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
    page = as_markdown(found, FIGURES)
    assert "without a run here: 1 of mean accepted tokens" in page
