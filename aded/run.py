"""Measures a method on a benchmark: aded run model=NAME benchmark=NAME method=NAME [KEY=VALUE ...]

Config, prompt, draft, verify, commit, record, summary. Exit code 0: finished; 2: bad input, one line on stderr;
130 (Ctrl-C) and 143 (SIGTERM): interrupted, finished rows kept.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from aded.bench.answering import answer_all
from aded.bench.build import (
    Loader,
    build_experiment,
    check_config,
    check_decoding,
    load_benchmark,
    load_model,
    model_name,
    settings_of_record,
)
from aded.bench.progress import Progress, Shown, Silent
from aded.command_line import (
    CONF,
    INPUT_ERRORS,
    ending_in_one_line,
    exit_with_error,
    name_pretrained,
    plain,
    run_hydra,
)
from aded.config import instantiate
from aded.identity import run_id
from aded.methods import with_whole_parts
from aded.records.config import fingerprints
from aded.records.metrics import summarise
from aded.records.run_directory import RunDirectory
from aded.records.summary import Summary
from aded.settings_page import settings_page


def run(
    cfg: DictConfig, progress: Progress, load: Loader = load_model, overrides: Sequence[str] | None = None
) -> tuple[Summary, Path]:
    """Carry out (or go on with) the run that the config describes; return its summary and its folder.

    overrides: what the config was composed from, for the record.
    """
    check_config(cfg)
    decoding = check_decoding(cfg.decoding)
    benchmark, questions = load_benchmark(cfg.benchmark)
    logger = instantiate(plain(cfg.logger), "logger") if cfg.logger else None  # refused now, not after the run
    settings = {**settings_of_record(cfg, benchmark, questions), "method": with_whole_parts(plain(cfg.method))}
    files = fingerprints(settings)
    folder = Path(cfg.output_dir or default_folder(cfg, run_id(settings, files)))
    directory = RunDirectory(folder, settings, files, overrides)
    try:
        summary = directory.summary()
        if summary is None:
            experiment = build_experiment(cfg, benchmark, questions, decoding, load)
            label = f"{cfg.method.name}, {Path(model_name(cfg)).name}, {cfg.benchmark.name}"
            rows = answer_all(experiment, directory, progress, label)
            names = {"method": cfg.method.name, "model": model_name(cfg), "benchmark": cfg.benchmark.name}
            scope = experiment.runner.drafter.adaptation
            summary = summarise(rows, **names, run_id=directory.identity, adaptation=scope)
            directory.write_summary(summary)
        if logger:
            logger.log(folder, settings, directory.finished_rows(), summary)
        return summary, folder
    finally:
        directory.close()


def default_folder(cfg: DictConfig, identity: str) -> Path:
    model = Path(model_name(cfg)).name.replace(" ", "-")
    return Path(cfg.paths.output) / model / cfg.benchmark.name / f"{cfg.method.name}-{identity}"


def format_summary(summary: Summary) -> str:
    """The summary in one line, and its marks in another."""

    def number(value: float | None, form: str) -> str:
        return "-" if value is None else format(value, form)

    lines = [
        f"{summary.method}, {summary.benchmark}: {number(summary.tokens_per_second, '.1f')} tokens/s, "
        f"speedup {number(summary.speedup, '.2f')} "
        f"[{number(summary.speedup_low, '.2f')}, {number(summary.speedup_high, '.2f')}], "
        f"mean accepted tokens {number(summary.mean_accepted_tokens, '.2f')}, "
        f"identical {number(summary.identical_outputs, 'd')} of {summary.turns}",
        *([f"  marked: {'; '.join(summary.marks)}"] if summary.marks else []),
    ]
    return "\n".join(lines)


@hydra.main(version_base="1.3", config_path=str(CONF), config_name="config")
def _hydra_main(cfg: DictConfig) -> None:
    progress = Shown() if cfg.get("progress") is True else Silent()
    try:
        overrides = list(HydraConfig.get().overrides.task)
        summary, folder = run(cfg, progress, overrides=overrides)
        first, *marks = format_summary(summary).splitlines()
        print("\n".join([f"{first}  {folder}", *marks]))
    except INPUT_ERRORS as error:
        exit_with_error(error)
    finally:
        progress.close()


def main() -> None:
    if {"-h", "--help"} & set(sys.argv[1:]):
        with ending_in_one_line("interrupted"):
            overrides = name_pretrained([one for one in sys.argv[1:] if not one.startswith("-")])
            print(f"{(__doc__ or '').strip()}\n\n{settings_page(overrides)}")
        return
    run_hydra(_hydra_main, "interrupted; finished rows are kept: start the same command again to go on")
