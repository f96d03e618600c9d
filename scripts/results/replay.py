"""Rebuilds the comparison of all methods that read tokens alone, on the packs of results/packs: make replay

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

import csv
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, fields
from io import StringIO
from itertools import zip_longest
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter
from typing import Any

from tabulate import tabulate

from aded.command_line import run_command
from aded.errors import BadInput
from aded.files.atomic import write_text
from aded.files.json_lines import read_text
from aded.files.pack import read_about
from aded.settings import FilePath, Positive
from scripts.results.measure import Case, measure, names_of_packs, new_case

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


@dataclass(frozen=True)
class Line:
    """A row of table.csv, as text: every digit counts."""

    pack: str
    method: str
    settings: str
    corpus: str
    turns: str
    new_tokens: str
    steps_cold: str
    steps_session: str
    mat_cold: str
    mat_session: str
    nodes_cold: str
    nodes_session: str


@dataclass
class ReplaySettings:
    """See above."""

    out: FilePath | None = None
    packs: FilePath = str(PACKS)
    jobs: Positive = os.cpu_count() or 1


def line_of(case: Case) -> Line:
    """The case, measured."""
    cold, session = measure(case)
    return Line(
        case.pack,
        case.method,
        json.dumps(case.settings),
        "+".join(case.corpus),
        str(cold.turns),
        str(cold.new_tokens),
        str(cold.steps),
        str(session.steps),
        repr(cold.mean_accepted_tokens),
        repr(session.mean_accepted_tokens),
        repr(cold.drafted_nodes_per_step),
        repr(session.drafted_nodes_per_step),
    )


def cases_of(folder: Path) -> list[Case]:
    """Every method on every pack."""
    return [new_case(folder, pack, *method) for pack in names_of_packs(folder) for method in METHODS]


def lines_of(folder: Path, jobs: int) -> list[Line]:
    """All cases, measured."""
    cases = cases_of(folder)
    with ProcessPoolExecutor(min(jobs, len(cases)), get_context("spawn")) as pool:
        return list(pool.map(line_of, cases))


def as_csv(lines: Iterable[Line]) -> str:
    """The text of table.csv."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(field.name for field in fields(Line))
    writer.writerows(asdict(line).values() for line in lines)
    return text.getvalue()


def as_markdown(lines: Sequence[Line], folder: Path) -> str:
    """The text of summary.md: the methods, best first on average, each pack in two columns."""
    packs = list(dict.fromkeys(line.pack for line in lines))
    rows = []
    for method in dict.fromkeys((line.method, line.settings) for line in lines):
        cells = {line.pack: line for line in lines if (line.method, line.settings) == method}
        name = method[0] + "".join(f", {key}={value}" for key, value in json.loads(method[1]).items())
        values = [f"{float(mat):.3f}" for pack in packs for mat in (cells[pack].mat_cold, cells[pack].mat_session)]
        rows.append([name, *values])
    rows.sort(key=lambda row: -sum(map(float, row[1:])))
    heads = ["method", *(f"{pack}, {scope}" for pack in packs for scope in ("cold", "session"))]
    table = tabulate(rows, heads, tablefmt="pipe", disable_numparse=True)
    abouts = {pack: read_about(folder / pack, "packs") for pack in packs}
    packed = [
        [pack, about.model, about.licence, about.turns, about.answer_tokens, about.answers_sha256[:16]]
        for pack, about in abouts.items()
    ]
    described = tabulate(packed, ["pack", "model", "licence", "turns", "tokens", "answers"], tablefmt="pipe")
    return ABOUT_TABLE.format(table=table, packs=described)


ABOUT_TABLE = """# Methods that read tokens alone, on our packs

Mean accepted tokens. Cold: learned state is forgotten at each prompt; session: it is kept over all questions of the
pack. A method that reads a corpus drafts from the answers of the other packs. `make replay` rebuilds this page and
table.csv, which has all digits, and compares.

{table}

{packs}
"""


def first_difference(before: str, now: str) -> str | None:
    """The first row of two texts of table.csv that differs, and how; None where none does."""
    rows_before, rows_now = (list(csv.DictReader(text.splitlines())) for text in (before, now))
    none: dict[str, str] = {}
    for old, new in zip_longest(rows_before, rows_now, fillvalue=none):
        if old != new:
            key = next((key for key in {**old, **new} if old.get(key) != new.get(key)), "a row")
            name = " ".join(str((new or old).get(part)) for part in ("pack", "method"))
            return f"{name}: {key} was {old.get(key)} and is {new.get(key)}"
    return None if before == now else "the text differs"


def replay_packs(rest: list[str], settings: ReplaySettings) -> None:
    if rest:
        raise BadInput(rest[0], "is no setting; there are out, packs, jobs")
    began, folder = perf_counter(), Path(settings.packs)
    lines = lines_of(folder, settings.jobs)
    texts = {"table.csv": as_csv(lines), "summary.md": as_markdown(lines, folder)}
    print(texts["summary.md"].split("\n\n")[2])
    took = f"{perf_counter() - began:.0f} s"
    if settings.out is not None:
        for name, text in texts.items():
            write_text(Path(settings.out) / name, text, "out")
        print(f"{took}: {settings.out}/table.csv")
        return
    committed = read_text(COMMITTED / "table.csv", "replay")
    if difference := first_difference(committed, texts["table.csv"]):
        print(f"{COMMITTED / 'table.csv'}: {difference}", file=sys.stderr)
        sys.exit(1)
    print(f"{took}: {len(lines)} rows, each digit as in {COMMITTED / 'table.csv'}")


def main() -> None:
    run_command(replay_packs, ReplaySettings, __doc__ or "")


if __name__ == "__main__":
    main()
