"""The cost table that scripts.bench.verify writes: milliseconds per step, by engine, context and nodes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field

from aded.core.step_cost import CONTEXT, StepCost
from aded.errors import BadInput
from aded.files.json_lines import LINE, json_value, read_text, typed

COST_KEY = "method.cost"
Nodes = Annotated[int, Field(ge=1)]
Milliseconds = Annotated[float, Field(gt=0)]


@dataclass(frozen=True)
class EngineTimes:
    """The times of one engine: context in tokens -> nodes -> milliseconds of a step."""

    __pydantic_config__ = LINE
    engine: str
    ms_by_context: Annotated[dict[int, dict[Nodes, Milliseconds]], Field(min_length=1)]


@dataclass(frozen=True)
class CostTable:
    __pydantic_config__ = LINE
    engines: Annotated[list[EngineTimes], Field(min_length=1)]


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
