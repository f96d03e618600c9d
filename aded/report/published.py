"""Figures that others report (results/published/*.csv), which stands beside a run, and where each number is from."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

import aded
from aded.errors import BadInput
from aded.records.finished_runs import FinishedRun
from aded.records.totals import FEWEST_QUESTIONS
from aded.report.columns import FEW, UNDECIDED, reasons
from aded.report.lines import Line

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


@dataclass
class Footnotes:
    """Where each number comes from, lettered and numbered in the order in which they first stand in a table."""

    letters: dict[str, str] = field(default_factory=dict)
    """Of each source, such as m1 or p2."""
    undecided: bool = False
    """Does an interval of a speedup contain 1?"""
    doubtful: list[Line] = field(default_factory=list)

    def ours(self, line: Line) -> str:
        run = line.first
        text = {
            "measured": f"measured on {run.machine}",
            "recorded": "recorded answers replayed: exact, no times",
            "trace": f"recorded answers replayed at a real model's cost on {run.machine}",
        }[run.kind]
        few = f". {FEW}" if line.questions < FEWEST_QUESTIONS else ""
        return self._letter(run.kind[0], f"{text}; {line.questions} questions of {run.benchmark}{few}")

    def published(self, figure: Published) -> str:
        return self._letter("p", f"published: {figure.source}; {figure.machine}")

    def differences(self, line: Line, figure: Published) -> str:
        """What else is not the same in a ratio, as a letter; nothing where all is."""
        found = differences(line, figure)
        return self._letter("d", f"a ratio of unlike things: {'; '.join(found)}") if found else ""

    def _letter(self, kind: str, text: str) -> str:
        if text not in self.letters:
            number = 1 + sum(known[0] == kind for known in self.letters.values())
            self.letters[text] = f"{kind}{number}"
        return self.letters[text]

    def legend(self) -> list[str]:
        letters = sorted(self.letters.items(), key=lambda item: (item[1][0], int(item[1][1:])))
        undecided = [UNDECIDED] if self.undecided else []
        return [*(f"{letter}: {text}" for text, letter in letters), *undecided, *reasons(self.doubtful)]


def differences(line: Line, figure: Published) -> list[str]:
    """Model, budget and corpus, where ours are others than those of a published figure, or than what it says."""
    budget, theirs = line.first.config.get("method.budget"), dict(figure.settings).get("budget")
    ours = {
        "model": (line.first.model, figure.model),
        "budget": (None if line.is_baseline or budget is None else str(budget), theirs or "not stated"),
        "corpus": (_corpus(line), "as its source says" if "conversations" in figure.source else "not stated"),
    }
    return [
        f"{what} {mine}, published {other}"
        for what, (mine, other) in ours.items()
        if mine is not None and mine != other
    ]


def _corpus(line: Line) -> str | None:
    """The size of what the method's datastore was made from, where it reads one."""
    sizes = [f"{size:,.0f} {unit}" for unit in ("prompts", "tokens") if (size := line.corpus_size(unit))]
    return None if line.is_baseline or not sizes else f"of {' and '.join(sizes)}"
