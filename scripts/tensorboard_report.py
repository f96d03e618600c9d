"""Finished runs in TensorBoard, ranked as in the report.

    python -m scripts.tensorboard_report FOLDER [FOLDER ...] [out=FOLDER]

Reads every finished run below the folders and writes, for `tensorboard --logdir OUT`: the ranking as a text; each run
with its settings and its numbers (HPARAMS), and how accepted tokens and tokens per second went from answer to answer
(SCALARS). Runs are listed by their rank.

    out         a folder, whose event files are replaced; tensorboard in the first folder
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aded.bench.wandb_logger import course
from aded.command_line import run_command
from aded.records.finished_runs import FinishedRun
from aded.settings import FilePath
from scripts.report.cells import line_names, ranked
from scripts.report.literal import literal_run
from scripts.report.ranking import as_markdown
from scripts.tables import runs_below

NUMBERS = (
    "speedup",
    "speedup_low",
    "speedup_high",
    "mean_accepted_tokens",
    "tokens_per_second",
    "drafted_nodes_per_step",
    "draft_ms_median",
    "questions",
)
"""Keys of summary.json that HPARAMS shows, the one that ranks first."""
TABLE = "ranking"


@dataclass
class Settings:
    """See above."""

    out: FilePath | None = None


def write(runs: Sequence[FinishedRun], folder: Path) -> list[str]:
    """Write the event files; return the names of the runs in TensorBoard, best first."""
    from torch.utils.tensorboard import SummaryWriter

    for old in [*folder.rglob("events.out.tfevents.*")]:
        old.unlink()
    text = as_markdown(runs)
    runs = ranked([literal_run(run) for run in runs])
    lines, names = line_names(runs, seeds=True), list[str]()
    with SummaryWriter(str(folder / TABLE)) as writer:
        writer.add_text(TABLE, text)
    settings = differing(runs)
    for rank, run in enumerate(runs, 1):
        names.append(f"{rank:0{len(str(len(runs)))}d} {lines[run.folder]}".replace("/", "-"))
        with SummaryWriter(str(folder / names[-1])) as writer:
            for step, values in enumerate(course(run.rows), 1):
                for key, value in values.items():
                    writer.add_scalar(key, value, step)
            numbers = {key: value for key in NUMBERS if (value := getattr(run.summary, key)) is not None}
            writer.add_hparams(settings[run.folder], numbers, run_name=".")
    return names


def differing(runs: Sequence[FinishedRun]) -> dict[Path, dict[str, Any]]:
    """By folder: model, benchmark and method, and the settings that not all runs have alike."""
    keys = {key for run in runs for key in run.settings if len({str(each.settings.get(key)) for each in runs}) > 1}
    return {
        run.folder: {"model": run.model, "benchmark": run.benchmark, "method": run.method}
        | {key: str(run.settings.get(key, "")) for key in sorted(keys)}
        for run in runs
    }


def run(arguments: list[str], settings: Settings) -> None:
    runs, first = runs_below(arguments, "tensorboard_report")
    out = Path(settings.out) if settings.out else first / "tensorboard"
    names = write(runs, out)
    print("\n".join(names))
    print(f"TensorBoard: tensorboard --logdir {shlex.quote(str(out))}")


def main() -> None:
    run_command(run, Settings, __doc__ or "")


if __name__ == "__main__":
    main()
