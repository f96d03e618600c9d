"""The columns of the table of runs: what each says of a line, in which form, and what it means.

Every table is a selection of them. It is written as Markdown, CSV and LaTeX, with marks and what they mean.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from tabulate import tabulate

from aded.files.datastores.cleaning import NOT_CHECKED, held_of
from aded.records.finished_runs import FinishedRun
from aded.records.metrics import MISSING, Estimate, formatted, with_interval
from aded.records.rows import Row
from aded.records.summary import Summary
from aded.records.totals import FEWEST_QUESTIONS
from aded.report.lines import ACCEPTED, SCOPES, Line
from aded.shown import in_csv, in_latex, in_markdown

FEW = f"Fewer than {FEWEST_QUESTIONS} questions: no interval, and no place in the ranking."
FEW_MARK = "²"
UNDECIDED_MARK = "¹"
UNDECIDED = f"{UNDECIDED_MARK} The interval contains 1: the run does not show whether the method gains time."
MARK = "³"
"""Beside a speedup that there is reason to doubt (aded.records.metrics)."""
NUMBER = re.compile(r"(\d+(?:\.\d+)?)")


def markdown(frame: pd.DataFrame) -> str:
    """A frame of texts."""
    return frame.map(in_markdown).rename(columns=in_markdown).to_markdown(index=False, disable_numparse=True)


def heading(text: str, level: int = 2) -> str:
    return f"{'#' * level} {in_markdown(text)}"


def listed(notes: Iterable[str]) -> str:
    return "\n".join(f"- {in_markdown(note)}" for note in notes)


def as_csv(frame: pd.DataFrame) -> str:
    return frame.astype(object).map(in_csv).rename(columns=in_csv).to_csv(index=False)


def as_latex(frames: Mapping[str, pd.DataFrame], notes: Sequence[str]) -> str:
    """A table to \\input for each frame of texts, by its title, and the notes below the last."""
    tables = [_table(title, frame.map(in_latex).rename(columns=in_latex)) for title, frame in frames.items()]
    below = "".join(f"\\noindent {in_latex(note)}\\par\n" for note in notes)
    return "\n".join([*tables, f"{{\\footnotesize\n{below}}}\n"])


def _table(title: str, frame: pd.DataFrame) -> str:
    table = tabulate(frame, headers="keys", tablefmt="latex_raw", showindex=False, disable_numparse=True)
    return f"\\begin{{table}}\n\\centering\\footnotesize\n\\caption{{{in_latex(title)}}}\n{table}\n\\end{{table}}\n"


def undecided(speedup: Estimate | None) -> bool:
    """Does its interval contain 1?"""
    return (
        speedup is not None
        and speedup.low is not None
        and speedup.high is not None
        and speedup.low <= 1 <= speedup.high
    )


def reasons(marked: Iterable[Line]) -> list[str]:
    """Why speedups are marked: a line for each benchmark, model and kind of reason, with the methods.

    Marks that differ in their numbers alone are of one kind.
    """
    methods: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    texts: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    for line in marked:
        for mark in line.marks:
            kind = ", ".join(line.workload), NUMBER.sub("0", mark)
            methods[kind][line.name] = texts[kind][mark] = None
    return [
        f"{MARK} {kind[0]}: {_merged([*texts[kind]])}: {', '.join(mine)}."
        for kind, mine in sorted(methods.items(), key=lambda item: item[0][0])
    ]


def _merged(texts: Sequence[str]) -> str:
    """Texts that differ in their numbers alone as one, which has the least and the most of each number."""
    pieces = zip(*map(NUMBER.split, texts), strict=True)
    ends = [sorted(set(piece), key=float) if place % 2 else piece[:1] for place, piece in enumerate(pieces)]
    return "".join(one[0] if len(one) == 1 else f"{one[0]} to {one[-1]}" for one in ends)


@dataclass(frozen=True)
class Column:
    """value: of a line; a number, an Estimate, a text or texts, None where it is missing. form: of a number."""

    about: str
    value: Callable[[Line], Any]
    form: str = ""

    def text(self, line: Line) -> Any:
        """What a cell says: a text, or texts."""
        return shown(self.value(line), self.form)

    def number(self, line: Line) -> Any:
        """The same for programs: numbers unrounded, texts as they are."""
        value = self.value(line)
        return value.value if isinstance(value, Estimate) else value


Columns = Mapping[str, Column]
"""By their heads."""


def shown(value: Any, form: str = ".2f") -> Any:
    """The text of a value; texts stay as they are."""
    if isinstance(value, Estimate):
        return with_interval(*value, form)
    return value if isinstance(value, str | list) else formatted(value, form)


def frame(lines: Iterable[Line], columns: Columns) -> pd.DataFrame:
    """A row of texts per line, without the columns that say nothing in all rows."""
    return without_empty_columns(
        pd.DataFrame([{head: column.text(line) for head, column in columns.items()} for line in lines])
    )


def without_empty_columns(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame without the columns that are missing, or not checked, in all rows."""
    return frame.loc[:, ((frame != MISSING) & (frame != NOT_CHECKED)).any(axis=0)]


def _setting(key: str) -> Callable[[Line], str | None]:
    def value(line: Line) -> str | None:
        unused = line.first.kind == "recorded" and key in ("engine", "model.dtype")  # no model ran
        found = None if unused else line.first.settings.get(key)
        return None if found is None else str(found)

    return value


def _trees(line: Line) -> str | None:
    cost = line.first.settings.get("method.cost")
    if cost is None or line.first.settings.get("method.budget") is None:
        return None
    return "whole" if cost == "none" or (cost == "measured" and line.first.kind == "recorded") else "sized"


def _answers(line: Line) -> str:
    kind = line.first.kind
    if kind == "trace":
        return f"recorded, trace of {line.first.config['model.compute']}"
    return "decoded" if kind == "measured" else kind


def _marked_speedup(line: Line) -> str | None:
    speedup = line.number("speedup")
    marks = (UNDECIDED_MARK if undecided(speedup) else "") + (MARK if line.marks else "")
    return f"{shown(speedup)}{marks}" if speedup or marks else None


def _learned_from(line: Line) -> str | None:
    """The record of a scorer names the models whose answers it learned from; the target may be one of them."""
    run = line.first
    found = run.environment.learned_from
    if found is None:
        return None
    known = {Path(str(name)).name.lower() for name in (run.model, run.config.get("model.path") or run.model)}
    named = set(re.findall(r"[\w.-]+?(?=\.jsonl|[^\w.-]|$)", (run.environment.scorer or "").lower()))
    own = ["the target's answers"] if known & named else []
    return ", ".join(dict.fromkeys([*found, *own])) or "nothing"


def _identical(line: Line) -> str | None:
    count = line.count("identical_outputs")
    return None if count is None else f"{count} of {line.count('turns')}"


def _accepted(scope: str) -> Column:
    kept = "forgotten between" if scope == "cold" else "kept over"
    return Column(
        f"New tokens / steps, the bonus token included, where what a method learns is {kept} questions; "
        "autoregressive decoding is 1.00.",
        lambda line: line.number(ACCEPTED) if scope in line.first.columns else None,
        ".2f",
    )


def corpus_questions(run: FinishedRun) -> str | None:
    """How many questions of the benchmark the corpus of the datastore holds; None where the method reads none."""
    if run.environment.datastore is None:
        return None
    asked = run.environment.files.get("benchmark.question_file")
    return held_of(run.environment.datastore_questions, run.benchmark, asked)


KEYS = {each.name: each.metadata for each in fields(Summary)}


def explained(key: str) -> str:
    """What a key of summary.json means."""
    about = KEYS[key]
    unit = f", in {about['unit']}" if about["unit"] else ""
    null = f"; missing where {about['null']}" if about["null"] else ""
    return f"{about['about'][0].upper()}{about['about'][1:]}{unit}{null}."


def _rate(key: str) -> Column:
    return Column(explained(key), lambda line: line.number(key), ".1f")


def _number(key: str, form: str) -> Column:
    """Without an interval: it says how the numbers were measured."""
    return Column(explained(key), lambda line: (found := line.number(key)) and found.value, form)


def _of_steps(about: str, name: str) -> Column:
    return Column(f"Mean of a step: {about}", lambda line: step_ms(line.rows, name), ".3f")


def step_ms(rows: Iterable[Row], name: str) -> float | None:
    """The mean of a step's times of a name in Timing, over every time that a row was decoded."""
    found = [times for row in rows for timing in row.timings if (times := getattr(timing, name)) is not None]
    return _mean([ms for times in found for ms in times])


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def median_ms(line: Line, name: str) -> float | None:
    """The median over steps of times of a name in Timing, of the first time that each row was decoded."""
    found = [ms for row in line.rows for ms in getattr(row.timings[0], name)]
    return float(np.median(found)) if found else None


def _prefill(line: Line) -> float | None:
    return _mean([1000 * row.prefill_seconds for row in line.rows if row.prefill_seconds is not None])


def _latency(key: str) -> Column:
    """Of several seeds, the first."""

    def value(line: Line) -> str | None:
        found = getattr(line.first.summary, key)
        return found and f"{found.p50:.1f} / {found.p95:.1f} / {found.p99:.1f}"

    return Column(f"p50 / p95 / p99. {explained(key)}", value)


def _of_machine(about: str, name: str, said: Callable[[list[Any]], str]) -> Column:
    """name: of what each time that a row was decoded says of the machine; missing where none knows it."""

    def value(line: Line) -> str | None:
        uses = [getattr(timing.machine, name) for row in line.rows for timing in row.timings]
        known = [use for use in uses if use is not None]
        return said(known) if known else None

    return Column(about, value)


def _commit(line: Line) -> str | None:
    environment = line.first.environment
    return environment.git_commit and environment.git_commit[:12] + (
        " and changes" if environment.git_changed else ""
    )


def _what_is_missing(line: Line) -> list[str]:
    """What a reader may look for in the report and not find, and why."""
    run = line.first
    found = {
        f"cut off after {line.questions} questions: the numbers are of these": run.cut_off,
        "answers were replayed without a model: no times, no speedup": run.kind == "recorded",
        "no speedup: no step was needed": not run.summary.steps,
        "no speedup: it ran without autoregressive decoding in turn": run.kind != "recorded"
        and run.summary.slices is None,
        "no calibration: the method gives no probabilities": all(row.calibration is None for row in line.rows),
    }
    return [reason for reason, holds in found.items() if holds]


COLUMNS: dict[str, Column] = {
    "method": Column("The method's name, and the settings in which its runs here differ.", lambda line: line.name),
    "model": Column(
        "The target, which verifies the drafts; of recorded answers the model that gave them.",
        lambda line: line.first.model,
    ),
    "benchmark": Column("Whose questions were answered.", lambda line: line.first.benchmark),
    "answers": Column(
        "decoded: a model decoded here; recorded: replayed; trace: replayed at a real model's cost.", _answers
    ),
    "questions": Column(
        explained("questions"),
        lambda line: f"{line.questions}{FEW_MARK if line.questions < FEWEST_QUESTIONS else ''}",
    ),
    "budget": Column("The most drafted nodes per step.", _setting("method.budget")),
    "learned from": Column(
        "What the method, or a file that it reads, was made from before the first prompt. What it reads while it "
        "decodes, earlier answers of the session among them, is no part of it.",
        _learned_from,
    ),
    "trees": Column("sized: cut to what pays by cost; whole: of the whole budget, as published.", _trees),
    "adaptation": Column("How long what a method learns is kept.", _setting("method.adaptation")),
    "temperature": Column("0: the most probable token.", _setting("decoding.temperature")),
    "seeds": Column(
        "Runs that differ in these seeds alone are one row: numbers are means over the seeds.",
        lambda line: ", ".join(line.seeds) if len(line.seeds) > 1 else None,
    ),
    "engine": Column("What carries out a forward.", _setting("engine")),
    "dtype": Column("Of the target's weights.", _setting("model.dtype")),
    "machine": Column("Processor or GPU, and the threads that compute.", lambda line: line.first.machine),
    "tokens/s": _rate("tokens_per_second"),
    "autoregressive tokens/s": _rate("autoregressive_tokens_per_second"),
    "speedup [95 %]": Column(
        f"{explained('speedup')} In brackets its interval, by a bootstrap over questions; over several seeds by "
        "Student's t. One that contains 1 does not show a gain.",
        _marked_speedup,
    ),
    **{f"accepted tokens, {scope}": _accepted(scope) for scope in SCOPES},
    "identical outputs": Column(explained("identical_outputs"), _identical),
    "disturbed slices": _number("disturbed_share", ".0%"),
    "drafting share of the time": _number("draft_share", ".1%"),
    "drafted nodes": _number("drafted_nodes_per_step", ".1f"),
    "draft, ms": _of_steps("the drafter's search.", "draft_ms"),
    "verify, ms": _of_steps("the target's forward over the tree, the accepted path, the cache.", "verify_ms"),
    "observe, ms": _of_steps("the drafter learns what was accepted.", "observe_ms"),
    "prefill, ms": Column(
        "Mean of an answer: the target's forward over the prompt. No part of the speedup.", _prefill, ".3f"
    ),
    "time to first token, ms": _latency("time_to_first_token_ms"),
    "inter-token latency, ms": _latency("inter_token_latency_ms"),
    "step latency, ms": _latency("step_latency_ms"),
    "end-to-end, ms": _latency("end_to_end_ms"),
    "draft, median ms": _number("draft_ms_median", ".2f"),
    "draft, 99 % ms": _number("draft_ms_p99", ".2f"),
    "system": Column("The operating system.", lambda line: line.first.environment.machine.system),
    "commit": Column("Of the program.", _commit),
    "slices": Column(explained("slices"), lambda line: line.count("slices"), "d"),
    "taken by others": _number("others_cpu_share", ".0%"),
    "highest load": _of_machine("The system's load average of a minute.", "load", lambda loads: f"{max(loads):.1f}"),
    "clock, MHz": _of_machine(
        "Of the processors.", "clock_mhz", lambda clocks: f"{min(clocks):.0f} to {max(clocks):.0f}"
    ),
    "throttled turns": _of_machine(
        "Turns in which the processor was too hot.", "throttled", lambda hot: f"{sum(hot)} of {len(hot)}"
    ),
    "other GPU processes": _of_machine("The most at a time.", "gpu_processes", lambda counts: str(max(counts))),
    "turns decoded again": Column(
        "Turns timed more than once, since the machine was disturbed.",
        lambda line: sum(len(row.timings) > 1 for row in line.rows),
        "d",
    ),
    "peak memory, MB": _number("peak_memory_mb", ".0f"),
    "peak GPU memory, MB": _number("peak_gpu_memory_mb", ".0f"),
    "questions in the corpus": Column(
        "Of the benchmark, those that the corpus of the method's datastore holds; – where it reads none.",
        lambda line: corpus_questions(line.first),
    ),
    "what is missing": Column("What this run has no data for, and why.", _what_is_missing),
    "folder": Column("Of the run's record.", lambda line: str(line.first.folder)),
}
"""By their heads."""


def chosen(*heads: str) -> dict[str, Column]:
    return {head: COLUMNS[head] for head in heads}


def differing_workload(lines: Sequence[Line]) -> list[str]:
    """model and benchmark, where not all lines have the same."""
    return [head for head in ("model", "benchmark") if len({COLUMNS[head].value(line) for line in lines}) > 1]
