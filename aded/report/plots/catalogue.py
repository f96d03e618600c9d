"""Every plot, by the name of its files. A plot's docstring is its caption in the report."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from matplotlib.figure import Figure

from aded.report.lines import Line
from aded.report.plots import acceptance, speed, sweeps

PLOTS: dict[str, Callable[[Sequence[Line]], Figure | None]] = {
    "speedup": speed.speedup_bars,
    "throughput": speed.throughput_bars,
    "step_time": speed.step_time,
    "category": acceptance.by_category,
    "adaptation": acceptance.over_tokens,
    "accepted_lengths": acceptance.histogram,
    "answer_position": acceptance.answer_position,
    "tree_size": acceptance.tree_size,
    "draft_time": acceptance.draft_time,
    "calibration": acceptance.calibration,
    "searches": sweeps.searches,
    "c1": sweeps.c1,
    "c2": sweeps.c2,
    "node_budget": sweeps.node_budget,
    "corpus_size": sweeps.corpus_size,
    "temperatures": sweeps.temperatures,
}
"""By the name of their files; None where the rows for one are missing."""
