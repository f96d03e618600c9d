"""Rebuilds the comparison of some methods that read tokens alone, METHODS, on the packs of results/packs: make replay

    python -m scripts.results.replay [out=FOLDER] [packs=FOLDER] [jobs=N]

    out       write table.csv and summary.md there; without it, the table is held against that of results/replay, and
              the first difference is one line and exit code 1
    packs     the folder of the packs; results/packs
    jobs      processes; as many as there are processors

No number depends on time, on threads or on the machine: docs/packs.md says why. A method that reads a corpus gets the
answers of the other packs: the same model on other questions. `cold` forgets between prompts, `session` keeps what
was learned over all questions of the pack; a method that has nothing to keep has the same value twice.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import zip_longest
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter
from typing import Any

from tabulate import tabulate

from aded.config.command_line import check_no_arguments, run_command
from aded.files.atomic import write_text
from aded.files.json_lines import read_text
from aded.files.pack import read_about
from aded.settings import FilePath, Positive
from aded.shown import say, warn
from scripts.results.measure import Case, as_csv, exact_numbers, measure, names_of_packs, new_case

COMMITTED = Path("results/replay")
PACKS = Path("results/packs")
METHODS: Sequence[tuple[str, Mapping[str, Any]]] = (
    ("autoregressive", {}),
    ("prompt_lookup", {}),
    ("rest", {}),
    ("aded", {}),
    ("aded_best_first", {"budget": 64}),
    ("aded_backoff", {"cost": "none"}),
)
"""Each with the settings that differ from its config. draftretriever has no seed: its drafts differ each time."""


@dataclass
class ReplaySettings:
    """See above."""

    out: FilePath | None = None
    packs: FilePath = str(PACKS)
    jobs: Positive = os.cpu_count() or 1


def row_of(case: Case) -> dict[str, str]:
    """The case's row of table.csv, as text: every digit counts."""
    cold, session = measure(case)
    return {
        "pack": case.pack,
        "method": case.method,
        "settings": json.dumps(case.settings),
        "corpus": "+".join(case.corpus),
        "turns": str(cold.turns),
        "new_tokens": str(cold.new_tokens),
        "steps_cold": str(cold.steps),
        "steps_session": str(session.steps),
        **exact_numbers(cold, session),
    }


def cases_of(folder: Path) -> list[Case]:
    """Every method on every pack."""
    return [new_case(folder, pack, *method) for pack in names_of_packs(folder) for method in METHODS]


def rows_of(folder: Path, jobs: int) -> list[dict[str, str]]:
    """All cases, measured."""
    cases = cases_of(folder)
    with ProcessPoolExecutor(min(jobs, len(cases)), get_context("spawn")) as pool:
        return list(pool.map(row_of, cases))


def as_markdown(rows: Sequence[Mapping[str, str]], folder: Path) -> str:
    """The text of summary.md: the methods, best first on average, each pack in two columns."""
    methods: dict[str, list[str]] = {}
    for row in rows:
        name = row["method"] + "".join(f", {key}={value}" for key, value in json.loads(row["settings"]).items())
        methods.setdefault(name, []).extend(f"{float(row[key]):.3f}" for key in ("mat_cold", "mat_session"))
    best_first = sorted(methods.items(), key=lambda method: -sum(map(float, method[1])))
    packs = list(dict.fromkeys(row["pack"] for row in rows))
    heads = ["method", *(f"{pack}, {scope}" for pack in packs for scope in ("cold", "session"))]
    lines = [[name, *values] for name, values in best_first]
    table = tabulate(lines, heads, tablefmt="pipe", disable_numparse=True)
    abouts = {pack: read_about(folder / pack, "packs") for pack in packs}
    packed = [
        [pack, about.model, about.licence, about.turns, about.answer_tokens, about.answers_sha256[:16]]
        for pack, about in abouts.items()
    ]
    described = tabulate(packed, ["pack", "model", "licence", "turns", "tokens", "answers"], tablefmt="pipe")
    return ABOUT_TABLE.format(table=table, packs=described)


ABOUT_TABLE = """# Methods that read tokens alone, on our packs

Mean accepted tokens. Cold: learned state is forgotten at each prompt; session: it is kept over all questions of the
pack. A method that reads a corpus drafts from the answers of the model's other packs. `make replay` rebuilds this
page and table.csv, which has all digits, and compares.

{table}

{packs}
"""


def first_difference(before: str, now: str) -> str | None:
    """The first line of two texts of table.csv that differs, and how; None where none does."""
    for number, (old, new) in enumerate(zip_longest(before.splitlines(), now.splitlines()), 1):
        if old != new:
            return f"line {number} was {old} and is {new}"
    return None if before == now else "the text differs"


def run(rest: list[str], settings: ReplaySettings) -> None:
    check_no_arguments(rest)
    began, folder = perf_counter(), Path(settings.packs).expanduser()
    rows = rows_of(folder, settings.jobs)
    texts = {"table.csv": as_csv(rows), "summary.md": as_markdown(rows, folder)}
    say(texts["summary.md"].split("\n\n")[2])
    took = f"{perf_counter() - began:.0f} s"
    if settings.out is not None:
        for name, text in texts.items():
            write_text(Path(settings.out).expanduser() / name, text, "out")
        say(f"{took}: {settings.out}/table.csv")
        return
    for name, text in texts.items():
        if difference := first_difference(read_text(COMMITTED / name, "replay"), text):
            warn(f"{COMMITTED / name}: {difference}")
            sys.exit(1)
    say(f"{took}: {len(rows)} rows, each digit as in {COMMITTED / 'table.csv'}")


def main() -> None:
    run_command(run, ReplaySettings, __doc__ or "")


if __name__ == "__main__":
    main()
