"""Answers a run's questions, each on record before the next, and decodes those again that the machine disturbed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from aded.bench.clock.neighbours import Neighbours
from aded.bench.clock.watch import wait_for_quiet
from aded.bench.progress import Progress
from aded.bench.runner import Runner
from aded.files.models.tokenizer import answer_text
from aded.records.environment import environment
from aded.records.noise import MOST_TIMINGS, pairs_of, to_decode_again
from aded.records.rows import Row
from aded.records.run_directory import RunDirectory, whole_questions

PATIENCE = 0.1
"""Most time to wait for a quiet machine, as a share of the time in which its rows were decoded."""


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
