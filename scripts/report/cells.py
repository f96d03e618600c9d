"""Cells of a table: the runs that may be counted together, their median and interval, and where they come from.

A cell holds runs of one method, model and benchmark with the same settings, on the same engine and machine; only the
seed may differ. Runs with other settings get a line of their own, which names what differs.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from aded.records.finished_runs import FinishedRun
from aded.records.metrics import Estimate, over_seeds
from aded.records.totals import Number, Totals, bootstrap_interval, stacked, totals_by_question, value_of

BASELINE = "autoregressive (paired)"
SEED = "decoding.seed"
MACHINE = "machine"


def _latency(totals: Totals) -> float | np.ndarray:
    return 1000 * totals.seconds / totals.tokens


def _baseline_latency(totals: Totals) -> float | np.ndarray:
    return 1000 * totals.autoregressive_seconds / totals.autoregressive_tokens


METRICS: dict[str, Number] = {
    "latency_ms_per_token": _latency,
    "mean_accepted_tokens": Totals.mean_accepted_tokens,
    "speedup": Totals.speedup,
}
"""As in the paper's table 1 and figure 3."""


@dataclass(frozen=True)
class Cell:
    """One number with its rows and its 95 % interval.

    Of several seeds the mean over them, and Student's interval of it; else the median over runs, and the bootstrap
    interval over the questions.
    """

    line: str
    """The method, and the settings in which it differs from other lines of the method."""
    method: str
    model: str
    benchmark: str
    metric: str
    value: float
    low: float | None
    high: float | None
    kind: str
    machine: str
    runs: tuple[FinishedRun, ...]

    @property
    def marks(self) -> list[str]:
        """Reasons to doubt what it says of time; other numbers have none."""
        timed = self.metric in ("speedup", "latency_ms_per_token")
        return sorted({mark for run in self.runs for mark in run.summary.marks}) if timed else []

    @property
    def seeds(self) -> int:
        return len({run.config.get(SEED) for run in self.runs})

    @property
    def questions(self) -> int:
        """Of the run with the fewest."""
        return min(run.summary.questions for run in self.runs)


def cells(runs: Sequence[FinishedRun]) -> list[Cell]:
    """Every number of the runs, made of their rows, in the order of `ranked`; the baselines last."""
    found = []
    names = line_names(runs)
    groups: dict[tuple[str, ...], list[FinishedRun]] = defaultdict(list)
    for run in ranked(runs):
        groups[(run.benchmark, run.model, names[run.folder], run.method, run.machine, settings_key(run))].append(run)
    for (benchmark, model, line, method, *_), mine in groups.items():
        totals = [totals_by_question(run.rows) for run in mine]
        for metric, number in METRICS.items():
            found += _cell(mine, totals, (line, method, model, benchmark, metric), number)
        found += _pass_rate(mine, line)
    return found + _baselines(runs)


def _baselines(runs: Sequence[FinishedRun]) -> list[Cell]:
    """Autoregressive decoding as it ran in turn with the methods; the model's runs of equal settings together."""
    groups: dict[tuple[str, ...], list[FinishedRun]] = defaultdict(list)
    for run in runs:
        if any(row.autoregressive_decode_seconds is not None for row in run.rows):
            settings = settings_key(run, without=("method.", "datastore"))
            groups[(run.benchmark, run.model, run.machine, settings)].append(run)
    found = []
    for (benchmark, model, *_), mine in sorted(groups.items()):
        key = (BASELINE, "autoregressive", model, benchmark, "latency_ms_per_token")
        found += _cell(mine, [totals_by_question(run.rows) for run in mine], key, _baseline_latency)
    return found


def _cell(
    runs: Sequence[FinishedRun],
    totals: Sequence[Mapping[str, Totals]],
    key: tuple[str, str, str, str, str],
    number: Number,
) -> list[Cell]:
    """The cell, or none where no run measured it. totals: of each run, by question."""
    whole = [value_of(number, stacked(mine.values())) for mine in totals]
    measured = [place for place, value in enumerate(whole) if value is not None]
    by_run = [totals[place] for place in measured]
    shared = [question for question in by_run[0] if all(question in mine for mine in by_run)] if by_run else []
    same = [stacked(mine[question] for question in shared) for mine in by_run]
    values = [value for one in same if (value := value_of(number, one)) is not None]
    if not values or len(values) < len(same):
        return []
    interval = bootstrap_interval(lambda *runs: np.median([number(run) for run in runs], axis=0), *same)
    estimate = _estimate([runs[place] for place in measured], values, interval)
    return [Cell(*key, *estimate, runs[0].kind, runs[0].machine, tuple(runs))]


def _pass_rate(runs: Sequence[FinishedRun], line: str) -> list[Cell]:
    """pass@1 of the runs whose samples were scored; of one seed without an interval."""
    scored = [run for run in runs if run.score is not None]
    if not scored:
        return []
    estimate = _estimate(scored, [run.score["pass@1"] for run in scored if run.score], (None, None))
    first = scored[0]
    key = (line, first.method, first.model, first.benchmark, "pass@1")
    return [Cell(*key, *estimate, first.kind, first.machine, tuple(scored))]


def _estimate(
    runs: Sequence[FinishedRun], values: Sequence[float], over_questions: tuple[float | None, float | None]
) -> Estimate:
    """The mean over seeds with its interval; of one seed the median over runs, with the interval over questions."""
    seeds = [run.config.get(SEED) for run in runs]
    return over_seeds(values, seeds) if len(set(seeds)) > 1 else (float(np.median(values)), *over_questions)


def settings_key(run: FinishedRun, without: tuple[str, ...] = ()) -> str:
    """A run's settings to compare by, without its seed and the keys that begin with one of `without`."""
    kept = {key: value for key, value in run.settings.items() if key != SEED and not key.startswith(without or "\0")}
    return json.dumps(kept, sort_keys=True, default=str)


def line_names(runs: Sequence[FinishedRun], seeds: bool = False, without: tuple[str, ...] = ()) -> dict[Path, str]:
    """The line of each run, by its folder: the method, and every setting in which the method's runs differ.

    seeds: name the seed too, where a line is one run.
    without: settings that a line does not name.

    Settings of method and decoding are compared between all runs of a method, settings of the benchmark between those
    on the benchmark. All others differ from model to model anyway, so they are compared within model and benchmark.
    """
    left_out = without if seeds else (SEED, *without)
    facts = {run.folder: _facts(run, left_out) for run in runs}
    values: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for run in runs:
        for key, value in facts[run.folder].items():
            values[_compared(run, key)].add(value)
    names = {}
    for run in runs:
        differing = [key for key in sorted(facts[run.folder]) if len(values[_compared(run, key)]) > 1]
        shown = [f"{_short(key)}={_shown(key, run.settings[key])}" for key in differing if key != MACHINE]
        shown += [run.machine] if MACHINE in differing else []
        names[run.folder] = f"{run.method} ({', '.join(shown)})" if shown else run.method
    return _distinct(runs, names, facts)


def _facts(run: FinishedRun, without: tuple[str, ...]) -> dict[str, str]:
    """Settings and machine as texts to compare."""
    kept = {key: json.dumps(value, default=str) for key, value in run.settings.items() if key not in without}
    return kept | {MACHINE: run.machine}


def _compared(run: FinishedRun, key: str) -> tuple[str, ...]:
    """Runs with an equal result are compared in this key."""
    if key.startswith(("method.", "decoding.")):
        return run.method, key
    if key.startswith("benchmark."):
        return run.method, key, run.benchmark
    return run.method, key, run.benchmark, run.model


def _distinct(
    runs: Sequence[FinishedRun], names: dict[Path, str], facts: dict[Path, dict[str, str]]
) -> dict[Path, str]:
    """The names; equal names of unequal runs, of which one has a setting that the other lacks, get a run's id."""
    ids: dict[tuple[str, ...], dict[str, str]] = defaultdict(dict)
    for run in runs:
        same = ids[run.benchmark, run.model, names[run.folder]]
        same.setdefault(json.dumps(facts[run.folder], sort_keys=True), run.summary.run_id)
    found = {}
    for run in runs:
        same = ids[run.benchmark, run.model, names[run.folder]]
        mark = f" [{same[json.dumps(facts[run.folder], sort_keys=True)][:6]}]" if len(same) > 1 else ""
        found[run.folder] = names[run.folder] + mark
    return found


def _short(key: str) -> str:
    """The key as a reader knows it: method.draft_maker.c1 is c1, and a draft maker's class is the draft maker."""
    if key.endswith("._target_"):
        return key.split(".")[-2]  # as method.draft_maker._target_
    return key.removeprefix("method.").removeprefix("draft_maker.")


def _shown(key: str, value: Any) -> str:
    """Of a class its name, of a fingerprint its beginning."""
    text = "none" if value is None else str(value)
    if key.endswith("._target_"):
        return text.rpartition(".")[2]
    return text[:12] if re.fullmatch("[0-9a-f]{32,}", text) else text


def ranked(runs: Sequence[FinishedRun]) -> list[FinishedRun]:
    """The runs in the order of every table."""
    names = line_names(runs, seeds=True)
    return sorted(
        runs,
        key=lambda run: table_order(
            run.benchmark, run.model, run.summary.speedup, names[run.folder], run.summary.mean_accepted_tokens
        ),
    )


def table_order(
    benchmark: str, model: str, speedup: float | None, line: str, accepted: float | None = None
) -> tuple[Any, ...]:
    """What every table and plot sorts by: best first, by speedup, then by accepted tokens; equal ones by name."""
    return benchmark, model, -(speedup or 0.0), -(accepted or 0.0), _by_number(line)


def _by_number(line: str) -> list[tuple[float, str]]:
    """Sorts budget=8 before budget=16: the line's numbers as numbers, and the text before each."""
    parts = re.findall(r"(\d+(?:\.\d+)?)|([^\d]+)", line)
    return [(float(number) if number else -1.0, text) for number, text in parts]
