"""Lines against a reference, question by question: intervals of how lines differ, and not of how questions do."""

from __future__ import annotations

from collections.abc import Sequence

from aded.records.metrics import MISSING, Estimate, with_interval
from aded.records.totals import Difference, difference
from aded.report.lines import ACCEPTED, METRICS, Line, by_workload


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


def column(lines: Sequence[Line]) -> tuple[str, list[str]]:
    """(the head, a text per line): each line over the first of its benchmark and model, with the paired interval.

    Of speedups where all lines have one, else of accepted tokens.
    """
    timed = all("speedup" in line.estimates for line in lines)
    first = {workload: mine[0] for workload, mine in by_workload(lines).items()}
    texts = [MISSING if line is first[line.workload] else _text(line, first[line.workload], timed) for line in lines]
    names = {line.name for line in first.values()}
    of = names.pop() if len(names) == 1 else "the first"
    return f"{'speedup' if timed else 'accepted tokens'} / {of}'s [95 %, paired]", texts


def _text(line: Line, reference: Line, timed: bool) -> str:
    found = against(line, reference, "speedup" if timed else ACCEPTED)
    return MISSING if found is None else with_interval(found.quotient, found.low, found.high, ".3f")
