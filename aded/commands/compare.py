"""Says whether the difference between two runs is more than noise: aded compare RUN_A RUN_B

RUN_A and RUN_B are folders of runs of one benchmark. Compares them on the questions that both answered: mean accepted
tokens, and the speedup where both took turns with autoregressive decoding. Prints A / B with its 95 % bootstrap
interval over questions, and p: how often a difference as large comes of swapping the runs' questions at random. It is
more than noise where the interval does not contain 1 and p is below 0.05; fewer than six questions cannot tell.
"""

from __future__ import annotations

from pathlib import Path

from aded.config.command_line import NoSettings, run_command
from aded.errors import BadInput
from aded.records.finished_runs import FinishedRun, read_begun
from aded.report.difference import compare
from aded.shown import say


def read_named(folder: str, key: str) -> FinishedRun:
    """The run in a folder. Raises BadInput."""
    try:
        return read_begun(Path(folder))
    except (OSError, ValueError) as error:
        raise BadInput(
            key, f"{' '.join(str(error).split())}; name the folder of a run, as outputs/.../METHOD-RUN_ID"
        ) from None


def run(arguments: list[str], settings: NoSettings) -> None:
    if len(arguments) != 2:
        raise BadInput("RUN_A RUN_B", "name the folders of two runs, as in: aded compare RUN_A RUN_B")
    say(compare(*(read_named(folder, key) for folder, key in zip(arguments, ("RUN_A", "RUN_B"), strict=True))))


def main() -> None:
    run_command(run, NoSettings, __doc__ or "")


if __name__ == "__main__":
    main()
