"""The cost table that scripts.bench_verify writes: milliseconds per step, by engine, context and nodes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from aded.core.step_cost import CONTEXT, StepCost
from aded.errors import BadInput

KEY = "method.cost"


def read_cost_table(path: str | Path, engine: object, budget: int) -> StepCost:
    """The times of one engine, at the context nearest to CONTEXT.

    engine: as Target.describe names it; None, for a replay without a model, takes the table's last engine.
    Raises BadInput when the file is no such table or does not reach as far as the budget.
    """
    try:
        tables = json.loads(Path(path).expanduser().read_text())["engines"]
        contexts = {table["engine"]: table["ms_by_context"] for table in tables}
        known = {
            name: {int(context): {int(n): float(ms) for n, ms in row.items()} for context, row in table.items()}
            for name, table in contexts.items()
        }
    except OSError as error:
        raise BadInput(
            KEY, f"{path} cannot be read ({error.strerror}); it must be measured, none or a file"
        ) from None
    except (ValueError, TypeError, KeyError, AttributeError):
        raise BadInput(
            KEY, f"{path} is no cost table; write one with python -m scripts.bench_verify out=FILE"
        ) from None
    if engine is None and known:
        engine = list(known)[-1]
    if engine not in known:
        raise BadInput(KEY, f"{path} has no times of the engine {engine}, only of {', '.join(known)}")
    row = known[str(engine)][min(known[str(engine)], key=lambda context: abs(context - CONTEXT))]
    sizes = sorted(row)
    if not sizes or sizes[0] != 1 or sizes[-1] < budget + 1:
        raise BadInput(KEY, f"{path} must reach from 1 to {budget + 1} nodes, the largest tree of this budget")
    return StepCost.interpolate(sizes, np.array([row[n] / 1e3 for n in sizes]), budget)
