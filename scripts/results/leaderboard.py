"""A leaderboard whose every row can be rebuilt: python -m scripts.results.leaderboard verify|add [KEY=VALUE ...]

    verify    rebuild the rows from their packs; the first that differs is one line and exit code 1
    add       measure a method, and add a row for each pack

    file         the leaderboard; results/leaderboard.csv
    packs        the folder of the packs; results/packs
    method       add: its name; verify: only its rows
    settings     add: those that differ from its config, as '{budget: 32}'
    pack         one pack; all
    submitter    add: who stands behind the row

Mean accepted tokens, drafted nodes and the hash of config, pack and corpus must be found again digit for digit.
Drafting time is one machine's, and is not compared.
"""

from __future__ import annotations

import csv
import json
import sys
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from aded.config.command_line import run_command
from aded.errors import BadInput
from aded.files.atomic import write_text
from aded.files.json_lines import json_value, read_text
from aded.records.environment import environment
from aded.settings import FilePath, Text
from aded.shown import say, warn
from scripts.results.measure import Case, as_csv, exact_numbers, measure, names_of_packs, new_case

PackName = Annotated[Text, Field(pattern=r"^[\w.-]+$")]


@dataclass(frozen=True)
class Submission:
    """A row of leaderboard.csv, as text: every digit counts."""

    method: str
    settings: str
    """Those that differ from its config, as JSON."""
    pack: str
    corpus: str
    """Names of the packs whose answers the method drafts from, joined by +."""
    mat_cold: str
    mat_session: str
    nodes_cold: str
    """Drafted nodes per step."""
    nodes_session: str
    draft_ms: str
    """Median drafting time of a step, cold; of the submitter's machine."""
    config: str
    """Hash of all settings, the pack and the corpus."""
    commit: str
    submitter: str
    date: str


COLUMNS = tuple(field.name for field in fields(Submission))
REBUILT = ("config", "mat_cold", "mat_session", "nodes_cold", "nodes_session")
SAME = ("method", "settings", "pack", "corpus", "submitter")
"""A new row takes the place of one that agrees in these."""


@dataclass
class LeaderboardSettings:
    """See above."""

    file: FilePath = "results/leaderboard.csv"
    packs: FilePath = "results/packs"
    method: str | None = None
    settings: dict[str, Any] | None = None
    pack: PackName | None = None
    submitter: Text | None = None


def read_rows(path: Path) -> list[Submission]:
    """The rows of a leaderboard. Raises BadInput naming the line."""
    reader = csv.DictReader(read_text(path, "file").splitlines())
    if tuple(reader.fieldnames or ()) != COLUMNS:
        raise BadInput("file", f"{path} is no leaderboard; its columns must be {', '.join(COLUMNS)}")
    rows = []
    for number, row in enumerate(reader, 2):
        if None in row or None in row.values():
            raise BadInput("file", f"{path} line {number} has not {len(COLUMNS)} columns")
        rows.append(Submission(**row))
    return rows


def case_of(row: Submission, folder: Path, where: str) -> Case:
    """What a row says was measured. Raises BadInput."""
    names = (row.pack, *filter(None, row.corpus.split("+")))
    if missing := sorted(set(names) - set(names_of_packs(folder))):
        raise BadInput("packs", f"{where}: {folder} has no pack {missing[0]}; put it there")
    settings = json_value(row.settings, "file", f"{where}, settings")
    if not isinstance(settings, dict):
        raise BadInput("file", f"{where}: settings must be a JSON object")
    return Case(folder, row.pack, row.method, settings, names[1:])


def numbers_of(case: Case) -> dict[str, str]:
    """The columns that are measured."""
    cold, session = measure(case)
    return {"config": case.config, "draft_ms": f"{cold.draft_ms_median:.4f}", **exact_numbers(cold, session)}


def verify(settings: LeaderboardSettings) -> None:
    path, folder = Path(settings.file).expanduser(), Path(settings.packs).expanduser()
    chosen = [
        (f"{path} line {number}", row)
        for number, row in enumerate(read_rows(path), 2)
        if settings.method in (None, row.method) and settings.pack in (None, row.pack)
    ]
    if not chosen:
        raise BadInput("method", f"{path} has no such row")
    for where, row in chosen:
        found = numbers_of(case_of(row, folder, where))
        for key in REBUILT:
            if (said := getattr(row, key)) != found[key]:
                warn(f"{where}: {row.method} on {row.pack}: {key} is {found[key]}, not {said}")
                sys.exit(1)
        say(f"{where}: {row.method} on {row.pack}: {row.mat_cold}, {row.mat_session} found again")


def add(settings: LeaderboardSettings) -> None:
    if not settings.method or not settings.submitter:
        raise BadInput("submitter" if settings.method else "method", "must be given")
    path, folder = Path(settings.file).expanduser(), Path(settings.packs).expanduser()
    rows = read_rows(path) if path.exists() else []
    here = environment()
    if here.git_changed:
        warn("files of the checkout differ from its commit, which the row will name: commit them")
    for pack in [settings.pack] if settings.pack else names_of_packs(folder):
        case = new_case(folder, pack, settings.method, settings.settings or {})
        row = Submission(
            method=case.method,
            settings=json.dumps(case.settings, sort_keys=True),
            pack=pack,
            corpus="+".join(case.corpus),
            **numbers_of(case),
            commit=here.git_commit or "",
            submitter=settings.submitter,
            date=datetime.now(UTC).date().isoformat(),
        )
        rows = [old for old in rows if any(getattr(old, key) != getattr(row, key) for key in SAME)] + [row]
        rows.sort(key=lambda row: (row.pack, -float(row.mat_cold), row.method))
        write_text(path, as_csv([asdict(row) for row in rows]), "file")
        say(f"{row.method} on {pack}: {row.mat_cold} cold, {row.mat_session} session")


ACTIONS = {"verify": verify, "add": add}


def run(rest: list[str], settings: LeaderboardSettings) -> None:
    if len(rest) != 1 or rest[0] not in ACTIONS:
        raise BadInput("leaderboard", f"name one of {', '.join(ACTIONS)}")
    ACTIONS[rest[0]](settings)


def main() -> None:
    run_command(run, LeaderboardSettings, __doc__ or "")


if __name__ == "__main__":
    main()
