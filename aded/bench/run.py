"""One run, from its config to its summary."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from aded.bench.answering import answer_all
from aded.bench.build import (
    Loader,
    RunConfig,
    build_drafter,
    experiment_of,
    load_model,
    settings_of_record,
)
from aded.bench.experiment import Asked
from aded.bench.progress import Progress
from aded.bench.runner import Runner
from aded.identity import run_ids
from aded.records.config import fingerprints
from aded.records.metrics import formatted, summarise, with_interval
from aded.records.run_directory import RunDirectory
from aded.records.summary import Summary


class PlaceOfRecord(NamedTuple):
    """A run's folder, and what its record is known by.

    settings: its resolved config. files: the fingerprints of the files that they name, by key.
    """

    folder: Path
    settings: dict[str, Any]
    files: dict[str, str]


def place_of_record(config: RunConfig, asked: Asked) -> PlaceOfRecord:
    """asked: the config's. Raises BadInput."""
    settings = settings_of_record(config, asked)
    files = fingerprints(settings)
    folder = settings["output_dir"] or default_folder(config, run_ids(settings, files))
    return PlaceOfRecord(Path(folder).expanduser(), settings, files)


def run(config: RunConfig, progress: Progress, load: Loader = load_model) -> tuple[Summary, Path]:
    """Carry out (or go on with) the run that the config describes; return its summary and its folder."""
    asked = config.asked()
    logger = config.logger() if config.logger else None  # refused now, not after the run
    (folder, settings, files), names = place_of_record(config, asked), config.names()
    directory = RunDirectory(folder, settings, files, config.overrides)
    try:
        summary = directory.summary()
        if summary is None:
            experiment = experiment_of(config, asked, load)
            drafter = build_drafter(config, experiment.loaded)  # last: it may build a datastore, for minutes
            label = f"{names['method']}, {Path(names['model']).name}, {names['benchmark']}"
            rows = answer_all(Runner(experiment, drafter), directory, progress, label)
            summary = summarise(rows, **names, run_id=directory.identity, drafter=drafter)
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


def format_summary(summary: Summary, folder: Path) -> str:
    """The summary and the run's folder in one line, and its marks in another."""
    lines = [
        f"{summary.method}, {summary.benchmark}: {formatted(summary.tokens_per_second, '.1f')} tokens/s, "
        f"speedup {with_interval(summary.speedup, summary.speedup_low, summary.speedup_high)}, "
        f"mean accepted tokens {formatted(summary.mean_accepted_tokens)}{_trees(summary)}, "
        f"identical {formatted(summary.identical_outputs, 'd')} of {summary.turns}  {folder}",
        *([f"  marked: {'; '.join(summary.marks)}"] if summary.marks else []),
    ]
    return "\n".join(lines)


def _trees(summary: Summary) -> str:
    """That the budget never was a limit, where that is so."""
    if summary.budget is None or summary.largest_tree is None or summary.largest_tree >= summary.budget:
        return ""
    return f" by trees of at most {summary.largest_tree} of {summary.budget} nodes"
