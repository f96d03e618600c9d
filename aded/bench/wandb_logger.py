"""A finished run's record, shown in Weights & Biases.

The record is the truth and is whole before anything is logged: whatever goes wrong here is a warning. All
files of the client lie in the run's folder; `wandb sync FOLDER/wandb/offline-run-*` uploads an offline run later.
Only `logger=wandb` imports this module, and with it the client.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np

from aded.core.drafter import total_calibration
from aded.errors import BadInput
from aded.records.metrics import ratio
from aded.records.rows import Row
from aded.records.summary import Summary
from aded.settings import Text

Mode = Literal["offline", "online", "disabled"]
COLUMNS = (
    "question_id",
    "turn",
    "category",
    "prompt_tokens",
    "new_tokens",
    "steps",
    "mean_accepted_tokens",
    "draft_seconds",
    "decode_seconds",
    "autoregressive_decode_seconds",
    "identical",
    "stop_reason",
)
log = logging.getLogger(__name__)


class WandbLogger:
    """mode: offline, online or disabled; group: what the runs of a sweep are compared under.

    Raises BadInput, before the run, when the mode is none of these, the client is missing, or `online` knows no
    account.
    """

    def __init__(self, *, mode: Mode, project: Text, entity: str | None, group: str) -> None:
        self.mode, self.project, self.entity, self.group = mode, project, entity, group
        if find_spec("wandb") is None:
            raise BadInput("logger", "wandb is not installed; pip install wandb, or logger=none")
        if mode == "online":
            _log_in()

    def log(self, folder: Path, config: Mapping[str, Any], rows: Sequence[Row], summary: Summary) -> None:
        """Log a finished run once: its config, a table of its rows, its accepted lengths, plots, its summary."""
        logged = folder / "wandb" / f".logged-{self.mode}"
        if self.mode == "disabled" or logged.exists():
            return
        try:
            self._log(folder, config, rows, summary)
            logged.touch()
        except Exception as error:
            log.warning(
                "logger: %s is not in W&B (%s); its record stays as it is", folder, " ".join(str(error).split())
            )

    def _log(self, folder: Path, config: Mapping[str, Any], rows: Sequence[Row], summary: Summary) -> None:
        with _files_in(folder.absolute() / "wandb"):
            import wandb

            with wandb.init(
                mode="online" if self.mode == "online" else "offline",
                project=self.project,
                entity=self.entity,
                group=self.group,
                name=f"{summary.method}-{summary.model}-{summary.benchmark}",
                id=summary.run_id,
                tags=["doubtful"] if summary.marks else None,
                notes="\n".join(summary.marks) or None,
                resume="allow" if self.mode == "online" else None,
                config=dict(config),
                dir=str(folder.absolute()),
                settings=wandb.Settings(silent=True, console="off", disable_git=True, x_disable_stats=True),
            ) as run:
                for number, values in enumerate(course(rows), 1):
                    run.log(values, step=number)
                run.log(media(wandb, rows))
                run.summary.update({key: value for key, value in asdict(summary).items() if value is not None})


def media(wandb: Any, rows: Sequence[Row]) -> dict[str, Any]:
    """The table of the answers, and plots, as the client's own objects."""
    counts, edges = accepted_lengths(rows)
    by_length = wandb.Table(columns=["accepted tokens", "steps"], data=list(enumerate(counts.tolist(), 1)))
    return {
        "answers": wandb.Table(columns=list(COLUMNS), data=table(rows)),
        "accept_lengths": wandb.Histogram(np_histogram=(counts, edges)),
        "steps_by_length": wandb.plot.bar(by_length, "accepted tokens", "steps", "Accepted tokens of a step"),
        **_calibration(wandb, rows),
    }


def _calibration(wandb: Any, rows: Sequence[Row]) -> dict[str, Any]:
    """A plot of the share of nodes accepted over the drafter's probability, where it has probabilities."""
    sums = total_calibration(None if row.calibration is None else vars(row.calibration) for row in rows)
    if sums is None or not sums[0].any():
        return {}
    nodes, probabilities, accepted = sums[:, sums[0] > 0]
    points = np.stack([probabilities / nodes, accepted / nodes], axis=1).round(4).tolist()
    columns = ["probability given by the drafter", "share of nodes accepted"]
    return {"calibration": wandb.plot.scatter(wandb.Table(columns=columns, data=points), *columns, "Calibration")}


def table(rows: Sequence[Row]) -> list[Iterable[Any]]:
    """COLUMNS of each turn."""
    known = [vars(row) | {"mean_accepted_tokens": ratio(row.new_tokens, row.steps)} for row in rows]
    return [[row[key] for key in COLUMNS] for row in known]


def accepted_lengths(rows: Sequence[Row]) -> tuple[np.ndarray, np.ndarray]:
    """int64 [m], float64 [m + 1]: how many steps accepted 1, 2, .. m tokens, and the bins' edges around these."""
    lengths = np.array([length for row in rows for length in row.accept_lengths], np.int64)
    counts = np.bincount(lengths, minlength=2)[1:]
    return counts, np.arange(len(counts) + 1) + 0.5


def course(rows: Sequence[Row]) -> list[dict[str, float]]:
    """After each turn: the answered turns' mean accepted tokens and, where they were timed, tokens per second."""
    found, tokens, steps, seconds = [], 0, 0, 0.0
    for row in rows:
        tokens, steps = tokens + row.new_tokens, steps + row.steps
        seconds += row.decode_seconds or 0.0
        means = {"mean_accepted_tokens": ratio(tokens, steps), "tokens_per_second": ratio(tokens, seconds)}
        found.append({f"so_far/{key}": value for key, value in means.items() if value is not None})
    return found


@contextmanager
def _files_in(folder: Path) -> Iterator[None]:
    """A block in which the client writes here; unless its environment says so, it writes in the home folder."""
    names = [f"WANDB_{kind}_DIR" for kind in ("CACHE", "DATA", "ARTIFACT")]
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, str(folder)))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _log_in() -> None:
    """Ask for the account now, where there is a terminal, and not after hours."""
    import wandb

    try:
        problem = "" if wandb.login() else "W&B knows no account"
    except Exception as error:
        problem = f"W&B refuses ({' '.join(str(error).split())})"
    if problem:
        raise BadInput("logger.mode", f"{problem}; run `wandb login`, or take logger.mode=offline and sync later")
