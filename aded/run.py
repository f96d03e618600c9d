"""Measures a method on a benchmark: aded run model=NAME benchmark=NAME method=NAME [KEY=VALUE ...]

Config, prompt, draft, verify, commit, record, summary. Exit code 0: finished; 2: bad input, one line on stderr;
130 (Ctrl-C) and 143 (SIGTERM): interrupted, finished rows kept.
"""

from __future__ import annotations

from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from aded.bench.answering import answer_all
from aded.bench.build import (
    Loader,
    RunConfig,
    build_drafter,
    checked_config,
    experiment_of,
    load_model,
    settings_of_record,
)
from aded.bench.progress import Progress, Shown
from aded.bench.runner import Runner
from aded.config.command_line import run_config
from aded.identity import run_ids
from aded.records.config import fingerprints
from aded.records.metrics import summarise
from aded.records.numbers import formatted, with_interval
from aded.records.run_directory import RunDirectory
from aded.records.summary import Summary


def run(config: RunConfig, progress: Progress, load: Loader = load_model) -> tuple[Summary, Path]:
    """Carry out (or go on with) the run that the config describes; return its summary and its folder."""
    asked = config.asked()
    logger = config.logger() if config.logger else None  # refused now, not after the run
    settings, names = settings_of_record(config, asked), config.names()
    files = fingerprints(settings)
    folder = Path(settings["output_dir"] or default_folder(config, run_ids(settings, files))).expanduser()
    directory = RunDirectory(folder, settings, files, config.overrides)
    try:
        summary = directory.summary()
        if summary is None:
            experiment = experiment_of(config, asked, load)
            drafter = build_drafter(config, experiment.loaded)  # last: it may build a datastore, for minutes
            label = f"{names['method']}, {Path(names['model']).name}, {names['benchmark']}"
            rows = answer_all(Runner(experiment, drafter), directory, progress, label)
            summary = summarise(rows, **names, run_id=directory.identity, adaptation=drafter.adaptation)
            directory.write_summary(summary)
        if logger:
            logger.log(folder, settings, directory.finished_rows(), summary)
        return summary, folder
    finally:
        directory.close()


def default_folder(config: RunConfig, identities: list[str]) -> Path:
    """That of the run, or of the same run as an earlier version named it."""
    names = config.names()
    above = (
        Path(config.settings["paths"]["output"]) / Path(names["model"]).name.replace(" ", "-") / names["benchmark"]
    )
    folders = [above / f"{names['method']}-{identity}" for identity in identities]
    return next((folder for folder in folders if folder.expanduser().exists()), folders[0])


def format_summary(summary: Summary) -> str:
    """The summary in one line, and its marks in another."""
    lines = [
        f"{summary.method}, {summary.benchmark}: {formatted(summary.tokens_per_second, '.1f')} tokens/s, "
        f"speedup {with_interval(summary.speedup, summary.speedup_low, summary.speedup_high)}, "
        f"mean accepted tokens {formatted(summary.mean_accepted_tokens)}, "
        f"identical {formatted(summary.identical_outputs, 'd')} of {summary.turns}",
        *([f"  marked: {'; '.join(summary.marks)}"] if summary.marks else []),
    ]
    return "\n".join(lines)


def run_and_print(cfg: DictConfig) -> None:
    progress = Shown() if cfg.get("progress") is True else Progress()
    try:
        summary, folder = run(checked_config(cfg, HydraConfig.get().overrides.task), progress)
        first, *marks = format_summary(summary).splitlines()
        print("\n".join([f"{first}  {folder}", *marks]))
    finally:
        progress.close()


def main() -> None:
    interrupted = "interrupted; finished rows are kept: start the same command again to go on"
    run_config("config", run_and_print, __doc__ or "", interrupted)


if __name__ == "__main__":
    main()
