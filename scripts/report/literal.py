"""Texts of models, data sets and people as they may stand in a report: nothing in them acts."""

from __future__ import annotations

from dataclasses import replace

from aded.records.finished_runs import FinishedRun


def literal(text: str, kept: str = "") -> str:
    """The text with all that is not printed as escapes: controls, marks that change the direction, lone surrogates.

    kept: characters that stay.
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one in kept else one.encode("unicode_escape").decode() for one in text)


def literal_run(run: FinishedRun) -> FinishedRun:
    """The run with its names, settings and categories literal: tables, plots and page read nothing else of it."""
    summary = run.summary
    summary = replace(
        summary,
        method=literal(summary.method),
        model=literal(summary.model),
        benchmark=literal(summary.benchmark),
        marks=[literal(mark) for mark in summary.marks],
    )
    config = {literal(key): literal(value) if isinstance(value, str) else value for key, value in run.config.items()}
    machine = run.environment.machine
    machine = replace(machine, processor=literal(machine.processor), gpu=machine.gpu and literal(machine.gpu))
    rows = [row if row.category.isprintable() else replace(row, category=literal(row.category)) for row in run.rows]
    return replace(
        run,
        summary=summary,
        config=config,
        environment=replace(run.environment, machine=machine),
        rows=rows,
    )
