"""The table of single runs, summary.md, and the ranking: what each row is, and what its numbers do not show."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import pandas as pd

from aded.records.config import BEFORE
from aded.records.finished_runs import FinishedRun
from aded.records.metrics import MISSING
from aded.records.rows import to_json
from aded.records.totals import FEWEST_QUESTIONS
from aded.report.columns import (
    COLUMNS,
    FEW,
    FEW_MARK,
    UNDECIDED,
    chosen,
    differing_workload,
    frame,
    listed,
    markdown,
    reasons,
    undecided,
)
from aded.report.lines import Line, against_first, each_run, lines_by_seed, settings_key
from aded.shown import in_markdown

DRIFT = 1.1
"""A paired autoregressive rate that differs by more than this factor between runs gets a remark."""
SIZED = "Trees are sized: cut to what pays on this machine. The published trees: method.cost=none."
OVER_SEEDS = (
    "Rows over several seeds: the mean over the seeds, and in brackets its 95 % interval (Student's t), for these "
    "questions."
)
DEFINITIONS = (
    "Accepted tokens are the mean per step: cold, what a method learns is forgotten between questions; session, it "
    "is kept over them. – is missing. docs/benchmark_definitions.md says how each number is defined, "
    "aded/records/summary.py explains every key of summary.csv."
)
NAMES = ("method", "learned from", "model", "benchmark", "answers", "questions")
SETTINGS = ("budget", "trees", "adaptation", "temperature", "seeds", "engine", "dtype", "machine")
"""Those that many methods and models share: a column where rows differ, else a note above the table."""
NUMBERS = (
    "tokens/s",
    "autoregressive tokens/s",
    "speedup [95 %]",
    "accepted tokens, cold",
    "accepted tokens, session",
    "identical outputs",
    "disturbed slices",
    "drafting share of the time",
    "peak memory, MB",
    "peak GPU memory, MB",
    "questions in the corpus",
)
RANKED = (
    "speedup [95 %]",
    "accepted tokens, cold",
    "accepted tokens, session",
    "tokens/s",
    "questions",
    "identical outputs",
    "disturbed slices",
    "questions in the corpus",
)


def summary_frame(lines: Sequence[Line]) -> pd.DataFrame:
    """A row per run, those that differ in the seed alone together, best first."""
    varied = [head for head in SETTINGS if len(_values(lines, head)) > 1]
    return frame(lines, chosen(*NAMES, *varied, *NUMBERS))


def ranking_frame(lines: Sequence[Line]) -> pd.DataFrame:
    """The same lines for a newcomer: without settings, each against the first."""
    found = frame(lines, chosen("method", "seeds", *differing_workload(lines), *RANKED))
    head, texts = against_first(lines)
    if set(texts) != {MISSING}:
        found.insert(1, head, texts)
    return found


def ranking(runs: Sequence[FinishedRun]) -> str:
    """The ranking in Markdown, and why numbers are marked."""
    lines = lines_by_seed(runs)
    remarks = "\n".join(map(in_markdown, doubts(lines)))
    return f"{markdown(ranking_frame(lines))}\n\n{remarks}\n"


def as_markdown(lines: Sequence[Line]) -> str:
    """summary.md: what the lines have in common, the table, and remarks."""
    return f"{listed(common(lines))}\n\n{markdown(summary_frame(lines))}\n\n{listed(notes(lines))}\n"


def all_numbers(runs: Sequence[FinishedRun]) -> pd.DataFrame:
    """One row per run, for programs: every key of summary.json, the row's name, and whose answers it has.

    What is no single value, such as mean_accepted_tokens_by_category, is JSON.
    """
    rows = []
    for line in each_run(runs):
        answers = COLUMNS["answers"].value(line)
        whole = vars(line.first.summary) | {"model": line.first.model, "line": line.name, "answers": answers}
        plain = None | str | int | float | list
        rows.append({key: value if isinstance(value, plain) else to_json(value) for key, value in whole.items()})
    return pd.DataFrame(rows)


def notes(lines: Sequence[Line]) -> list[str]:
    """What stands below the table."""
    return [*doubts(lines), DEFINITIONS]


def doubts(lines: Sequence[Line]) -> list[str]:
    """What numbers are of and do not show, and why marked speedups are doubtful."""
    found = [SIZED] if "sized" in _values(lines, "trees") else []
    if any(undecided(line.number("speedup")) for line in lines):
        found.append(UNDECIDED)
    if any(len(line.seeds) > 1 for line in lines):
        found.append(OVER_SEEDS)
    if any(line.questions < FEWEST_QUESTIONS for line in lines):
        found.append(f"{FEW_MARK} {FEW}")
    rates: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for line in lines:
        if (rate := line.number("autoregressive_tokens_per_second")) is not None:
            settings = settings_key(line.first, ("method.", "datastore"))
            rates[*line.workload, line.first.machine, settings].append(rate.value)
    for (benchmark, model, *_), mine in sorted(rates.items()):
        if max(mine) > DRIFT * min(mine):
            found.append(
                f"Autoregressive decoding of {model} on {benchmark} ran at {min(mine):.1f} to {max(mine):.1f} "
                "tokens/s: the machine's speed changed between runs. Speedups are paired; compare them, not tokens/s."
            )
    unreached = [
        f"{line.name}, at most {most} nodes"
        for line in lines
        if "budget=" in line.name and (most := line.unreached_budget) is not None
    ]
    if unreached:
        found.append(f"Budgets that no tree reached, so that a larger one changes nothing: {'; '.join(unreached)}.")
    return found + reasons(lines)


def _values(lines: Sequence[Line], head: str) -> set[str]:
    return {value for line in lines if (value := COLUMNS[head].value(line)) is not None}


def common(lines: Sequence[Line]) -> list[str]:
    """How much of each benchmark was answered, and the settings that all lines share."""
    found = []
    for benchmark in sorted({line.first.benchmark for line in lines}):
        mine = [line for line in lines if line.first.benchmark == benchmark]
        facts = [f"{_either({line.questions for line in mine})} questions"]
        limits = {line.first.config.get("benchmark.limit") for line in mine}
        if limits != {None}:
            facts.append(f"benchmark.limit={_either(limits)}")
        orders = {line.first.config.get("benchmark.order", BEFORE["benchmark.order"]) for line in mine}
        if orders != {BEFORE["benchmark.order"]}:
            facts.append(f"benchmark.order={_either(orders)}")
        tokens = {line.first.config.get("benchmark.max_new_tokens") for line in mine} - {None}
        if tokens:
            facts.append(f"at most {_either(tokens)} new tokens per answer")
        found.append(f"{benchmark}: {', '.join(facts)}")
    shared = [f"{head} {values.pop()}" for head in SETTINGS if len(values := _values(lines, head)) == 1]
    return [*found, *([f"in all rows that have the setting: {', '.join(shared)}"] if shared else [])]


def _either(values: set[Any]) -> str:
    return " or ".join("none" if one is None else str(one) for one in sorted(values, key=lambda one: one or 0))
