"""What a larger corpus is worth: mean accepted tokens over its size, and a straight line through them.

A family's runs differ in their datastore alone. Its line is fitted, by least squares, to mean accepted tokens over
the logarithm of the corpus's size, so its slope is what a doubling is worth. All runs answer the same questions: the
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

from scripts.report.cells import Cell, line_names, settings_key
from scripts.report.remarks import MISSING

SIZES = {"tokens": "datastore_tokens", "prompts": "datastore_prompts"}
"""What a corpus is measured by, and the setting that has it."""
FEWEST = 4
"""Sizes through which a line with an error can be fitted."""
SPAN = 16
"""The largest corpus by the smallest, from which on a line is drawn further."""
AHEAD = {"tokens": (1e9, 1e10), "prompts": (1e5, 1e6)}
EXPLAINED = (
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
    cells: tuple[Cell, ...]

    @property
    def sizes(self) -> np.ndarray:
        return np.array([size_of(cell, self.over) for cell in self.cells])

    def line(self) -> tuple[np.ndarray, np.ndarray]:
        """(slope per doubling and value at size 1, their covariances [2, 2])."""
        found: tuple[np.ndarray, np.ndarray] = np.polyfit(
            np.log2(self.sizes), [cell.value for cell in self.cells], 1, cov=True
        )
        return found

    def at(self, size: float) -> tuple[float, float]:
        """(the line at a size, its standard error)."""
        (slope, start), covariance = self.line()
        place = np.array([math.log2(size), 1.0])
        return float(place @ (slope, start)), math.sqrt(max(0.0, place @ covariance @ place))


def size_of(cell: Cell, over: str) -> float:
    return float(cell.runs[0].settings.get(SIZES[over], 0))


def growths(cells: Sequence[Cell]) -> list[Growth]:
    """Every family of FEWEST or more corpora, over each measure that all its files know."""
    known = [one for one in cells if one.metric == "mean_accepted_tokens" and SIZES["tokens"] in one.runs[0].settings]
    names = line_names([cell.runs[0] for cell in known], without=("datastore", *SIZES.values()))
    families: dict[tuple[str, ...], list[Cell]] = defaultdict(list)
    for cell in known:
        run = cell.runs[0]
        others = settings_key(run, without=("datastore",))
        families[cell.benchmark, cell.model, names[run.folder], cell.machine, others].append(cell)
    found = []
    for (benchmark, model, line, *_), mine in sorted(families.items()):
        for over in SIZES:
            sizes = {size_of(cell, over) for cell in mine}
            if len(sizes) >= FEWEST and 0 not in sizes:
                ordered = tuple(sorted(mine, key=lambda cell: size_of(cell, over)))
                found.append(Growth(f"{line}, {model}, {benchmark}", over, ordered))
    return found


def size_table(cells: Sequence[Cell]) -> pd.DataFrame:
    """A row per family and measure; empty where there is none."""
    rows = []
    for growth in growths(cells):
        (slope, _), covariance = growth.line()
        far = AHEAD[growth.over] if growth.sizes[-1] >= SPAN * growth.sizes[0] else ()
        ahead = {f"{size:.0e} {growth.over}": _with_error(*growth.at(size)) for size in far}
        rows.append(
            {
                "runs": growth.name,
                "over": growth.over,
                "corpora": len(growth.cells),
                "smallest": f"{growth.cells[0].value:.3f} ({growth.sizes[0]:,.0f})",
                "largest": f"{growth.cells[-1].value:.3f} ({growth.sizes[-1]:,.0f})",
                "per doubling": _with_error(slope, math.sqrt(max(0.0, covariance[0, 0]))),
                **ahead,
            }
        )
    return pd.DataFrame(rows).fillna(MISSING)


def _with_error(value: float, error: float) -> str:
    return f"{value:.3f} ± {error:.3f}"


def as_markdown(table: pd.DataFrame) -> str:
    return f"{table.to_markdown(index=False, disable_numparse=True)}\n\n{EXPLAINED}\n"
