"""What the numbers of a run depend on beside its config: versions, machine, commit."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import fields, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from aded.errors import BadInput
from aded.kernels import ops
from aded.records.rows import Environment, Machine

PACKAGES = ("torch", "transformers", "numba", "numpy", "hydra-core", "tokenizers", "safetensors")
"""Those that compute what is measured."""


def environment(facts: Mapping[str, Any] | None = None) -> Environment:
    """This process's environment. Raises BadInput for a fact that no record has.

    facts: further fields of Environment, from the target, drafter and recording.
    """
    if unknown := (facts or {}).keys() - {one.name for one in fields(Environment)}:
        raise BadInput("method", f"describe() says {', '.join(sorted(unknown))}, which is no key of the record")
    here = machine()
    if not (facts or {}).get("engine"):
        here = replace(here, kernel_threads=None)  # no model runs, whatever this process has loaded before
    versions: dict[str, str | None] = {}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = None
    return Environment(
        python=platform.python_version(),
        packages=versions,
        machine=here,
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
        kernel_threads=torch.ops.aded.threads() if ops.loaded() else None,
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
