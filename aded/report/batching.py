"""Many requests at a time: their throughput, from what each step of a run accepted and what a step of a batch takes.

What a request accepts does not depend on those beside it. So its recorded steps, in their order, and the time of each
forward over all requests that are going say when every token comes. Prefill is left out, as in tokens per second.

The plots: speedup over the number of requests, and throughput over latency.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from aded.files.cost_table import BatchTimes
from aded.records.metrics import draft_seconds
from aded.records.rows import Row
from aded.report.plots.style import DARK, MOST_LINES, NAMES, label_panel, line_style, log_axis, panels_of_lines


@dataclass(frozen=True)
class RequestSteps:
    """Of one request, arrays [steps]: tokens that each step yielded, nodes it verified, and seconds of drafting."""

    tokens: np.ndarray
    nodes: np.ndarray
    drafting: np.ndarray


def steps_of_row(row: Row) -> RequestSteps:
    """Of a recorded turn; drafting is what it took when the turn was first decoded."""
    nodes = np.array(row.drafted_nodes, np.int64) + 1
    return RequestSteps(np.array(row.accept_lengths, np.int64), nodes, draft_seconds(row))


def autoregressive(steps: RequestSteps) -> RequestSteps:
    """The same answer, a token a step."""
    count = int(steps.tokens.sum())
    return RequestSteps(np.ones(count, np.int64), np.ones(count, np.int64), np.zeros(count))


def oracle(steps: RequestSteps, nodes: int) -> RequestSteps:
    """The same answer where `nodes` - 1 right tokens are drafted at each step, in no time."""
    whole, rest = divmod(int(steps.tokens.sum()), nodes)
    tokens = np.array([nodes] * whole + [rest] * (rest > 0), np.int64)
    return RequestSteps(tokens, tokens, np.zeros(len(tokens)))


@dataclass(frozen=True)
class Outcome:
    """seconds: from the first arrival to the last token; waits: float [requests], from a request's arrival to its
    last token; tokens: int64 [requests]."""

    seconds: float
    waits: np.ndarray
    tokens: np.ndarray

    @property
    def tokens_per_second(self) -> float:
        return float(self.tokens.sum()) / self.seconds

    @property
    def tokens_per_second_of_a_request(self) -> float:
        """The median request's."""
        return float(np.median(self.tokens / self.waits))

    def seconds_per_token(self, percentile: float) -> float:
        """That so many per cent of the requests do not exceed."""
        return float(np.percentile(self.waits / self.tokens, percentile))


def simulate(
    requests: Sequence[RequestSteps], times: BatchTimes, slots: int, arrivals: np.ndarray | None = None
) -> Outcome:
    """Continuous batching of at most `slots` requests; who arrives first enters first.

    arrivals: float [requests], rising, in seconds; None: all at once. Raises BadInput where the times do not reach.
    """
    count = len(requests)
    arrivals = np.zeros(count) if arrivals is None else arrivals
    longest = max(len(one.tokens) for one in requests)
    nodes, drafting = np.zeros((count, longest)), np.zeros((count, longest))
    for number, one in enumerate(requests):
        nodes[number, : len(one.nodes)], drafting[number, : len(one.nodes)] = one.nodes, one.drafting
    ends, at, ended = np.array([len(one.tokens) for one in requests]), np.zeros(count, np.int64), np.zeros(count)
    going, entered, now = np.empty(0, np.int64), 0, float(arrivals[0])
    while entered < count or len(going):
        if not len(going):
            now = max(now, float(arrivals[entered]))
        new = min(int(np.searchsorted(arrivals, now, side="right")), entered + slots - len(going))
        going, entered = np.append(going, np.arange(entered, max(new, entered))), max(new, entered)
        now += times.seconds(len(going), float(nodes[going, at[going]].mean())) + drafting[going, at[going]].sum()
        at[going] += 1
        ended[going] = now
        going = going[at[going] < ends[going]]
    tokens = np.array([int(one.tokens.sum()) for one in requests])
    return Outcome(now - float(arrivals[0]), ended - arrivals, tokens)


def enough(requests: Sequence[RequestSteps], slots: int) -> list[RequestSteps]:
    """The requests, asked again in turn until there are four for each slot."""
    return [requests[number % len(requests)] for number in range(max(len(requests), 4 * slots))]


def poisson(count: int, rate: float, seed: int = 0) -> np.ndarray:
    """float [count]: arrivals, in seconds, of so many requests per second on average."""
    return np.random.default_rng(seed).exponential(1.0 / rate, count).cumsum()


def crossing(batches: Sequence[int], speedups: Sequence[float]) -> float | None:
    """The batch at which a speedup falls to 1, between neighbours by a straight line; None where it stays above, 0
    where it is never above."""
    if max(speedups) < 1.0:
        return 0.0
    for (small, above), (large, below) in pairwise(zip(batches, speedups, strict=True)):
        if below < 1.0 <= above:
            return small + (large - small) * (above - 1.0) / (above - below)
    return None


def draw_batches(frame: pd.DataFrame) -> Figure:
    """A panel per benchmark and model, a line per method; 1 is autoregressive decoding.

    Of more methods than colours, those with the highest speedups.

    frame: see aded.commands.batch; a row per method and batch.
    """
    shown = frame[frame["method"] != "autoregressive"]
    groups = [(workload, _highest(mine)) for workload, mine in shown.groupby(["benchmark", "model"], sort=False)]
    figure, all_axes = panels_of_lines([mine["method"].unique().tolist() for _, mine in groups])
    for axes, ((benchmark, model), mine) in zip(all_axes, groups, strict=True):
        for number, (name, line) in enumerate(mine.groupby("method", sort=False)):
            axes.plot(line["batch"], line["speedup"], label=name, **line_style(number))
        axes.axhline(1.0, color=DARK, linewidth=0.8, linestyle=":")
        log_axis(axes)
        label_panel(axes, f"{model}, {benchmark}", xlabel="requests at a time", ylabel="speedup")
    return figure


def _highest(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of the methods, as many as there are colours, whose best speedups are highest."""
    return frame[frame["method"].isin(frame.groupby("method")["speedup"].max().nlargest(MOST_LINES).index)]


def draw_serving(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """Throughput over the 95th percentile of end-to-end latency, a point for each number of requests at a time.

    Beside each proposer a server without drafts was measured, in turn with it: compare a proposer with that one.

    rows: see scripts.bench.serving.
    """
    names = dict.fromkeys(row["proposer"] for row in rows)
    proposers = {name: f"without drafts, beside {NAMES.get(name, name)}" for name in names}
    figure, (axes,) = panels_of_lines([[*proposers, *proposers.values()]])
    for number, (name, beside) in enumerate(proposers.items()):
        mine = [row for row in rows if row["proposer"] == name]
        for label, latencies, rate, own in (
            (name, "latencies", "tokens_per_second", {}),
            (beside, "latencies_without", "without", {"linestyle": ":", "markerfacecolor": "none"}),
        ):
            seconds = [row[latencies]["end_to_end_ms"]["p95"] / 1000 for row in mine]
            axes.plot(seconds, [row[rate] for row in mine], label=label, **line_style(number) | own)
    axes.set(xlim=(0, None), ylim=(0, None))
    label_panel(axes, "", xlabel="end-to-end latency, 95th percentile, s", ylabel="tokens per second")
    return figure
