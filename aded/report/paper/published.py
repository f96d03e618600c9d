"""Figures that others report (results/published/*.csv), and which of them stands beside a run."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

import aded
from aded.errors import BadInput
from aded.records.finished_runs import FinishedRun

FOLDER = Path(aded.__file__).parent / "published"
"""The figures: inside the package where it is installed, in results/ of a checkout."""
FILES = (
    "paper_table1.csv",
    "paper_figure3.csv",
    "paper_table2.csv",
    "paper_ablations.csv",
    "peers.csv",
    "spec_bench.csv",
    "engines.csv",
)
"""In the order in which a figure is looked for."""
COLUMNS = ("method", "model", "benchmark", "metric", "value", "value_to", "settings", "machine", "source")
TYPES: Any = dict.fromkeys(COLUMNS, str) | {"value": float, "value_to": float}


@dataclass(frozen=True)
class Published:
    """One figure, or a range from `value` to `value_to`; results/published/README.md explains the columns."""

    method: str
    model: str
    benchmark: str
    metric: str
    value: float
    value_to: float | None
    settings: tuple[tuple[str, str], ...]
    machine: str
    source: str

    @property
    def text(self) -> str:
        return f"{self.value:.2f}" if self.value_to is None else f"{self.value:.2f} to {self.value_to:.2f}"

    def is_of(self, model: str) -> bool:
        """Is it of this model? A figure that names no version is of every version."""
        return self.model in (model, family(model))

    def fits(self, run: FinishedRun, method: str | None = None) -> bool:
        """Is it the figure of the run's method, or of another, on its model and benchmark, with its settings?

        All published figures are of whole benchmarks, decoded greedily, and none of a matrix that never adapts.
        """
        names = (method or run.method, benchmark_family(run.benchmark))
        same = (self.method, self.benchmark) == names and self.is_of(run.model)
        whole = run.config.get("benchmark.limit") is None and not run.config.get("decoding.temperature")
        if not (same and whole) or run.config.get("method.adaptation") == "off":
            return False
        return all(_equal(_setting(run.config, key), value) for key, value in self.settings)


def read_published(folder: Path = FOLDER) -> list[Published]:
    """All figures, those of the paper's table 1 first. Raises BadInput naming the file."""
    found = []
    for name in FILES:
        try:
            frame = pd.read_csv(folder / name, dtype=TYPES, keep_default_na=False, na_values={"value_to": [""]})
            rows = frame[[*COLUMNS]].to_dict("records")
        except (OSError, ValueError, KeyError) as error:
            raise BadInput("results/published", f"{folder / name} cannot be read ({error})") from None
        for row in rows:
            settings = tuple((pair.partition("=")[0], pair.partition("=")[2]) for pair in row["settings"].split())
            to = None if math.isnan(row["value_to"]) else row["value_to"]
            found.append(Published(**{str(key): row[key] for key in row} | {"settings": settings, "value_to": to}))
    return found


def family(model: str) -> str:
    """The model without its version, as the paper names models: vicuna-7b-v1.5 is a vicuna-7b."""
    return re.sub(r"-v\d+(\.\d+)*$", "", model)


def benchmark_family(benchmark: str) -> str:
    return "human_eval" if benchmark == "human_eval_raw" else benchmark


def beside(
    published: Sequence[Published], metric: str, run: FinishedRun, method: str | None = None
) -> Published | None:
    """The first figure that fits, or None."""
    return next((one for one in published if one.metric == metric and one.fits(run, method)), None)


def _setting(config: Mapping[str, Any], key: str) -> Any:
    """A key of the method or its draft maker; the draft maker itself is named by its class."""
    if key == "draft_maker":
        return str(config.get("method.draft_maker._target_", "")).rpartition(".")[2]
    return config.get(f"method.{key}", config.get(f"method.draft_maker.{key}"))


def _equal(mine: Any, theirs: str) -> bool:
    try:
        return float(mine) == float(theirs)
    except (TypeError, ValueError):
        return str(mine) == theirs
