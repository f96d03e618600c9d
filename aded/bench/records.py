"""A run's directory is its record: config, environment, one row a turn flushed as it ends, the summary last.

output_dir/
    config.yaml        the resolved config
    environment.json   versions, machine, git commit, what the method reads
    rows.jsonl         one row a turn (aded.bench.metrics.ROW_KEYS)
    samples.jsonl      what the benchmark's own scorer reads, where it has one
    summary.json       written last; a run that has it is finished (aded.bench.metrics.SUMMARY_KEYS)
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import subprocess
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from aded.bench.metrics import Row
from aded.errors import BadInput

VOLATILE = {"output_dir", "paths", "logger", "progress"}
PACKAGES = ("torch", "transformers", "numba", "numpy", "hydra-core", "tokenizers", "safetensors")


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
            raise BadInput("output_dir", f"{folder} cannot be written ({error.strerror})") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise BadInput(
                "output_dir", f"another process is writing {folder}; wait for it, or name another"
            ) from None
        mark = folder / ".run_id"
        if mark.exists() and mark.read_text() != identity:
            raise BadInput(
                "output_dir", f"{folder} holds run {mark.read_text()} of another config; name another, or remove it"
            )
        self._write("config.yaml", config_yaml)
        self._write(".run_id", identity)

    def finished_rows(self) -> list[dict[str, Any]]:
        """The whole rows, up to the first that is damaged or half written."""
        path = self.folder / "rows.jsonl"
        if not path.exists():
            return []
        rows = []
        for line in path.read_bytes().splitlines(keepends=True):
            try:
                row = json.loads(line)
            except ValueError:
                break
            if not line.endswith(b"\n") or not isinstance(row, dict):
                break
            rows.append(row)
        return rows

    def rewrite(self, rows: list[dict[str, Any]]) -> None:
        """Replace the rows, as when those of a half-answered question are dropped."""
        self._write("rows.jsonl", "".join(_line(row) for row in rows))

    def append(self, rows: list[dict[str, Any]]) -> None:
        """Append one question's rows and force them to disk. Raises BadInput when the disk takes no more."""
        try:
            with (self.folder / "rows.jsonl").open("a") as file:
                file.write("".join(_line(row) for row in rows))
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise BadInput(
                "output_dir",
                f"{self.folder} takes no more rows ({error.strerror}); those before are kept: free some space and "
                "start the same command again",
            ) from None

    def write_environment(self, facts: Mapping[str, Any]) -> None:
        self._write("environment.json", json.dumps({**environment(), **facts}, indent=1) + "\n")

    def write_samples(self, samples: list[dict[str, object]]) -> None:
        self._write("samples.jsonl", "".join(json.dumps(sample) + "\n" for sample in samples))

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        self._write("summary.json", json.dumps(summary, indent=1) + "\n")

    def summary(self) -> dict[str, Any] | None:
        """The summary of a finished run, or None."""
        try:
            return json.loads((self.folder / "summary.json").read_text())
        except (OSError, ValueError):
            return None

    def close(self) -> None:
        self._lock.close()

    def _write(self, name: str, text: str) -> None:
        """Write a file whole or not at all."""
        path, scratch = self.folder / name, self.folder / f".{name}.partial"
        try:
            scratch.write_text(text)
            os.replace(scratch, path)
        except OSError as error:
            raise BadInput("output_dir", f"{path} cannot be written ({error.strerror})") from None


def _line(row: Row) -> str:
    return json.dumps(row) + "\n"


def environment() -> dict[str, Any]:
    """Where the numbers come from: versions, processor, cores, git commit."""
    import torch

    versions: dict[str, str | None] = {}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = None
    return {
        "python": platform.python_version(),
        "packages": versions,
        "machine": {
            "processor": _processor(),
            "cores": os.cpu_count(),
            "torch_threads": torch.get_num_threads(),
            "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
            "system": platform.system(),
        },
        "git_commit": _git("rev-parse", "HEAD"),
        "git_changed": bool(_git("status", "--porcelain", "--untracked-files=no")),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


def _git(*words: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", *words], cwd=Path(__file__).parent, capture_output=True, text=True, timeout=10, check=True
        )
        return done.stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
