"""The table of runs behind every output: which runs are a line, what it is called, where it stands, and its numbers.

A line is of one method, model and benchmark with the same settings, on the same engine and machine; only the seed may
differ. Runs with other settings have a line of their own, which names what differs.

Lines are held against a reference question by question: the intervals are those of how lines differ, and not of how
questions do.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from aded.records.finished_runs import FinishedRun
from aded.records.metrics import MISSING, Estimate, over_seeds, with_interval
from aded.records.rows import Row
from aded.records.totals import (
    Difference,
    Measure,
    Totals,
    bootstrap_interval,
    difference,
    stacked,
    totals_by_question,
    value_of,
)

SEED = "decoding.seed"
MACHINE = "machine"


def settings_key(run: FinishedRun, without: Sequence[str] = ()) -> str:
    """A run's settings to compare by, without its seed and the keys that begin with one of `without`."""
    return json.dumps(_kept(run, (SEED, *without)), sort_keys=True, default=str)


def _kept(run: FinishedRun, without: Sequence[str]) -> dict[str, Any]:
    return {key: value for key, value in run.settings.items() if not key.startswith(tuple(without))}


def line_names(runs: Sequence[FinishedRun], without: Sequence[str] = ()) -> dict[Path, str]:
    """The line of each run, by its folder: the method, and every setting in which the method's runs differ.

    without: settings that a line does not name, by the beginnings of their keys.

    Settings of method and decoding are compared between all runs of a method, settings of the benchmark between those
    on the benchmark. All others differ from model to model anyway, so they are compared within model and benchmark.
    Runs that would have one name, though some lack a setting, name it where they have it.
    """
    settings = _Settings(runs, without)
    keys = {run.folder: settings.differing(run) for run in runs}
    alike: dict[tuple[str, ...], list[FinishedRun]] = defaultdict(list)
    for run in runs:
        alike[run.benchmark, run.model, run.method, *settings.texts(run, keys[run.folder])].append(run)
    for same in alike.values():
        common = settings.common(same)
        for run in same:
            keys[run.folder] |= settings.facts[run.folder].keys() - common
    names = {}
    for run in runs:
        texts = settings.texts(run, keys[run.folder])
        names[run.folder] = f"{run.method} ({', '.join(texts)})" if texts else run.method
    return _distinct(runs, names, settings.facts)


class _Settings:
    """What runs have in each setting, and their machines, as texts to compare."""

    def __init__(self, runs: Sequence[FinishedRun], without: Sequence[str]) -> None:
        self.facts = {run.folder: _facts(run, without) for run in runs}
        self._compared: dict[tuple[str, ...], set[str]] = defaultdict(set)
        self._beside: dict[tuple[str, ...], set[str]] = defaultdict(set)
        for run in runs:
            for key, value in self.facts[run.folder].items():
                self._compared[_compared(run, key)].add(value)
                self._beside[_beside(run, key)].add(value)

    def differing(self, run: FinishedRun) -> set[str]:
        """The keys in which it is not as all runs that it is compared with."""
        return {key for key in self.facts[run.folder] if len(self._compared[_compared(run, key)]) > 1}

    def common(self, runs: Sequence[FinishedRun]) -> set[str]:
        """The keys that all of the runs have."""
        return set.intersection(*(set(self.facts[run.folder]) for run in runs))

    def texts(self, run: FinishedRun, keys: Set[str]) -> list[str]:
        """KEY=VALUE of each key, in order, and the machine."""
        found = [
            f"{_short(key)}={_shown(key, run.settings[key], self._beside[_beside(run, key)])}"
            for key in sorted(keys - {MACHINE})
        ]
        return found + ([run.machine] if MACHINE in keys else [])


def _facts(run: FinishedRun, without: Sequence[str]) -> dict[str, str]:
    """Settings and machine as texts to compare."""
    return {key: json.dumps(value, default=str) for key, value in _kept(run, without).items()} | {
        MACHINE: run.machine
    }


def _compared(run: FinishedRun, key: str) -> tuple[str, ...]:
    """Runs with an equal result are compared in this key."""
    if key.startswith(("method.", "decoding.")):
        return run.method, key
    if key.startswith("benchmark."):
        return run.method, key, run.benchmark
    return _beside(run, key)


def _beside(run: FinishedRun, key: str) -> tuple[str, ...]:
    """The same of runs that stand beside each other in a table."""
    return run.method, key, run.benchmark, run.model


def _distinct(
    runs: Sequence[FinishedRun], names: dict[Path, str], facts: dict[Path, dict[str, str]]
) -> dict[Path, str]:
    """The names; equal names of unequal runs, as of null and "none", get a run's id."""
    ids: dict[tuple[str, ...], dict[str, str]] = defaultdict(dict)
    for run in runs:
        same = ids[run.benchmark, run.model, names[run.folder]]
        same.setdefault(json.dumps(facts[run.folder], sort_keys=True), run.summary.run_id)
    found = {}
    for run in runs:
        same = ids[run.benchmark, run.model, names[run.folder]]
        suffix = f" [{same[json.dumps(facts[run.folder], sort_keys=True)][:6]}]" if len(same) > 1 else ""
        found[run.folder] = names[run.folder] + suffix
    return found


def _short(key: str) -> str:
    """The key as a reader knows it: method.draft_maker.c1 is c1, and a draft maker's class is the draft maker."""
    if key.endswith("._target_"):
        return key.split(".")[-2]  # as method.draft_maker._target_
    return key.removeprefix("method.").removeprefix("draft_maker.")


def _shown(key: str, value: Any, here: Set[str]) -> str:
    """Of a class its name; of a fingerprint its beginning, where `here` has others, to tell the files apart."""
    text = "none" if value is None else str(value)
    if key.endswith("._target_"):
        return text.rpartition(".")[2]
    if not re.fullmatch("[0-9a-f]{32,}", text):
        return text
    return "a file" if len(here - {"null"}) == 1 else text[:12]


def by_number(name: str) -> list[tuple[float, str]]:
    """Sorts budget=8 before budget=16: the name's numbers as numbers, and the text before each."""
    found = re.findall(r"(\d+(?:\.\d+)?)|([^\d]+)", name)
    return [(float(number) if number else -1.0, text) for number, text in found]


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


def against(line: Line, reference: Line, metric: str) -> Difference | None:
    """The line's number over the reference's; None where one of them has none, or is of several runs."""
    if any(metric not in one.estimates or len(one.runs) > 1 for one in (line, reference)):
        return None
    return difference(line.rows, reference.rows, METRICS[metric])


def paired(line: Line, reference: Line, metric: str) -> Estimate:
    """The line's number, with the interval of its difference from the reference's; the reference has none."""
    found = against(line, reference, metric)
    value = line.estimates[metric].value
    if line is reference or found is None or found.low is None or found.high is None:
        return Estimate(value)
    return Estimate(value, found.second * found.low, found.second * found.high)


def against_first(lines: Sequence[Line]) -> tuple[str, list[str]]:
    """(the head, a text per line): each line over the first of its benchmark and model, with the paired interval.

    Of speedups where all lines have one, else of accepted tokens.
    """
    timed = all("speedup" in line.estimates for line in lines)
    first = {workload: mine[0] for workload, mine in by_workload(lines).items()}
    texts = [MISSING if line is first[line.workload] else _over(line, first[line.workload], timed) for line in lines]
    names = {line.name for line in first.values()}
    of = names.pop() if len(names) == 1 else "the first"
    return f"{'speedup' if timed else 'accepted tokens'} / {of}'s [95 %, paired]", texts


def _over(line: Line, reference: Line, timed: bool) -> str:
    found = against(line, reference, "speedup" if timed else ACCEPTED)
    return MISSING if found is None else with_interval(found.quotient, found.low, found.high, ".3f")
