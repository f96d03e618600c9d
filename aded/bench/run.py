"""One run, from its config to its summary.

Each question is on record before the next; those that the machine disturbed are decoded again.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from aded.bench.build import Loader, RunConfig, build_drafter, experiment_of, load_model, settings_of_record
from aded.bench.clock import Neighbours, wait_for_quiet
from aded.bench.progress import Progress
from aded.bench.runner import Asked, Runner
from aded.files.models.tokenizer import answer_text
from aded.identity import run_ids
from aded.records.config import fingerprints
from aded.records.environment import environment
from aded.records.metrics import formatted, summarise, with_interval
from aded.records.noise import MOST_TIMINGS, pairs_of, to_decode_again
from aded.records.rows import Row
from aded.records.run_directory import RunDirectory, whole_questions
from aded.records.summary import Summary

PATIENCE = 0.1
"""Most time to wait for a quiet machine, as a share of the time in which its rows were decoded."""


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


def answer_all(runner: Runner, directory: RunDirectory, progress: Progress, label: str) -> list[Row]:
    """Answer the questions that the record lacks; return all rows. label: the run's name in its progress."""
    questions = runner.experiment.asked.chosen
    rows = whole_questions(directory.finished_rows(), [(one.id, len(one.turns)) for one in questions])
    facts = {**runner.describe(), "files": directory.files, "overrides": directory.overrides}
    directory.begin(environment(facts), resumed=bool(rows))
    directory.rewrite(rows)
    directory.keep_trees_of(rows)
    finished = [list(turns) for _, turns in groupby(rows, lambda row: row.question_id)]
    for turns in finished:
        runner.grow_slices(turns)
    done = len(finished)
    progress.begin(label, len(questions), done, runner.experiment.max_new_tokens)
    runner.warm_up()
    if 0 < done < len(questions):
        if runner.drafter.remembers_answers and runner.drafter.requires:
            progress.note("what the method learned is in no row: it answers the finished questions again, unrecorded")
        runner.restore(questions[:done], rows)
    neighbours = Neighbours(lambda text: progress.note(f"{label}: {text}"))
    runner.on_lap = neighbours.lap
    for new in runner.answer(questions[done:], start=done):
        if runner.trees:
            directory.append_trees(runner.trees.take())
        directory.append(new)
        rows += new
        progress.answered(rows)
        neighbours.tell()
    spent = sum(timing.machine.seconds for row in rows for timing in row.timings)
    rows = answer_disturbed(runner, directory, progress, rows, label, PATIENCE * spent)
    _write_samples(runner, directory, rows)
    return rows


def answer_disturbed(
    runner: Runner, directory: RunDirectory, progress: Progress, rows: list[Row], label: str, patience: float
) -> list[Row]:
    """Decode the questions again of which too little was undisturbed, at most twice; return all rows.

    On a machine that stays busy for `patience` seconds it is no use, and is not tried.
    """
    questions = runner.experiment.asked.chosen
    for _ in range(MOST_TIMINGS - 1):
        tried = {row.question_id for row in rows if len(row.timings) >= MOST_TIMINGS}
        chosen = to_decode_again(rows, pairs_of(rows)) - tried
        if not chosen or not wait_for_quiet(patience):
            break
        progress.note(f"{label}: {len(chosen)} of {len(questions)} questions were disturbed: they are decoded again")
        for again in runner.answer_again(questions, rows, chosen):
            by_turn = {(row.question_id, row.turn): row for row in again}
            rows = [by_turn.get((row.question_id, row.turn), row) for row in rows]
            directory.rewrite(rows)
    return rows


def _write_samples(runner: Runner, directory: RunDirectory, rows: Sequence[Row]) -> None:
    """What the benchmark's own scorer reads, where it has one."""
    asked = runner.experiment.asked
    by_id = {question.id: question for question in asked.chosen}
    samples = [
        asked.benchmark.sample(
            by_id[row.question_id], answer_text(runner.tokenizer, row.token_ids, asked.benchmark.stop_strings)
        )
        for row in rows
    ]
    directory.write_samples([sample for sample in samples if sample])
