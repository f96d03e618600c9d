"""The table of runs behind every output: which runs are a line, what it is called, where it stands, and its numbers.

A line is of one method, model and benchmark with the same settings, on the same engine and machine; only the seed may
differ. Runs with other settings have a line of their own, which names what differs.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from aded.records.finished_runs import FinishedRun
from aded.records.metrics import Estimate, over_seeds
from aded.records.rows import Row
from aded.records.totals import Measure, Totals, bootstrap_interval, stacked, totals_by_question, value_of
from aded.report.names import SEED, by_number, line_names

SCOPES = ("cold", "session")
BUDGET = "method.budget"
ACCEPTED = "mean_accepted_tokens"
BASELINE = "autoregressive (paired)"


def _latency(totals: Totals) -> float | np.ndarray:
    return 1000 * totals.seconds / totals.tokens


def _baseline_latency(totals: Totals) -> float | np.ndarray:
    return 1000 * totals.autoregressive_seconds / totals.autoregressive_tokens


METRICS: dict[str, Measure] = {
    "latency_ms_per_token": _latency,
    ACCEPTED: Totals.mean_accepted_tokens,
    "speedup": Totals.speedup,
}
"""As in the paper's table 1 and figure 3."""
BASELINE_METRICS: dict[str, Measure] = {"latency_ms_per_token": _baseline_latency}


@dataclass(frozen=True)
class Line:
    """Runs that count together.

    name: the method, and the settings in which it differs from other lines of the method.
    is_baseline: it is the autoregressive decoding that ran in turn with the runs.
    """

    name: str
    runs: tuple[FinishedRun, ...]
    is_baseline: bool = False

    @property
    def first(self) -> FinishedRun:
        return self.runs[0]

    @property
    def method(self) -> str:
        return "autoregressive" if self.is_baseline else self.first.method

    @property
    def workload(self) -> tuple[str, str]:
        """Benchmark and model."""
        return self.first.benchmark, self.first.model

    @cached_property
    def rows(self) -> list[Row]:
        return [row for run in self.runs for row in run.rows]

    @property
    def seeds(self) -> list[str]:
        return sorted({str(run.config.get(SEED)) for run in self.runs}, key=lambda seed: (len(seed), seed))

    @property
    def marks(self) -> list[str]:
        """Reasons to doubt what it says of time."""
        return list(dict.fromkeys(mark for run in self.runs for mark in run.summary.marks))

    @property
    def questions(self) -> int:
        """Of the run with the fewest."""
        return min(run.summary.questions for run in self.runs)

    @property
    def unreached_budget(self) -> int | None:
        """Drafted nodes of its largest tree, where its budget is larger: such a budget changes nothing."""
        budget = self.first.settings.get(BUDGET)
        largest = max((max(row.drafted_nodes, default=0) for row in self.rows), default=0)
        return largest if isinstance(budget, int) and largest < budget else None

    def corpus_size(self, unit: str) -> float:
        """Of its datastore's corpus, in "tokens" or "prompts"; 0: none, or not known."""
        return float(self.first.settings.get(f"datastore_{unit}", 0))

    def number(self, key: str) -> Estimate | None:
        """A number of summary.json and its interval, where it has one; of several runs as in `estimates`."""
        values = [getattr(run.summary, key) for run in self.runs]
        if None in values:
            return None
        if len(values) == 1:
            ends = (getattr(self.first.summary, f"{key}_{end}", None) for end in ("low", "high"))
            return Estimate(values[0], *ends)
        return _of_several(self.runs, values)

    def count(self, key: str) -> int | None:
        """A count of summary.json, of all runs."""
        values = [getattr(run.summary, key) for run in self.runs]
        return None if None in values else sum(values)

    def of_rows(self, measure: Callable[[Sequence[Row]], float | None]) -> Estimate | None:
        """A number of each run's rows; of several runs as in `estimates`."""
        found = [(value, run) for run in self.runs if (value := measure(run.rows)) is not None]
        values = [value for value, _ in found]
        return _of_several([run for _, run in found], values) if found else None

    @cached_property
    def estimates(self) -> dict[str, Estimate]:
        """METRICS and pass@1, those that its runs measured.

        Of several seeds the mean over them, and Student's interval of it; else the median over runs, and the
        bootstrap interval over the questions that all answered.
        """
        totals = [totals_by_question(run.rows) for run in self.runs]
        metrics = BASELINE_METRICS if self.is_baseline else METRICS
        if any(run.summary.speedup is None for run in self.runs):
            metrics = {name: measure for name, measure in metrics.items() if name != "speedup"}
        found = {name: self._estimate(totals, measure) for name, measure in metrics.items()}
        scored = self.measuring("pass@1").runs
        if scored and not self.is_baseline:
            rates = [run.pass_at_1 for run in scored if run.pass_at_1 is not None]
            found["pass@1"] = _of_several(scored, rates)
        return {name: estimate for name, estimate in found.items() if estimate is not None}

    def _estimate(self, totals: Sequence[Mapping[str, Totals]], measure: Measure) -> Estimate | None:
        """totals: of each run, by question."""
        whole = [value_of(measure, stacked(mine.values())) for mine in totals]
        measured = [index for index, value in enumerate(whole) if value is not None]
        by_run = [totals[index] for index in measured]
        shared = [question for question in by_run[0] if all(question in mine for mine in by_run)] if by_run else []
        same = [stacked(mine[question] for question in shared) for mine in by_run]
        values = [value for one in same if (value := value_of(measure, one)) is not None]
        if not values or len(values) < len(same):
            return None
        interval = bootstrap_interval(lambda *runs: np.median([measure(run) for run in runs], axis=0), *same)
        return _of_several([self.runs[index] for index in measured], values, interval)

    def measuring(self, metric: str) -> Line:
        """Those of its runs that a number is of: of pass@1 the ones whose samples were scored."""
        mine = [run for run in self.runs if metric != "pass@1" or run.pass_at_1 is not None]
        return Line(self.name, tuple(mine), self.is_baseline)

    @cached_property
    def by_scope(self) -> dict[str, Line]:
        """The runs whose accepted tokens stand in each column of SCOPES, where there are some."""
        mine = {scope: tuple(run for run in self.runs if scope in run.columns) for scope in SCOPES}
        return {scope: Line(self.name, runs) for scope, runs in mine.items() if runs}


def _of_several(
    runs: Sequence[FinishedRun],
    values: Sequence[float],
    over_questions: tuple[float | None, float | None] = (None, None),
) -> Estimate:
    """The mean over seeds with its interval; of equal seeds the median."""
    seeds = [run.config.get(SEED) for run in runs]
    if len(set(seeds)) > 1:
        return over_seeds(values, seeds)
    return Estimate(float(np.median(values)), *over_questions)


def each_run(runs: Sequence[FinishedRun]) -> list[Line]:
    """A line for each run, which names its seed where it differs from others; best first."""
    names = line_names(runs)
    return in_order(Line(names[run.folder], (run,)) for run in runs)


def lines_of(runs: Sequence[FinishedRun], without: Sequence[str] = ()) -> list[Line]:
    """The runs that differ in nothing but their seed as one line; in the order of their best runs.

    One that was cut off is alone, and has a number from the second on: it has other questions.

    without: further settings in which a line's runs may differ, by the beginnings of their keys.
    """
    names = line_names(runs, (SEED, *without))
    found: dict[tuple[Any, ...], list[FinishedRun]] = defaultdict(list)
    for one in each_run(runs):
        run, name = one.first, names[one.first.folder]
        key = (f"{name}, cut off", run.folder) if run.cut_off else (name, None)
        found[one.workload, *key].append(run)
    lines, times = [], Counter[Any]()
    for (workload, name, _), mine in found.items():
        times[workload, name] += 1
        number = times[workload, name]
        lines.append(Line(name if number == 1 else f"{name} {number}", tuple(mine)))
    return lines


def in_both_scopes(runs: Sequence[FinishedRun], without: Sequence[str] = ()) -> list[Line]:
    """The runs, those that differ in nothing but scope and seed as one line; those that learn nothing stand apart.

    without: as in `lines_of`.
    """
    found = []
    for line in lines_of(runs, ("method.adaptation", *without)):
        for suffix, is_fixed in (("", False), (" (adaptation=off)", True)):
            mine = [run for run in line.runs if (run.config.get("method.adaptation") == "off") == is_fixed]
            found += [Line(line.name + suffix, tuple(mine))] if mine else []
    return found


def categories_of(lines: Sequence[Line]) -> list[str]:
    """Of all questions that lines of one benchmark answered, in its order."""
    return list(dict.fromkeys(row.category for line in lines for row in line.rows))


def lines_by_seed(runs: Sequence[FinishedRun]) -> list[Line]:
    """Best first, a line for each run, those that differ in the seed alone as one."""
    found = []
    for line in lines_of(runs):
        found += [line] if len(line.seeds) > 1 else [Line(line.name, (run,)) for run in line.runs]
    return in_order(found)


def baselines(runs: Sequence[FinishedRun]) -> list[Line]:
    """Autoregressive decoding as it ran in turn with the methods; the model's runs of equal settings together."""
    paired = {run.folder: run for run in runs if run.summary.autoregressive_tokens_per_second is not None}
    as_one_method = [replace(run, summary=replace(run.summary, method=BASELINE)) for run in paired.values()]
    names = line_names(as_one_method, (SEED, "method.", "datastore"))
    groups: dict[tuple[str, str, str], list[FinishedRun]] = defaultdict(list)
    for folder, run in paired.items():
        groups[run.benchmark, run.model, names[folder]].append(run)
    return [Line(name, tuple(mine), is_baseline=True) for (_, _, name), mine in sorted(groups.items())]


def by_workload(lines: Iterable[Line]) -> dict[tuple[str, str], list[Line]]:
    """The lines of each benchmark and model."""
    found: dict[tuple[str, str], list[Line]] = {}
    for line in lines:
        found.setdefault(line.workload, []).append(line)
    return found


def in_order(lines: Iterable[Line]) -> list[Line]:
    """The order of every table and plot: best first, by speedup, then by accepted tokens; equal ones by name."""
    return sorted(lines, key=sort_key)


def sort_key(line: Line) -> tuple[Any, ...]:
    speedup, accepted = (line.number(key) for key in ("speedup", ACCEPTED))
    return (
        *line.workload,
        speedup is None or speedup.low is None,  # without an interval it has no rank
        -(speedup.value if speedup else 0.0),
        -(accepted.value if accepted else 0.0),
        by_number(line.name),
    )
