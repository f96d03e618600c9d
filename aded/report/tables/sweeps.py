"""One setting swept: what a larger corpus adds, and how many tokens are accepted at each temperature.

A family's runs differ in their datastore alone. Its line is fitted, by least squares, to mean accepted tokens over
the logarithm of the corpus's size, so its slope is what a doubling adds. All runs answer the same questions: the
standard errors say how straight the points lie, not how other questions would do. Beyond the points the line is a
guess.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from aded.records.metrics import MISSING, Estimate
from aded.report.columns import COLUMNS, shown
from aded.report.lines import ACCEPTED, SEED, Line, line_names

UNITS = ("tokens", "prompts")
"""What a corpus is measured in."""
FEWEST = 4
"""Sizes through which a line with an error can be fitted."""
SPAN = 16
"""The largest corpus by the smallest, from which on a line is drawn further."""
AHEAD = {"tokens": (1e9, 1e10), "prompts": (1e5, 1e6)}
SIZES_EXPLAINED = (
    "Per doubling: the slope of a straight line, fitted to mean accepted tokens over the logarithm of the corpus's "
    "size, ± its standard error. Further columns: the line at larger sizes, ± its standard error there. The errors "
    "say how straight the measured points lie; beyond them the line is a guess, and left "
    f"out where the points span less than a factor of {SPAN}."
)


@dataclass(frozen=True)
class Growth:
    """A family over one measure of size, smallest first."""

    name: str
    over: str
    lines: tuple[Line, ...]

    @property
    def sizes(self) -> np.ndarray:
        return np.array([line.corpus_size(self.over) for line in self.lines])

    @property
    def accepted(self) -> list[Estimate]:
        return [line.estimates[ACCEPTED] for line in self.lines]

    def fit(self) -> tuple[np.ndarray, np.ndarray]:
        """(slope per doubling and value at size 1, their covariances [2, 2])."""
        return np.polyfit(np.log2(self.sizes), [one.value for one in self.accepted], 1, cov=True)

    def at(self, size: float) -> tuple[float, float]:
        """(the line at a size, its standard error)."""
        (slope, start), covariance = self.fit()
        place = np.array([math.log2(size), 1.0])
        return float(place @ (slope, start)), math.sqrt(max(0.0, place @ covariance @ place))


def growths(lines: Sequence[Line]) -> list[Growth]:
    """Every family of FEWEST or more corpora, over each measure that all its files know."""
    known = [line for line in lines if ACCEPTED in line.estimates and line.corpus_size("tokens")]
    names = line_names([line.first for line in known], without=(SEED, "datastore"))
    families: dict[tuple[str, ...], list[Line]] = defaultdict(list)
    for line in known:
        families[*line.workload, names[line.first.folder]].append(line)
    found = []
    for (benchmark, model, name), mine in sorted(families.items()):
        for unit in UNITS:
            sizes = {line.corpus_size(unit) for line in mine}
            if len(sizes) >= FEWEST and 0 not in sizes:
                ordered = tuple(sorted(mine, key=lambda line: line.corpus_size(unit)))
                found.append(Growth(f"{name}, {model}, {benchmark}", unit, ordered))
    return found


def size_table(lines: Sequence[Line]) -> pd.DataFrame:
    """A row per family and measure; empty where there is none."""
    rows = []
    for growth in growths(lines):
        (slope, _), covariance = growth.fit()
        far = AHEAD[growth.over] if growth.sizes[-1] >= SPAN * growth.sizes[0] else ()
        ahead = {f"{size:.0e} {growth.over}": _with_error(*growth.at(size)) for size in far}
        rows.append(
            {
                "runs": growth.name,
                "over": growth.over,
                "corpora": str(len(growth.lines)),
                "smallest": f"{growth.accepted[0].value:.3f} ({growth.sizes[0]:,.0f})",
                "largest": f"{growth.accepted[-1].value:.3f} ({growth.sizes[-1]:,.0f})",
                "per doubling": _with_error(slope, math.sqrt(max(0.0, covariance[0, 0]))),
                **ahead,
            }
        )
    return pd.DataFrame(rows).fillna(MISSING)


def _with_error(value: float, error: float) -> str:
    return f"{value:.3f} ± {error:.3f}"


TEMPERATURE = "decoding.temperature"
ANSWERS = ("answers_sha256", "benchmark.pack")
"""Where they are replayed, those of each temperature are in a file of their own."""
TEMPERATURES_EXPLAINED = (
    "Mean accepted tokens, with their 95 % intervals, at each temperature; 0 takes the most probable token. Methods "
    "of a benchmark and model sample with the same seeds, so that without rejection they give the same answers."
)
ByTemperature = dict[float, Line]
"""A method's lines, which differ in nothing else, the lowest temperature first; several files of answers together."""


def over_temperatures(lines: Sequence[Line]) -> dict[tuple[str, str], dict[str, ByTemperature]]:
    """By benchmark and model, the methods by name that ran at several temperatures; most accepted tokens first."""
    sampled = [line for line in lines if ACCEPTED in line.estimates and TEMPERATURE in line.first.settings]
    names = line_names([line.first for line in sampled], without=(SEED, TEMPERATURE, *ANSWERS))
    found: dict[tuple[str, str], dict[str, ByTemperature]] = defaultdict(lambda: defaultdict(dict))
    for line in sorted(sampled, key=_temperature):
        mine, temperature = found[line.workload][names[line.first.folder]], _temperature(line)
        before = mine[temperature].runs if temperature in mine else ()
        mine[temperature] = Line(line.name, (*before, *line.runs))
    return {
        workload: dict(sorted(several.items(), key=lambda named: -_at_lowest(named[1])))
        for workload, methods in sorted(found.items())
        if (several := {name: mine for name, mine in methods.items() if len(mine) > 1})
    }


def _temperature(line: Line) -> float:
    return float(line.first.settings[TEMPERATURE])


def _at_lowest(mine: ByTemperature) -> float:
    """Accepted tokens at the lowest temperature."""
    return next(iter(mine.values())).estimates[ACCEPTED].value


def temperature_table(lines: Sequence[Line]) -> pd.DataFrame:
    """A row per method, a column per temperature; empty where none ran at several."""
    found = over_temperatures(lines)
    every = sorted({temperature for methods in found.values() for mine in methods.values() for temperature in mine})
    rows = [
        {"benchmark": benchmark, "model": model, "method": name}
        | {"learned from": COLUMNS["learned from"].text(next(iter(mine.values())))}
        | {f"temperature {one:g}": shown(mine[one].estimates[ACCEPTED]) if one in mine else MISSING for one in every}
        for (benchmark, model), methods in found.items()
        for name, mine in methods.items()
    ]
    return pd.DataFrame(rows)
