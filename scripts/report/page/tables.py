"""The tables of the page. What a cell says is a text; the CSV has the unrounded numbers where there are any."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import pandas as pd

from aded.records.finished_runs import FinishedRun
from aded.records.rows import Row
from aded.records.summary import Summary
from scripts.report.accepted_tokens import by_category, by_position, headline, lines, tables_of
from scripts.report.cells import line_names, ranked
from scripts.report.comparison import Sources
from scripts.report.corpus_questions import COLUMN
from scripts.report.parts import EXPLAINED, parts_table
from scripts.report.ranking import number, ranking_frame, without_common
from scripts.report.remarks import MISSING, without_empty_columns
from scripts.report.summary_table import all_numbers

ACCEPTED = "mean_accepted_tokens.md"


@dataclass(frozen=True)
class Table:
    """name: of its CSV file; frame: what is shown, texts or lists of texts; csv: what the file has.

    file: what `aded tables` writes it into, if it does.
    """

    name: str
    title: str
    frame: pd.DataFrame
    csv: str
    note: str = ""
    file: str = ""


def table(
    name: str, title: str, frame: pd.DataFrame, note: str = "", numbers: pd.DataFrame | None = None, file: str = ""
) -> Table:
    """numbers: the same unrounded, for the CSV."""
    return Table(name, title, frame, (frame if numbers is None else numbers).to_csv(index=False), note, file)


def ranking(runs: Sequence[FinishedRun]) -> Table:
    return table("ranking", "", ranking_frame(runs), numbers=all_numbers(runs), file="summary.csv")


def what_is_missing(run: FinishedRun, has_trees: bool) -> list[str]:
    """What a reader may look for in the report and not find, and why."""
    found = []
    if run.cut_off:
        found.append(f"cut off after {run.summary.questions} questions: the numbers are of these")
    if run.kind == "recorded":
        found.append("answers were replayed without a model: no times, no speedup")
    elif run.summary.speedup is None:
        found.append("no speedup: it ran without autoregressive decoding in turn")
    if all(row.calibration is None for row in run.rows):
        found.append("no calibration: the method gives no probabilities")
    if not has_trees:
        found.append("no draft trees: run it with record.trees=2")
    return found


def runs_shown(runs: Sequence[FinishedRun], with_trees: set[str]) -> Table:
    """with_trees: names of the runs whose trees the page has."""
    names = line_names(runs, seeds=True)
    rows = [
        {
            "method": names[run.folder],
            "model": run.model,
            "benchmark": run.benchmark,
            "answers": run.kind,
            "what is missing": what_is_missing(run, names[run.folder] in with_trees),
            "folder": str(run.folder),
        }
        for run in ranked(runs)
    ]
    return table("runs", "", without_common(pd.DataFrame(rows)))


def accepted(runs: Sequence[FinishedRun]) -> list[Table]:
    """By task and by depth, a table per benchmark, model and scope."""
    found = []
    for key, mine in _groups(runs).items():
        for scopes, scope in tables_of(mine).items():
            name = f"{'-'.join(key)}-{scope}"
            if len({row.category for row in mine[0].first.rows}) > 1:
                title = f"{', '.join(key)}, {scopes}: by task"
                found.append(table(f"tasks-{name}", title, by_category(mine, scope, []), file=ACCEPTED))
            found.append(
                table(
                    f"depths-{name}",
                    f"{', '.join(key)}, {scopes}: by depth in the draft tree",
                    by_position(mine, scope),
                    "Of all steps, the share that accepted drafts down to this depth; in brackets: of those that "
                    "accepted the depth above.",
                    file=ACCEPTED,
                )
            )
    return found


def parts_of_hybrids(runs: Sequence[FinishedRun]) -> list[Table]:
    """Who drafted the accepted nodes, where a run has parts."""
    frame = parts_table(runs)
    return [table("parts", "The parts of hybrids", frame, EXPLAINED, file="parts.csv")] if len(frame) else []


def cold_and_session(runs: Sequence[FinishedRun]) -> list[Table]:
    return [
        table(f"cold-session-{'-'.join(key)}", ", ".join(key), headline(mine, [], [], Sources()), file=ACCEPTED)
        for key, mine in _groups(runs).items()
    ]


def _groups(runs: Sequence[FinishedRun]) -> dict[tuple[str, str], list[Any]]:
    groups: dict[tuple[str, str], list[Any]] = {}
    for line in lines(runs):
        groups.setdefault((line.benchmark, line.model), []).append(line)
    return groups


PARTS = ("draft", "verify", "observe")


def _step_ms(rows: Sequence[Row], part: str) -> float | None:
    """Mean milliseconds per step of one part, of every time that a row was decoded."""
    timings = [timing for row in rows for timing in row.timings if getattr(timing, f"{part}_ms") is not None]
    steps = sum(len(timing.draft_ms) for timing in timings)
    return sum(sum(getattr(timing, f"{part}_ms")) for timing in timings) / steps if steps else None


def times(runs: Sequence[FinishedRun]) -> Table:
    names = line_names(runs, seeds=True)
    rows = []
    for run in ranked(runs):
        prefill = [1000 * row.prefill_seconds for row in run.rows if row.prefill_seconds is not None]
        rows.append(
            {"method": names[run.folder], "model": run.model, "benchmark": run.benchmark}
            | {f"{part}, ms": _step_ms(run.rows, part) for part in PARTS}
            | {
                "prefill, ms": sum(prefill) / len(prefill) if prefill else None,
                "draft, median ms": run.summary.draft_ms_median,
                "draft, 99 % ms": run.summary.draft_ms_p99,
                "drafting share": run.summary.draft_share,
            }
        )
    numbers = pd.DataFrame(rows, dtype=object)
    shown = numbers.apply(lambda column: [_shown(value, column.name) for value in column])
    return table("times", "", without_common(without_empty_columns(shown)), numbers=numbers)


def _shown(value: Any, column: Any) -> str:
    if value is None or isinstance(value, str):
        return MISSING if value is None else value
    return format(value, ".1%" if "share" in str(column) else ".3f")


def machines(runs: Sequence[FinishedRun]) -> Table:
    names = line_names(runs, seeds=True)
    rows = []
    for run in ranked(runs):
        uses = [timing.machine for row in run.rows for timing in row.timings]
        clocks = [use.clock_mhz for use in uses if use.clock_mhz is not None]
        hot = [use.throttled for use in uses if use.throttled is not None]
        rows.append(
            {
                "method": names[run.folder],
                "model": run.model,
                "benchmark": run.benchmark,
                "machine": run.machine,
                "system": run.environment.machine.system,
                "engine": run.environment.engine or MISSING,
                "commit": (run.environment.git_commit or MISSING)[:12]
                + (" and changes" if run.environment.git_changed else ""),
                "slices": MISSING if run.summary.slices is None else str(run.summary.slices),
                "disturbed slices": number(run.summary.disturbed_share, ".0%"),
                "taken by others": number(run.summary.others_cpu_share, ".0%"),
                "highest load": number(max((use.load for use in uses), default=None), ".1f"),
                "clock, MHz": f"{min(clocks):.0f} to {max(clocks):.0f}" if clocks else MISSING,
                "throttled turns": f"{sum(hot)} of {len(hot)}" if hot else MISSING,
                "other GPU processes": str(max((use.gpu_processes or 0 for use in uses), default=0)),
                "peak memory, MB": number(run.summary.peak_memory_mb, ".0f"),
                "peak GPU memory, MB": number(run.summary.peak_gpu_memory_mb, ".0f"),
                "turns decoded again": str(sum(len(row.timings) > 1 for row in run.rows)),
            }
        )
    return table("machine", "", without_common(without_empty_columns(pd.DataFrame(rows))))


def differing_settings(runs: Sequence[FinishedRun]) -> Table:
    """A row per setting in which the runs differ, a column per run; Hydra's own keys, as _partial_, are left out."""
    names = line_names(runs, seeds=True)
    everything = {key for run in runs for key in run.settings}
    rows = []
    for key in sorted(key for key in everything if not key.endswith("_")):
        values = [str(run.settings.get(key, MISSING)) for run in ranked(runs)]
        if len(set(values)) > 1:
            rows.append([key, *values])
    heads = ["setting", *(f"{number}. {names[run.folder]}" for number, run in enumerate(ranked(runs), 1))]
    return table("settings", "Settings that differ", pd.DataFrame(rows, columns=heads))


OWN = {
    "method": "The method's name, and the settings in which its runs here differ.",
    "model": "The target, which verifies the drafts; of recorded answers the model that gave them.",
    "benchmark": "Whose questions were answered.",
    "seeds": "Runs that differ in these seeds alone are one row: numbers are means over the seeds.",
    "95 % interval": "Of the speedup, by a bootstrap over questions; over several seeds by Student's t. One "
    "that contains 1 does not show a gain.",
    "accepted tokens": "New tokens / steps, the bonus token included; autoregressive decoding is 1.00.",
    "answers": "measured: a model decoded here; recorded: replayed; trace: replayed at a real model's cost.",
    COLUMN: "Of the benchmark, those that the corpus of the method's datastore holds; – where it reads none.",
    "what is missing": "What this run has no data for, and why.",
    "draft, ms": "Mean of a step: the drafter's search.",
    "verify, ms": "Mean of a step: the target's forward over the tree, the accepted path, the cache.",
    "observe, ms": "Mean of a step: the drafter learns what was accepted.",
    "prefill, ms": "Mean of an answer: the target's forward over the prompt. No part of the speedup.",
    "drafting share": "Draft and observe, of the decode time.",
    "highest load": "The system's load average of a minute.",
    "taken by others": "Share of the processors' time that other programs and virtual machines took.",
    "turns decoded again": "Turns timed more than once, since the machine was disturbed.",
    "machine": "Processor or GPU, and torch's threads.",
}
"""Of column heads that are no keys of a summary."""
KEYS = {
    "speedup": "speedup",
    "identical outputs": "identical_outputs",
    "drafted nodes": "drafted_nodes_per_step",
    "tokens/s": "tokens_per_second",
    "autoregressive tokens/s": "autoregressive_tokens_per_second",
    "questions": "questions",
    "marks": "marks",
    "draft, median ms": "draft_ms_median",
    "draft, 99 % ms": "draft_ms_p99",
    "slices": "slices",
    "disturbed slices": "disturbed_share",
    "peak memory, MB": "peak_memory_mb",
    "peak GPU memory, MB": "peak_gpu_memory_mb",
}
"""Of column heads that are keys of a summary."""


def definitions() -> dict[str, str]:
    """What each column head means, the page's own first, then every key of a summary."""
    explained = {key.name: _explained(key.metadata) for key in fields(Summary)}
    return OWN | {head: explained[key] for head, key in KEYS.items()} | explained


def _explained(about: Any) -> str:
    text = str(about["about"])
    unit = f", in {about['unit']}" if about["unit"] else ""
    null = f"; missing where {about['null']}" if about["null"] else ""
    return f"{text[0].upper()}{text[1:]}{unit}{null}."
