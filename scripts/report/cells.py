"""Cells of a table: the runs that may be counted together, their median and interval, and where they come from.

A cell holds runs of one method, model and benchmark with the same settings on the same machine; only the seed may
differ. Runs with other settings get a line of their own, which names what differs.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from aded.bench.finished_runs import FinishedRun
from aded.bench.metrics import Row

BASELINE = "autoregressive (paired)"
SEED = "decoding.seed"
RESAMPLES = 2000

Terms = Callable[[Row], tuple[float, ...] | None]
"""Of a row: numerators and denominators in turn, None where they were not measured."""


def _latency(row: Row) -> tuple[float, ...] | None:
    seconds = row["decode_seconds"]
    return None if seconds is None else (1000 * seconds, row["new_tokens"])


def _accepted(row: Row) -> tuple[float, ...]:
    return row["new_tokens"], row["steps"]


def _speedup(row: Row) -> tuple[float, ...] | None:
    mine, plain = row["decode_seconds"], row["autoregressive_decode_seconds"]
    if mine is None or plain is None:
        return None
    return row["new_tokens"], mine, plain, row["autoregressive_new_tokens"]


def _baseline_latency(row: Row) -> tuple[float, ...] | None:
    seconds = row["autoregressive_decode_seconds"]
    return None if seconds is None else (1000 * seconds, row["autoregressive_new_tokens"])


METRICS: dict[str, Terms] = {
    "latency_ms_per_token": _latency,
    "mean_accepted_tokens": _accepted,
    "speedup": _speedup,
}
"""As in the paper's table 1 and figure 3; each is a ratio of sums over rows (aded.bench.metrics)."""


@dataclass(frozen=True)
class Cell:
    """One number with its rows: the median over runs, and the 95 % bootstrap interval over their questions."""

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


def cells(runs: Sequence[FinishedRun]) -> list[Cell]:
    """Every number that the runs' rows give, by benchmark, model and line."""
    found = []
    names = _line_names(runs)
    groups: dict[tuple[str, ...], list[FinishedRun]] = defaultdict(list)
    for run in runs:
        groups[(run.benchmark, run.model, names[run.folder], run.method, run.machine, settings_key(run))].append(run)
    shared = Counter(key[:3] for key in groups)
    for key, mine in sorted(groups.items()):
        benchmark, model, line, method = key[:4]
        if shared[key[:3]] > 1:  # settings that one of them does not know
            line += f" [{mine[0].summary['run_id'][:6]}]"
        for metric, terms in METRICS.items():
            found += _cell(mine, (line, method, model, benchmark, metric), terms)
        found += _pass_rate(mine, line)
    return found + _baselines(runs)


def _baselines(runs: Sequence[FinishedRun]) -> list[Cell]:
    """Autoregressive decoding as it ran in turn with the methods, runs of like settings of the model together."""
    groups: dict[tuple[str, ...], list[FinishedRun]] = defaultdict(list)
    for run in runs:
        if any(row["autoregressive_decode_seconds"] is not None for row in run.rows):
            groups[
                (run.benchmark, run.model, run.machine, settings_key(run, without=("method.", "datastore")))
            ].append(run)
    found = []
    for (benchmark, model, *_), mine in sorted(groups.items()):
        key = (BASELINE, "autoregressive", model, benchmark, "latency_ms_per_token")
        found += _cell(mine, key, _baseline_latency)
    return found


def _cell(
    runs: Sequence[FinishedRun], key: tuple[str, str, str, str, str], terms: Terms, resamples: int = RESAMPLES
) -> list[Cell]:
    """The cell, or none where no run measured it."""
    by_run = [sums for sums in (_question_sums([run], terms) for run in runs) if len(sums)]
    if not by_run:
        return []
    value = float(np.median([_ratio(sums.sum(axis=0)) for sums in by_run]))
    if not np.isfinite(value):
        return []
    low, high = interval(_question_sums(runs, terms), resamples)
    return [Cell(*key, value, low, high, runs[0].kind, runs[0].machine, tuple(runs))]


def _pass_rate(runs: Sequence[FinishedRun], line: str) -> list[Cell]:
    """pass@1 of the runs whose samples were scored; without an interval."""
    scored = [run for run in runs if run.score is not None]
    if not scored:
        return []
    value = float(np.median([run.score["pass@1"] for run in scored if run.score]))
    first = scored[0]
    key = (line, first.method, first.model, first.benchmark, "pass@1")
    return [Cell(*key, value, None, None, first.kind, first.machine, tuple(scored))]


def _question_sums(runs: Sequence[FinishedRun], terms: Terms) -> np.ndarray:
    """float [questions, terms]: the sums over all turns and runs of each question."""
    by_question: dict[str, np.ndarray] = {}
    for row in (row for run in runs for row in run.rows):
        values = terms(row)
        if values is not None:
            by_question[row["question_id"]] = by_question.get(row["question_id"], 0) + np.array(values, float)
    return np.array(list(by_question.values()))


def _ratio(sums: np.ndarray) -> np.ndarray:
    """float [.., 2 or 4] to [..]: the product of the quotients; not finite where there is nothing to divide by."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return (sums[..., 0::2] / sums[..., 1::2]).prod(axis=-1)


def interval(sums: np.ndarray, resamples: int = RESAMPLES) -> tuple[float | None, float | None]:
    """95 % percentile bootstrap over questions, seeded as aded.bench.metrics.speedup_interval; none for fewer than two."""
    if len(sums) < 2:
        return None, None
    picks = np.random.default_rng(0).integers(len(sums), size=(resamples, len(sums)))
    values = _ratio(sums[picks].sum(axis=1))
    values = values[np.isfinite(values)]
    if not len(values):
        return None, None
    low, high = np.percentile(values, [2.5, 97.5])
    return float(low), float(high)


def settings_key(run: FinishedRun, without: tuple[str, ...] = ()) -> str:
    """A run's settings but its seed and the keys that begin with one of `without`, to compare by."""
    kept = {key: value for key, value in run.settings.items() if key != SEED and not key.startswith(without or "\0")}
    return json.dumps(kept, sort_keys=True, default=str)


def _line_names(runs: Sequence[FinishedRun]) -> dict[Any, str]:
    """The line of each run, by folder: its method and the settings that tell it from the method's other lines.

    Settings of method and decoding are compared between all runs of a method; those of model, benchmark and
    datastore, which differ from model to model anyway, within a model and benchmark.
    """
    names = {}
    for run in runs:
        alike = [other for other in runs if other.method == run.method]
        near = [other for other in alike if (other.model, other.benchmark) == (run.model, run.benchmark)]
        wide = _differing(alike, lambda key: key.startswith(("method.", "decoding.")))
        close = _differing(near, lambda key: not key.startswith(("method.", "decoding.")))
        differing = sorted((wide | close) & run.settings.keys() - {SEED})
        shown = [f"{_short(key)}={_value(run.settings[key])}" for key in differing]
        if len({other.machine for other in near}) > 1:
            shown.append(run.machine)
        names[run.folder] = f"{run.method} ({', '.join(shown)})" if shown else run.method
    return names


def _differing(runs: Sequence[FinishedRun], counted: Callable[[str], bool]) -> set[str]:
    """Keys with several values among the runs that have them: one draft maker's keys are none of another's."""
    values: dict[str, set[str]] = defaultdict(set)
    for run in runs:
        for key in filter(counted, run.settings):
            values[key].add(json.dumps(run.settings[key]))
    return {key for key, seen in values.items() if len(seen) > 1}


def _short(key: str) -> str:
    """The key as a reader knows it: method.draft_maker.c1 is c1, and a draft maker's class is the draft maker."""
    if key.endswith("._target_"):
        return key.split(".")[-2]  # as method.draft_maker._target_
    return key.removeprefix("method.").removeprefix("draft_maker.")


def _value(value: Any) -> str:
    if isinstance(value, str) and "." in value:
        return value.rpartition(".")[2]
    return "none" if value is None else str(value)[:12]
