"""A run's directory is its record: config, environment, a row per turn flushed as it ends, the summary last.

output_dir/
    config.yaml        the resolved config
    environment.json   versions, machine, commit, fingerprints of files, overrides (environment.Environment)
    rows.jsonl         a row per turn (rows.Row)
    trees.jsonl        the draft trees of the first questions, where record.trees asks for them (trees.AnswerTrees)
    samples.jsonl      what the benchmark's own scorer reads, where it has one
    summary.json       written last; a run that has it is finished (summary.Summary)

A folder belongs to a run from its first row on; one without a row is left as it was found.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from omegaconf import OmegaConf

from aded.errors import BadInput
from aded.files.atomic import check_outputs, lock_file, not_writable, remove_partial, write_text
from aded.identity import run_ids
from aded.records.config import differences, flat, read_config
from aded.records.environment import Environment
from aded.records.finished_runs import SAMPLES, is_finished, read_run, whole_rows
from aded.records.rows import Row, read, reason, to_json
from aded.records.summary import Summary
from aded.records.trees import NAME as TREES
from aded.records.trees import AnswerTrees, read_trees

OUTPUT_KEY = "output_dir"
log = logging.getLogger(__name__)
RECORD = ("config.yaml", "environment.json", "rows.jsonl", TREES, SAMPLES, "summary.json")
"""A run's own files."""
RUN_ID_FILE = ".run_id"
"""The file that names the run whose folder this is."""


class RunDirectory:
    """A run's directory, open for one process: keeps the whole rows it finds, and appends to them.

    config: the resolved config.
    files: the fingerprints of the files that it names (aded.records.config).
    overrides: what `aded run` was given, to be shown; None: nothing.

    Raises BadInput when the directory belongs to another run, holds a file that the run reads, or is being written by
    another process.
    """

    def __init__(
        self,
        folder: Path,
        config: Mapping[str, Any],
        files: Mapping[str, str],
        overrides: Sequence[str] | None = None,
    ) -> None:
        self.folder, self.config, self.files, self.overrides = folder, config, files, overrides
        self.identity, *self._before = run_ids(config, files)
        named = dict(flat(config))
        inputs = [(key, named[key]) for key in files]
        check_outputs([(OUTPUT_KEY, folder)], inputs)
        check_outputs([(OUTPUT_KEY, folder / name) for name in RECORD], inputs)
        try:
            self._missing = [each for each in (folder, *folder.parents) if not each.exists()]
            self._found = set(os.listdir(folder)) if folder.exists() else set()
            self._lock = lock_file(folder / ".lock", self._busy).lock
        except OSError as error:
            raise not_writable(OUTPUT_KEY, folder, error) from None
        try:
            self._check_owner()
        except BadInput:
            self.close()
            raise

    def _busy(self) -> NoReturn:
        raise BadInput(OUTPUT_KEY, f"another process is writing {self.folder}; wait for it, or name another")

    def _check_owner(self) -> None:
        """Raise BadInput, naming what differs, when the folder holds the record of another run."""
        id_file = self.folder / RUN_ID_FILE
        if id_file.exists():
            found = id_file.read_bytes()
            self.identity = next((one for one in self._before if one.encode() == found), self.identity)
            if not self._has_results() or found == self.identity.encode():
                return
        elif not any((self.folder / name).exists() for name in RECORD):
            return
        try:
            config = read_config(self.folder / "config.yaml")
            files = read(Environment, self.folder / "environment.json").files
        except (OSError, ValueError) as error:
            raise BadInput(OUTPUT_KEY, f"{reason(error)}; name another folder") from None
        if changes := differences(config, files, self.config, self.files):
            raise BadInput(
                OUTPUT_KEY,
                f"{self.folder} holds another run: {', '.join(changes)}; go back to it, or name another folder",
            )
        if id_file.exists():
            raise BadInput(
                OUTPUT_KEY, f"{id_file} is damaged, it should hold {self.identity}; remove it, or name another folder"
            )

    def _has_results(self) -> bool:
        rows = self.folder / "rows.jsonl"
        return is_finished(self.folder) or (rows.exists() and rows.stat().st_size > 0)

    def finished_rows(self) -> list[Row]:
        """The whole rows. Raises BadInput where one is damaged, or of another version."""
        path = self.folder / "rows.jsonl"
        try:
            return list(whole_rows(path)) if path.exists() else []
        except (OSError, ValueError) as error:
            raise BadInput(OUTPUT_KEY, f"{reason(error)}; mend it, or name another folder") from None

    def rewrite(self, rows: Sequence[Row]) -> None:
        """Replace the rows, as when those of a half-answered question are dropped."""
        self._write("rows.jsonl", _lines(rows))

    def keep_trees_of(self, rows: Sequence[Row]) -> None:
        """Drop the trees of all other rows, as those of a question that was broken off. Damaged trees are dropped."""
        if os.path.lexists(self.folder / TREES):  # in place of a link, a file of the run's own is written
            try:
                trees = read_trees(self.folder, rows)
            except (OSError, ValueError) as error:
                log.warning("%s; the trees so far are dropped", error)
                trees = []
            self._write(TREES, _lines(trees))

    def append(self, rows: Sequence[Row]) -> None:
        """Append one question's rows and force them to disk. Raises BadInput when the disk takes no more."""
        self._append("rows.jsonl", rows)

    def append_trees(self, trees: Sequence[AnswerTrees]) -> None:
        """As `append`, and before it: then no row lacks its trees."""
        if trees:
            self._append(TREES, trees)

    def _append(self, name: str, records: Sequence[Row] | Sequence[AnswerTrees]) -> None:
        try:
            with open(self.folder / name, "a", opener=_no_link) as file:
                file.write(_lines(records))
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise BadInput(
                OUTPUT_KEY,
                f"{self.folder} takes no more rows ({error.strerror}); those before are kept: free some space and "
                "start the same command again",
            ) from None

    def begin(self, environment: Environment, *, resumed: bool) -> None:
        """Make the folder this run's. Raises BadInput where its rows are of other code or files.

        resumed: some rows are kept.
        """
        path = self.folder / "environment.json"
        if resumed:
            try:
                before = read(Environment, path)
            except (OSError, ValueError) as error:
                raise BadInput(OUTPUT_KEY, f"{reason(error)}; name another folder") from None
            if changes := list(_changes(before, environment)):
                raise BadInput(
                    OUTPUT_KEY,
                    f"{self.folder} was begun with {', '.join(old for old, _ in changes)} and would go on with "
                    f"{', '.join(new for _, new in changes)}; go on where it began, or name another folder",
                )
            same = before.git_commit == environment.git_commit
            environment = replace(
                environment,
                overrides=before.overrides,
                git_commit=before.git_commit,
                git_changed=before.git_changed or environment.git_changed or not same,
            )
        for name in (RUN_ID_FILE, *RECORD):
            remove_partial(self.folder / name)
        self._write(RUN_ID_FILE, self.identity)
        self._write("environment.json", to_json(environment, 1) + "\n")
        self._write("config.yaml", OmegaConf.to_yaml(OmegaConf.create(dict(self.config))))

    def write_samples(self, samples: list[dict[str, object]]) -> None:
        self._write(SAMPLES, "".join(json.dumps(sample) + "\n" for sample in samples))

    def write_summary(self, summary: Summary) -> None:
        self._write("summary.json", to_json(summary, 1) + "\n")

    def summary(self) -> Summary | None:
        """The summary of a finished run, or None. Raises BadInput where the record is damaged or of other rows."""
        if not is_finished(self.folder):
            return None
        path = self.folder / "summary.json"
        try:
            summary = read_run(self.folder).summary
            if summary.run_id != self.identity:
                raise ValueError(f"{path}: of run {summary.run_id}, not {self.identity}")
        except (OSError, ValueError) as error:
            advice = f"remove {path} to go on from whole rows, or name another folder"
            raise BadInput(OUTPUT_KEY, f"{reason(error)}; {advice}") from None
        return summary

    def close(self) -> None:
        """Unlock the folder; without a row, leave it as it was found."""
        if not self._has_results():
            for name in {*RECORD, RUN_ID_FILE, ".lock"} - self._found:
                (self.folder / name).unlink(missing_ok=True)
            with suppress(OSError):  # others may have used them meanwhile
                for each in self._missing:
                    each.rmdir()
        self._lock.release()

    def _write(self, name: str, text: str) -> None:
        write_text(self.folder / name, text, OUTPUT_KEY)


def whole_questions(rows: list[Row], turns: list[tuple[str, int]]) -> list[Row]:
    """The rows of the leading questions that are answered in all turns, in order; what a resumed run keeps.

    turns: (id, number of turns) of each question.
    """
    kept: list[Row] = []
    for question, count in turns:
        mine = rows[len(kept) : len(kept) + count]
        if [(row.question_id, row.turn) for row in mine] != [(question, turn) for turn in range(count)]:
            break
        kept += mine
    return kept


def _no_link(path: str, flags: int) -> int:
    """As `open` opens, but never the file that a link names."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


def _lines(records: Sequence[Row] | Sequence[AnswerTrees]) -> str:
    return "".join(to_json(record) + "\n" for record in records)


def _changes(before: Environment, now: Environment) -> Iterator[tuple[str, str]]:
    """(before, now) of what may move an answer or a draft: versions, the engine, and the contents of files.

    Another machine moves times alone. Pairs of them are compared, and each is of one machine.
    """
    old, new = (
        {
            "Python": one.python,
            **{name: version or "missing" for name, version in one.packages.items()},
            "engine": str(one.engine),
            "the datastore": str(one.datastore)[:12],
        }
        for one in (before, now)
    )
    for name in {**old, **new}:
        was, is_ = old.get(name, "missing"), new.get(name, "missing")
        if was != is_:
            yield f"{name} {was}", f"{name} {is_}"
