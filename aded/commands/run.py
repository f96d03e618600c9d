"""Measures a method on a benchmark: aded run model=NAME benchmark=NAME method=NAME [KEY=VALUE ...]

Config, prompt, draft, verify, commit, record, summary. With -m it is a sweep of KEY=VALUE,VALUE: every combination
is a run, and one that fails costs no other. Exit code 0: finished; 1: some runs of a sweep failed; 2: bad input, one
line on stderr; 130 (Ctrl-C) and 143 (SIGTERM): interrupted, finished rows kept.
"""

from __future__ import annotations

import sys
from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from aded.bench.progress import Progress, Shown
from aded.bench.run import checked_config, format_summary, run
from aded.bench.sweep import sweep
from aded.config.command_line import ending_in_one_line, run_config
from aded.errors import BadInput
from aded.records.summary import Summary
from aded.shown import say, show_log

INTERRUPTED = "interrupted; finished rows are kept: start the same command again to go on"
SWEEP = {"-m", "--multirun"}


def run_and_print(cfg: DictConfig) -> None:
    progress = Shown() if cfg.get("progress") is True else Progress()
    try:
        summary, folder = run(checked_config(cfg, HydraConfig.get().overrides.task), progress)
    finally:
        progress.close()
    say(format_summary(summary, folder))


def sweep_and_print(arguments: list[str]) -> None:
    """arguments: those beside -m."""
    for one in arguments:
        if one.startswith("-"):
            raise BadInput(one, "is not read with -m, which takes KEY=VALUE alone")

    def show(summary: Summary, folder: Path) -> None:
        say(format_summary(summary, folder))

    sweep(arguments, show).end()


def main() -> None:
    arguments = sys.argv[1:]
    if SWEEP & {*arguments} and not {"-h", "--help"} & {*arguments}:
        show_log()
        with ending_in_one_line(INTERRUPTED):
            sweep_and_print([one for one in arguments if one not in SWEEP])
    else:
        run_config("config", run_and_print, __doc__ or "", INTERRUPTED)


if __name__ == "__main__":
    main()
