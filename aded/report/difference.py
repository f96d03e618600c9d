"""Two runs on the questions that both answered: their numbers, the quotient, and what else a reader must know."""

from __future__ import annotations

from collections.abc import Iterator

from tabulate import tabulate

from aded.errors import BadInput
from aded.records.finished_runs import FinishedRun
from aded.records.metrics import MISSING
from aded.records.rows import Row
from aded.records.totals import FEWEST_SHARED, Difference, Totals, difference

NUMBERS = {"mean accepted tokens": Totals.mean_accepted_tokens, "speedup": Totals.speedup}
HEADS = ("", "A", "B", "A / B", "95 %", "p", "")


def compare(a: FinishedRun, b: FinishedRun) -> str:
    """The comparison as a text. Raises BadInput where the runs share no question."""
    rows_a, rows_b = shared_rows(a, b)
    if a.benchmark != b.benchmark or not rows_a:
        raise BadInput("RUN_B", f"{b.folder} answers no question of {a.folder}; name two runs of one benchmark")
    found = {name: difference(rows_a, rows_b, number) for name, number in NUMBERS.items()}
    table = [_line(name, one) for name, one in found.items() if one is not None]
    return "\n".join(
        [
            *(
                f"{name}: {run.method}, {run.model}, {run.benchmark}: {run.folder}"
                for name, run in (("A", a), ("B", b))
            ),
            f"questions that both answered: {len({row.question_id for row in rows_a})}",
            "",
            tabulate(table, HEADS, tablefmt="plain", disable_numparse=True),
            "",
            *_remarks(a, b, found),
        ]
    ).rstrip()


def shared_rows(a: FinishedRun, b: FinishedRun) -> tuple[list[Row], list[Row]]:
    """The rows of the turns that both have, in the same order."""
    by_turn = {(row.question_id, row.turn): row for row in b.rows}
    mine = [row for row in a.rows if (row.question_id, row.turn) in by_turn]
    return mine, [by_turn[row.question_id, row.turn] for row in mine]


def _line(name: str, one: Difference) -> tuple[str, ...]:
    ends = MISSING if one.low is None or one.high is None else f"{one.low:.3f} to {one.high:.3f}"
    verdict = (
        "cannot tell" if one.questions < FEWEST_SHARED else "may be noise" if one.is_noise else "more than noise"
    )
    return name, f"{one.first:.3f}", f"{one.second:.3f}", f"{one.quotient:.3f}", ends, f"{one.p:.3f}", verdict


def _remarks(a: FinishedRun, b: FinishedRun, found: dict[str, Difference | None]) -> Iterator[str]:
    """What else a reader must know to believe it."""
    if any(one and one.questions < FEWEST_SHARED for one in found.values()):
        yield f"Fewer than {FEWEST_SHARED} questions cannot show a difference, however large: run more."
    if not (a.summary.steps and b.summary.steps):
        yield "No speedup: one of the runs has no step."
    elif found["speedup"] is None:
        yield "No speedup: one of the runs did not take turns with autoregressive decoding."
    rows = list(zip(*shared_rows(a, b), strict=True))
    other = sum(one.token_ids_sha256 != another.token_ids_sha256 for one, another in rows)
    if other:
        yield f"The answers differ in {other} of {len(rows)} turns: the methods did not draft the same texts."
    for name, run in (("A", a), ("B", b)):
        if run.cut_off:
            yield f"{name} was cut off: it has {run.summary.questions} questions so far."
        for mark in run.summary.marks:
            yield f"{name}: {mark}."
    if a.machine != b.machine:
        yield f"The machines differ: {a.machine}; {b.machine}."
    for key in sorted(a.settings.keys() & b.settings.keys()):
        if a.settings[key] != b.settings[key]:
            yield f"{key} differs: {a.settings[key]}; {b.settings[key]}"
