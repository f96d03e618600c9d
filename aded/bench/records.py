"""A run's directory is its record: config, environment, a row per turn flushed as it ends, the summary last.

output_dir/
    config.yaml        the resolved config
    environment.json   versions, machine, git commit, what the method reads (aded.bench.rows.Environment)
    rows.jsonl         a row per turn (aded.bench.rows.Row)
    samples.jsonl      what the benchmark's own scorer reads, where it has one
    summary.json       written last; a run that has it is finished (aded.bench.rows.Summary)
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from aded.bench.rows import Environment, Machine, Row, Summary, parse, read, to_json
from aded.errors import BadInput
from aded.files.atomic import write_text

VOLATILE = {"output_dir", "paths", "logger", "progress"}
KEY = "output_dir"
PACKAGES = ("torch", "transformers", "numba", "numpy", "hydra-core", "tokenizers", "safetensors")
"""Those that compute what is measured."""


def run_id(config: Mapping[str, Any]) -> str:
    """16 hex digits: sha256 of the resolved config without the keys that do not change what is computed."""
    kept = {key: value for key, value in config.items() if key not in VOLATILE}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:16]


class RunDirectory:
    """Opens a run's directory for one process, keeps the whole rows it finds, and appends to them.

    Raises BadInput when the directory belongs to another run or another process writes it.
    """

    def __init__(self, folder: Path, identity: str, config_yaml: str) -> None:
        self.folder, self.identity = folder, identity
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = (folder / ".lock").open("w")
        except OSError as error:
            raise BadInput(KEY, f"{folder} cannot be written ({error.strerror})") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise BadInput(KEY, f"another process is writing {folder}; wait for it, or name another") from None
        mark = folder / ".run_id"
        if mark.exists() and mark.read_text() != identity:
            raise BadInput(
                KEY, f"{folder} holds run {mark.read_text()} of another config; name another, or remove it"
            )
        self._write("config.yaml", config_yaml)
        self._write(".run_id", identity)

    def finished_rows(self) -> list[Row]:
        """The whole rows, up to the first that is half written. Raises BadInput for rows of another version."""
        path = self.folder / "rows.jsonl"
        rows: list[Row] = []
        if not path.exists():
            return rows
        for number, line in enumerate(path.read_bytes().splitlines(keepends=True), 1):
            try:
                if not line.endswith(b"\n") or not isinstance(json.loads(line), dict):
                    break
            except ValueError:
                break
            try:
                rows.append(parse(Row, line, f"{path} line {number}"))
            except ValueError as error:
                raise BadInput(KEY, f"{error}, in another folder") from None
        return rows

    def rewrite(self, rows: Sequence[Row]) -> None:
        """Replace the rows, as when those of a half-answered question are dropped."""
        self._write("rows.jsonl", _lines(rows))

    def append(self, rows: Sequence[Row]) -> None:
        """Append one question's rows and force them to disk. Raises BadInput when the disk takes no more."""
        try:
            with (self.folder / "rows.jsonl").open("a") as file:
                file.write(_lines(rows))
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise BadInput(
                KEY,
                f"{self.folder} takes no more rows ({error.strerror}); those before are kept: free some space and "
                "start the same command again",
            ) from None

    def begin(self, environment: Environment, *, resumed: bool) -> None:
        """Record where the run runs. Raises BadInput when its rows were made elsewhere: numbers must not mix.

        resumed: some rows are kept.
        """
        path = self.folder / "environment.json"
        if resumed and path.exists():
            try:
                before = read(Environment, path)
            except (OSError, ValueError) as error:
                raise BadInput(KEY, f"{error}, in another folder") from None
            if changes := list(_changes(before, environment)):
                raise BadInput(
                    KEY,
                    f"{self.folder} was begun with {', '.join(old for old, _ in changes)} and would go on with "
                    f"{', '.join(new for _, new in changes)}; go on where it began, or name another folder",
                )
        self._write("environment.json", to_json(environment, 1) + "\n")

    def write_samples(self, samples: list[dict[str, object]]) -> None:
        self._write("samples.jsonl", "".join(json.dumps(sample) + "\n" for sample in samples))

    def write_summary(self, summary: Summary) -> None:
        self._write("summary.json", to_json(summary, 1) + "\n")

    def summary(self) -> Summary | None:
        """The summary of a finished run, or None. Raises BadInput where it is damaged or of another version."""
        path = self.folder / "summary.json"
        if not path.exists():
            return None
        try:
            return read(Summary, path)
        except (OSError, ValueError) as error:
            raise BadInput(KEY, f"{error}, in another folder") from None

    def close(self) -> None:
        self._lock.close()

    def _write(self, name: str, text: str) -> None:
        path = self.folder / name
        try:
            write_text(path, text)
        except OSError as error:
            raise BadInput(KEY, f"{path} cannot be written ({error.strerror})") from None


def _lines(rows: Sequence[Row]) -> str:
    return "".join(to_json(row) + "\n" for row in rows)


def _changes(before: Environment, now: Environment) -> Iterator[tuple[str, str]]:
    """(before, now) of everything that may move a number: versions, the engine, and the contents of files."""
    if before.python != now.python:
        yield f"Python {before.python}", f"Python {now.python}"
    for name in sorted({*before.packages, *now.packages}):
        old, new = before.packages.get(name), now.packages.get(name)
        if old != new:
            yield f"{name} {old or 'missing'}", f"{name} {new or 'missing'}"
    for what, old, new in (
        ("engine", before.engine, now.engine),
        ("the datastore", before.datastore, now.datastore),
        ("the recorded answers", before.answers_sha256, now.answers_sha256),
    ):
        if old != new:
            yield f"{what} {str(old)[:12]}", f"{what} {str(new)[:12]}"


def environment(facts: Mapping[str, Any] | None = None) -> Environment:
    """This process's environment. facts: further fields of Environment, from the target, drafter and recording."""
    versions: dict[str, str | None] = {}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = None
    return Environment(
        python=platform.python_version(),
        packages=versions,
        machine=machine(),
        git_commit=_git("rev-parse", "HEAD"),
        git_changed=bool(_git("status", "--porcelain", "--untracked-files=no")),
        **(facts or {}),
    )


def machine() -> Machine:
    import torch

    return Machine(
        processor=_processor(),
        cores=os.cpu_count(),
        torch_threads=torch.get_num_threads(),
        gpu=torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        system=platform.system(),
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


def _git(*arguments: str) -> str | None:
    """The output of a git command on this checkout; None for an installed package."""
    root = Path(__file__).parents[2]
    if not (root / ".git").exists():
        return None
    try:
        done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, timeout=10, check=True)
        return done.stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
