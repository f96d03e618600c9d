"""The table of single runs: what each row is, over how many questions, and what its numbers do not show."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd

from aded.records.config import BEFORE
from aded.records.finished_runs import FinishedRun
from aded.records.rows import to_json
from aded.records.summary import Summary
from scripts.report.cells import line_names, ranked, settings_key
from scripts.report.corpus_questions import COLUMN, corpus_questions, without_unchecked
from scripts.report.remarks import (
    FEW,
    FEW_MARK,
    FEW_QUESTIONS,
    MARK,
    MISSING,
    UNDECIDED,
    UNDECIDED_MARK,
    reasons,
    without_empty_columns,
)
from scripts.report.seeds import EXPLAINED as OVER_SEEDS
from scripts.report.seeds import interval, seeds, together

DRIFT = 1.1
"""A paired autoregressive rate that differs by more than this factor between runs gets a remark."""
DEFINITIONS = (
    "Accepted tokens are the mean per step: cold, what a method learns is forgotten between questions; session, it "
    "is kept over them. – is missing. docs/benchmark_definitions.md says how each number is defined, "
    "aded/records/summary.py explains every key of summary.csv."
)


def _number(value: float | None, form: str) -> str:
    return MISSING if value is None else format(value, form)


def answers(run: FinishedRun) -> str:
    """Whose answers the run has: the model decoded them here, or they were recorded elsewhere."""
    if run.kind == "measured":
        return "decoded"
    return "recorded" if run.kind == "recorded" else f"recorded, trace of {run.config['model.compute']}"


def _questions(run: FinishedRun) -> str:
    count = run.summary.questions
    return f"{count}{FEW_MARK if count < FEW_QUESTIONS else ''}"


def _undecided(run: FinishedRun) -> bool:
    low, high = run.summary.speedup_low, run.summary.speedup_high
    return low is not None and high is not None and low <= 1 <= high


def _speedup(run: FinishedRun) -> str:
    summary = run.summary
    if summary.speedup is None:
        return MISSING
    ends = f"[{_number(summary.speedup_low, '.2f')}, {_number(summary.speedup_high, '.2f')}]"
    marks = (UNDECIDED_MARK if _undecided(run) else "") + (MARK if summary.marks else "")
    return f"{summary.speedup:.2f} {ends}{marks}"


def _identical(run: FinishedRun) -> str:
    count = run.summary.identical_outputs
    return MISSING if count is None else f"{count} of {run.summary.turns}"


def _measured(run: FinishedRun, key: str, form: str) -> str:
    """A number; over several seeds with its interval."""
    text, (low, high) = _number(getattr(run.summary, key), form), interval(run, key)
    return text if low is None or high is None else f"{text} [{low:{form}}, {high:{form}}]"


def _accepted(run: FinishedRun, scope: str) -> str:
    return _measured(run, "mean_accepted_tokens", ".2f") if scope in run.columns else MISSING


def _setting(key: str) -> Callable[[FinishedRun], str]:
    def text(run: FinishedRun) -> str:
        unused = run.kind == "recorded" and key in ("engine", "model.dtype")  # no model ran
        value = None if unused else run.settings.get(key)
        return MISSING if value is None else str(value)

    return text


Column = Callable[[FinishedRun], str]
NAMES: dict[str, Column] = {
    "model": lambda run: run.model,
    "benchmark": lambda run: run.benchmark,
    "answers": answers,
    "questions": _questions,
}
SETTINGS: dict[str, Column] = {
    "budget": _setting("method.budget"),
    "adaptation": _setting("method.adaptation"),
    "temperature": _setting("decoding.temperature"),
    "seeds": lambda run: seeds(run) or MISSING,
    "engine": _setting("engine"),
    "dtype": _setting("model.dtype"),
    "machine": lambda run: run.machine,
}
"""Settings that many methods and models share: a column where rows differ, else a line above the table."""
NUMBERS: dict[str, Column] = {
    "tokens/s": lambda run: _measured(run, "tokens_per_second", ".1f"),
    "autoregressive tokens/s": lambda run: _measured(run, "autoregressive_tokens_per_second", ".1f"),
    "speedup [95 %]": _speedup,
    "accepted tokens, cold": lambda run: _accepted(run, "cold"),
    "accepted tokens, session": lambda run: _accepted(run, "session"),
    "identical outputs": _identical,
    "disturbed slices": lambda run: _number(run.summary.disturbed_share, ".0%"),
    "drafting share of the time": lambda run: _number(run.summary.draft_share, ".1%"),
    "peak memory, MB": lambda run: _number(run.summary.peak_memory_mb, ".0f"),
    "peak GPU memory, MB": lambda run: _number(run.summary.peak_gpu_memory_mb, ".0f"),
    COLUMN: corpus_questions,
}


RANKED = (
    "accepted tokens, cold",
    "accepted tokens, session",
    "tokens/s",
    "speedup [95 %]",
    "identical outputs",
    "disturbed slices",
    COLUMN,
)


def summary_frame(runs: Sequence[FinishedRun]) -> pd.DataFrame:
    """One row per run, those that differ in the seed alone together, best first.

    Columns that are empty in all rows are left out.
    """
    runs = together(runs)
    lines, ordered = _ordered(runs)
    varied = {name: column for name, column in SETTINGS.items() if len(_values(runs, column)) > 1}
    columns = {"method": lambda run: lines[run.folder], **NAMES, **varied, **NUMBERS}
    frame = pd.DataFrame([{name: column(run) for name, column in columns.items()} for run in ordered])
    return without_empty_columns(without_unchecked(frame))


def ranking(runs: Sequence[FinishedRun]) -> str:
    """The table for a newcomer: without settings, and why numbers are marked."""
    runs = together(runs)
    table = summary_frame(runs)
    kept = [name for name in ("model", "benchmark") if table[name].nunique() > 1]
    kept += [name for name in RANKED if name in table]
    remarks = "\n".join([*_remarks(runs), *_doubts(runs)])
    return f"{table[['method', *kept]].to_markdown(index=False, disable_numparse=True)}\n\n{remarks}\n"


def all_numbers(runs: Sequence[FinishedRun]) -> pd.DataFrame:
    """One row per run, for programs: every key of summary.json, the row's name, and whose answers it has.

    What is no single value, such as mean_accepted_tokens_by_category, is JSON.
    """
    lines, ordered = _ordered(runs)
    return pd.DataFrame(
        [
            {**_in_cells(run.summary), "model": run.model, "line": lines[run.folder], "answers": answers(run)}
            for run in ordered
        ]
    )


def _in_cells(summary: Summary) -> dict[str, Any]:
    return {
        key: value if value is None or isinstance(value, str | int | float | list) else to_json(value)
        for key, value in vars(summary).items()
    }


def as_text(runs: Sequence[FinishedRun]) -> str:
    """summary.md: what the rows have in common, the table, and remarks."""
    runs = together(runs)
    table = summary_frame(runs).to_markdown(index=False, disable_numparse=True)
    above = "\n".join(f"- {line}" for line in common(runs))
    below = "\n".join(f"- {line}" for line in notes(runs))
    return f"{above}\n\n{table}\n\n{below}\n"


def notes(runs: Sequence[FinishedRun]) -> list[str]:
    """What stands below the table."""
    return [*_remarks(runs), *_doubts(runs), DEFINITIONS]


def _doubts(runs: Sequence[FinishedRun]) -> list[str]:
    """Why marked speedups are doubtful."""
    lines, ordered = _ordered(runs)
    return reasons((f"{run.benchmark}, {run.model}", lines[run.folder], run.summary.marks) for run in ordered)


def _ordered(runs: Sequence[FinishedRun]) -> tuple[dict[Any, str], list[FinishedRun]]:
    """Names of the rows by folder, and the runs in the table's order."""
    lines = line_names(runs, seeds=True)
    return lines, ranked(runs)


def _values(runs: Sequence[FinishedRun], column: Column) -> set[str]:
    return {column(run) for run in runs} - {MISSING}


def common(runs: Sequence[FinishedRun]) -> list[str]:
    """How much of each benchmark was answered, and the settings that all rows share."""
    lines = []
    for benchmark in sorted({run.benchmark for run in runs}):
        mine = [run for run in runs if run.benchmark == benchmark]
        parts = [f"{_either({run.summary.questions for run in mine})} questions"]
        limits = {run.config.get("benchmark.limit") for run in mine}
        if limits != {None}:
            parts.append(f"benchmark.limit={_either(limits)}")
        orders = {run.config.get("benchmark.order", BEFORE["benchmark.order"]) for run in mine}
        if orders != {BEFORE["benchmark.order"]}:
            parts.append(f"benchmark.order={_either(orders)}")
        tokens = {run.config.get("benchmark.max_new_tokens") for run in mine} - {None}
        if tokens:
            parts.append(f"at most {_either(tokens)} new tokens per answer")
        lines.append(f"{benchmark}: {', '.join(parts)}")
    shared = [f"{name} {values.pop()}" for name, values in _shared(runs).items()]
    return [*lines, *([f"in all rows that have the setting: {', '.join(shared)}"] if shared else [])]


def _shared(runs: Sequence[FinishedRun]) -> dict[str, set[str]]:
    values = {name: _values(runs, column) for name, column in SETTINGS.items()}
    return {name: found for name, found in values.items() if len(found) == 1}


def _either(values: set[Any]) -> str:
    return " or ".join("none" if one is None else str(one) for one in sorted(values, key=lambda one: one or 0))


def _remarks(runs: Sequence[FinishedRun]) -> list[str]:
    remarks = [UNDECIDED] if any(map(_undecided, runs)) else []
    if any(map(seeds, runs)):
        remarks.append(OVER_SEEDS)
    if any(run.summary.questions < FEW_QUESTIONS for run in runs):
        remarks.append(f"{FEW_MARK} {FEW}")
    rates: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for run in runs:
        if (rate := run.summary.autoregressive_tokens_per_second) is not None:
            rates[run.benchmark, run.model, run.machine, settings_key(run, ("method.", "datastore"))].append(rate)
    for (benchmark, model, *_), found in sorted(rates.items()):
        if max(found) > DRIFT * min(found):
            remarks.append(
                f"Autoregressive decoding of {model} on {benchmark} ran at {min(found):.1f} to {max(found):.1f} "
                "tokens/s: the machine's speed changed between runs. Speedups are paired; compare them, not tokens/s."
            )
    return remarks
