"""The parts of hybrids: who drafted the accepted nodes, and what the hybrid gains over each part alone."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from aded.records.finished_runs import FinishedRun
from aded.records.metrics import MISSING, formatted
from aded.records.summary import PartShare
from aded.report.columns import without_empty_columns
from aded.report.lines import each_run
from aded.report.names import settings_key

EXPLAINED = (
    "Nodes per step, the root apart: what the part drafted of the verified trees, what of it was accepted, and what "
    "of that no other part drafted. Share: of the accepted nodes, those that the part drafted; alone: that no other "
    "part drafted. Part alone: its accepted tokens with the same budget and scope, where such a run is here; gain: "
    "the hybrid's over these. – is missing."
)


def parts_table(runs: Sequence[FinishedRun]) -> pd.DataFrame:
    """A row per part of each run of a method that has parts; empty where there is none."""
    rows = [
        {"benchmark": line.first.benchmark, "model": line.first.model, "method": line.name, "part": part}
        | _of_part(line.first, share, _alone(line.first, part, runs))
        for line in each_run(runs)
        for part, share in (line.first.summary.parts or {}).items()
    ]
    return without_empty_columns(pd.DataFrame(rows))


def _of_part(run: FinishedRun, share: PartShare, alone: float | None) -> dict[str, str]:
    whole = run.summary.mean_accepted_tokens or 1.0
    accepted = whole - 1
    return {
        "nodes drafted": f"{share.drafted:.1f}",
        "accepted": f"{share.accepted:.2f}",
        "accepted alone": f"{share.accepted_alone:.2f}",
        "share": f"{share.accepted / accepted:.0%}" if accepted else MISSING,
        "share alone": f"{share.accepted_alone / accepted:.0%}" if accepted else MISSING,
        "ms": f"{share.milliseconds:.2f}",
        "hybrid, accepted tokens": f"{whole:.2f}",
        "part alone": formatted(alone),
        "gain": formatted(alone and whole / alone - 1, "+.1%"),
    }


def _alone(run: FinishedRun, part: str, runs: Sequence[FinishedRun]) -> float | None:
    """Accepted tokens of the part's own run with the hybrid's budget, and its scope or both."""
    for other in runs:
        alike = len({_conditions(one) for one in (run, other)}) == 1
        if alike and other.method == part and set(run.columns) <= set(other.columns):
            return other.summary.mean_accepted_tokens
    return None


def _conditions(run: FinishedRun) -> tuple[object, ...]:
    """What a hybrid's run and that of a part alone must have in common. The corpus may not be: not all read one."""
    return run.benchmark, run.model, run.config.get("method.budget"), settings_key(run, ("method.", "datastore"))
