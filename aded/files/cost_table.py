"""The cost table that scripts.bench.verify writes: milliseconds per step, by engine, context and nodes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field

from aded.core.step_cost import CONTEXT, StepCost
from aded.errors import BadInput
from aded.files.json_lines import LINE, json_value, read_text, typed
from aded.settings import NonNegative, Positive

COST_KEY = "method.cost"
Milliseconds = Annotated[float, Field(gt=0, le=1e15)]


@dataclass(frozen=True)
class EngineTimes:
    """The times of one engine: context in tokens -> nodes -> milliseconds of a step, and requests that are verified
    together -> nodes of each -> milliseconds."""

    __pydantic_config__ = LINE
    engine: str
    ms_by_context: Annotated[dict[NonNegative, dict[Positive, Milliseconds]], Field(min_length=1)]
    ms_by_batch: dict[Positive, dict[Positive, Milliseconds]] | None = None


@dataclass(frozen=True)
class CostTable:
    __pydantic_config__ = LINE
    engines: Annotated[list[EngineTimes], Field(min_length=1)]
    computed: bool = False
    """From a data sheet (scripts.bench.roofline); otherwise measured."""


@dataclass(frozen=True)
class BatchTimes:
    """t(batch, nodes): seconds [batches, sizes] of steps over `sizes` nodes of each of `batches` requests."""

    batches: np.ndarray
    sizes: np.ndarray
    table: np.ndarray
    computed: bool = False
    """From a data sheet; otherwise measured."""
    key: str = COST_KEY
    """What names the file in errors."""

    @classmethod
    def levelled(
        cls,
        batches: ArrayLike,
        sizes: ArrayLike,
        seconds: np.ndarray,
        computed: bool = False,
        key: str = COST_KEY,
    ) -> BatchTimes:
        """A time that falls with nodes or requests is noise, and is levelled."""
        rising = np.maximum.accumulate(np.maximum.accumulate(seconds, axis=1), axis=0)
        return cls(np.array(batches), np.array(sizes), rising, computed, key)

    def seconds(self, batch: int, nodes: float) -> float:
        """Of a step over trees of so many nodes on average, by straight lines between measurements.

        Raises BadInput outside of what was measured.
        """
        if not (self.batches[0] <= batch <= self.batches[-1] and self.sizes[0] <= nodes <= self.sizes[-1]):
            raise BadInput(
                self.key,
                f"has times of {self.batches[0]} to {self.batches[-1]} requests with {self.sizes[0]} to "
                f"{self.sizes[-1]} nodes each, none of {batch} with {nodes:.0f}",
            )
        of_each = [np.interp(nodes, self.sizes, row) for row in self.table]
        return float(np.interp(batch, self.batches, of_each))

    def share_of_one(self, batch: int, budget: int) -> StepCost:
        """What the trees of one of so many requests cost, which all have as many nodes: its share of the step."""
        return StepCost(np.array([self.seconds(batch, n) / batch for n in range(1, budget + 2)]))


def read_batch_times(path: str | Path, key: str) -> BatchTimes:
    """The times of the first engine that has some. key: what names the file in errors. Raises BadInput."""
    form = "a cost table that python -m scripts.bench.verify batch=[1,2,4] out=FILE wrote"
    table = typed(json_value(read_text(path, key), key, str(path)), CostTable, key, str(path), form)
    known = next((one.ms_by_batch for one in table.engines if one.ms_by_batch), None)
    if known is None:
        raise BadInput(key, f"{path} has no times of batches; it must be {form}")
    batches, sizes = sorted(known), sorted(set.intersection(*(set(row) for row in known.values())))
    if not sizes or sizes[0] != 1 or batches[0] != 1:
        raise BadInput(key, f"{path} must have times of one request, and of one node for every batch")
    seconds = np.array([[known[batch][size] / 1e3 for size in sizes] for batch in batches])
    return BatchTimes.levelled(batches, sizes, seconds, table.computed, key)


def read_cost_table(path: str | Path, engine: object, budget: int) -> StepCost:
    """The times of one engine, at the context nearest to CONTEXT.

    engine: as Target.describe names it; None, for a replay without a model, takes the table's last engine.
    Raises BadInput when the file is no such table or does not reach as far as the budget.
    """
    form = "a cost table that python -m scripts.bench.verify out=FILE wrote"
    table = typed(json_value(read_text(path, COST_KEY), COST_KEY, str(path)), CostTable, COST_KEY, str(path), form)
    known = {one.engine: one.ms_by_context for one in table.engines}
    if engine is None:
        engine = list(known)[-1]
    if engine not in known:
        raise BadInput(COST_KEY, f"{path} has no times of the engine {engine}, only of {', '.join(known)}")
    row = known[str(engine)][min(known[str(engine)], key=lambda context: abs(context - CONTEXT))]
    sizes = sorted(row)
    if not sizes or sizes[0] != 1 or sizes[-1] < budget + 1:
        raise BadInput(COST_KEY, f"{path} must reach from 1 to {budget + 1} nodes, the largest tree of this budget")
    return StepCost.interpolate(sizes, np.array([row[n] / 1e3 for n in sizes]), budget)
