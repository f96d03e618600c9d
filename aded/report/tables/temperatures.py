"""Methods over the temperature: how many tokens each of them accepts as the target's choice becomes less certain."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import pandas as pd

from aded.records.metrics import MISSING
from aded.report.columns import COLUMNS, shown
from aded.report.lines import ACCEPTED, Line
from aded.report.names import SEED, line_names

TEMPERATURE = "decoding.temperature"
ANSWERS = ("answers_sha256", "benchmark.pack")
"""Where they are replayed, those of each temperature are in a file of their own."""
EXPLAINED = (
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
