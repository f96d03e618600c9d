"""Says at which batch size speculation stops paying, from finished runs and measured times: aded batch RUN [RUN ...]

    aded batch RUN [RUN ...] cost=FILE [out=outputs/batch] [KEY=VALUE ...]

    cost       the times of python -m scripts.bench.verify batch=[1,2,4,8] out=FILE
    out        the folder for batch.csv, batch.md and batch.png, .pdf, .svg
    batches    sizes to compute; by default the powers of two that the times reach
    rate       requests per second, which then arrive at random (Poisson); by default all are there at once
    seed       of these arrivals; 0

Continuous batching: a request that ends makes room for the next. Each run's recorded steps are carried out in their
order, so accepted tokens are exact; autoregressive decoding and an oracle, which drafts the right tokens in no time,
answer the same requests. A run needs no model: a replay will do, whose drafting times are of the machine it ran on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from aded.config.command_line import run_command
from aded.errors import BadInput
from aded.files.atomic import check_outputs, write_outputs
from aded.files.cost_table import BatchTimes, read_batch_times
from aded.records.finished_runs import FinishedRun, read_finished
from aded.report.batching import (
    Outcome,
    RequestSteps,
    autoregressive,
    crossing,
    draw_batches,
    enough,
    oracle,
    poisson,
    simulate,
    steps_of_row,
)
from aded.report.columns import as_csv, heading, markdown
from aded.report.lines import line_names
from aded.report.plots.style import drawings
from aded.settings import FilePath, Positive, Rate, Seed
from aded.shown import in_markdown, say

AUTOREGRESSIVE, ORACLE = "autoregressive", "oracle"
EXPLAINED = (
    "Tokens per second of all requests together, prefill apart. Speedup: over autoregressive decoding in batches of "
    "the same size. Per request: of the median request, from its arrival to its last token. The oracle drafts the "
    "right tokens, as many as pay, in no time: no drafter that verifies one chain or tree a step is faster. Of runs "
    "that differ in nothing, the median."
)


COMPUTED = "Times are computed from a data sheet, not measured."


@dataclass
class BatchSettings:
    """See above."""

    cost: FilePath | None = None
    out: FilePath = "outputs/batch"
    batches: list[Positive] = field(default_factory=list)
    rate: Rate | None = None
    seed: Seed = 0


def run(arguments: list[str], settings: BatchSettings) -> None:
    if settings.cost is None:
        raise BadInput("cost", "must be given: the file of python -m scripts.bench.verify batch=[1,2,4,8] out=FILE")
    if not arguments:
        raise BadInput("RUN", "name the folders of finished runs: aded batch RUN [RUN ...] cost=FILE")
    out = Path(settings.out).expanduser()
    check_outputs([("out", out / "batch.csv")], [("cost", settings.cost)])
    runs = [read_finished(Path(folder), "RUN") for folder in arguments]
    for one in runs:
        if one.method == AUTOREGRESSIVE:
            raise BadInput(
                "RUN", f"{one.folder} is autoregressive decoding, which is computed anyway; name runs that draft"
            )
    times = read_batch_times(settings.cost, "cost")
    frame = pd.DataFrame(throughputs(runs, times, settings))
    cells = frame.groupby(["benchmark", "model", "method", "batch"], sort=False)
    lines = cells.median(numeric_only=True).reset_index()
    text = as_markdown(lines) + (f"- {COMPUTED}\n" if times.computed else "")
    tables = {"batch.csv": as_csv(frame).encode(), "batch.md": text.encode()}
    write_outputs(out, tables | drawings(draw_batches(lines), "batch"), "out")
    say(text.partition("\n\n- ")[0])
    say(f"tables: {out / 'batch.csv'}, {out / 'batch.md'}\nplot:   {out / 'batch.png'}")


def throughputs(runs: Sequence[FinishedRun], times: BatchTimes, settings: BatchSettings) -> Iterator[dict[str, Any]]:
    """A row per run and batch size, autoregressive decoding and the oracle among them. Raises BadInput."""
    powers = [2**i for i in range(int(times.batches[-1]).bit_length())]
    batches = sorted(set(settings.batches)) or [one for one in powers if one >= times.batches[0]]
    times.seconds(batches[-1], times.sizes[0])  # refused now, not after a simulation
    names = line_names(runs)
    for run_ in runs:
        steps = [steps_of_row(row) for row in run_.rows if row.steps]
        if not steps:
            raise BadInput("RUN", f"{run_.folder} has no steps")
        for batch in batches:
            requests = enough(steps, batch)
            arrivals = poisson(len(requests), settings.rate, settings.seed) if settings.rate else None

            def outcome(those: Sequence[RequestSteps]) -> Outcome:
                return simulate(those, times, batch, arrivals)  # noqa: B023 - called at once

            plain = outcome([autoregressive(one) for one in requests])
            best = max(
                (outcome([oracle(one, int(nodes)) for one in requests]) for nodes in times.sizes),
                key=lambda one: one.tokens_per_second,
            )
            found = {names[run_.folder]: outcome(requests), AUTOREGRESSIVE: plain, ORACLE: best}
            for name, one in found.items():
                yield {
                    "benchmark": run_.benchmark,
                    "model": run_.model,
                    "method": name,
                    "requests": run_.method,
                    "nodes": run_.config.get("method.budget") if name not in (AUTOREGRESSIVE, ORACLE) else None,
                    "batch": batch,
                    "tokens_per_second": one.tokens_per_second,
                    "speedup": one.tokens_per_second / plain.tokens_per_second,
                    "tokens_per_second_per_request": one.tokens_per_second_of_a_request,
                    "ms_per_token_p50": 1e3 * one.seconds_per_token(50),
                    "ms_per_token_p95": 1e3 * one.seconds_per_token(95),
                    "ms_per_token_p99": 1e3 * one.seconds_per_token(99),
                }


def as_markdown(frame: pd.DataFrame) -> str:
    """batch.md, of a row per method and batch: the speedup of each line at each batch, and where it stops paying."""
    sections = []
    for workload, mine in frame.groupby(["benchmark", "model"], sort=False):
        rows = []
        for name, line in mine.groupby("method", sort=False):
            speedups, batches = line["speedup"].tolist(), line["batch"].tolist()
            row = {"method": name, **{f"batch {b}": f"{s:.2f}" for b, s in zip(batches, speedups, strict=True)}}
            row["pays up to a batch of"] = _pays(batches, speedups) if name not in (AUTOREGRESSIVE, ORACLE) else "–"
            rows.append(row)
        own = mine[~mine["method"].isin([AUTOREGRESSIVE, ORACLE])]
        best = own.loc[own.groupby("batch")["tokens_per_second"].idxmax()]
        chosen = ", ".join(f"{batch}: {name}" for batch, name in zip(best["batch"], best["method"], strict=True))
        sections += [
            heading(", ".join(map(str, workload))),
            markdown(pd.DataFrame(rows)),
            in_markdown(f"Best by batch: {chosen}."),
        ]
    return "\n\n".join([*sections, f"- {EXPLAINED}"]) + "\n"


def _pays(batches: Sequence[int], speedups: Sequence[float]) -> str:
    at = crossing(batches, speedups)
    if at is None:
        return f"{max(batches)} or more"
    return "none" if at == 0 else f"{np.floor(at):.0f}"


def main() -> None:
    run_command(run, BatchSettings, __doc__ or "")


if __name__ == "__main__":
    main()
