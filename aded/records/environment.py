"""What the numbers of a run depend on beside its config: versions, machine, commit."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from aded.errors import BadInput
from aded.records.rows import OLDER, REPLAY, STRICT, NonNegative, Number, about

PACKAGES = ("aded-bench", "torch", "transformers", "numba", "numpy", "hydra-core", "tokenizers", "safetensors")
"""Those that compute what is measured."""


@dataclass(frozen=True)
class Machine:
    """Where a run ran."""

    __pydantic_config__ = STRICT
    processor: str = about("name of the processor")
    cores: NonNegative | None = about("cores of the machine", null="unknown")
    torch_threads: NonNegative = about("threads that torch uses")
    gpu: str | None = about("name of the first GPU", null="there is none")
    system: str = about("operating system")
    kernel_threads: NonNegative | None = about(
        "threads that our kernels use", null=f"torch does all work, no model runs, or {OLDER}", default=None
    )

    @property
    def threads(self) -> int:
        """How many compute a step."""
        return max(self.torch_threads, self.kernel_threads or 0)


@dataclass(frozen=True)
class Environment:
    """What the numbers of a run depend on beside its config, and the command that began it: environment.json."""

    __pydantic_config__ = STRICT
    python: str = about("version of Python")
    packages: dict[str, str | None] = about("versions of the packages that compute", null="not installed")
    machine: Machine = about("processor, cores, threads, GPU")
    git_commit: str | None = about("commit of this harness", null="not run from a checkout")
    git_changed: bool = about("had files of the checkout been changed since that commit")
    engine: str | None = about("the engine that ran: eager or compiled", null=REPLAY, default=None)
    compile_seconds: Number | None = about(
        "time to compile, before any clock starts", unit="s", null="nothing was compiled", default=None
    )
    weights: str | None = about(
        "what the model's weights were before they had its dtype", null="what the model's folder holds", default=None
    )
    trace: bool = about("did random weights run at real size beside recorded answers", default=False)
    datastore: str | None = about("fingerprint of the datastore file", null="the method reads none", default=None)
    datastore_tokens: str | None = about("tokens of its corpus", unit="tokens", null="as above", default=None)
    datastore_prompts: str | None = about(
        "distinct prompts of its corpus", unit="prompts", null="as above, or the file does not know", default=None
    )
    datastore_documents: str | None = about(
        "documents of its corpus", unit="documents", null="as above", default=None
    )
    datastore_corpus: str | None = about("name of its corpus", null="as above", default=None)
    datastore_source: str | None = about("files or dataset of its corpus", null="as above", default=None)
    datastore_left_out: str | None = about(
        "conversations that each rule of cleaning left out", null="as above, or no rule was applied", default=None
    )
    datastore_questions: str | None = about(
        "benchmarks, and how many of their questions its corpus holds", null="it was not checked", default=None
    )
    learned_from: list[str] | None = about(
        "what the method, or a file that it reads, was made from before the first prompt: a corpus, a smaller model, "
        "other models' answers, the target's answers, the target's weights; empty: nothing",
        null=f"the method does not say, or {OLDER}",
        default=None,
    )
    scorer: str | None = about(
        "what the weights of aded_backoff's scorer were learned from", null="the method has none", default=None
    )
    retrieval: str | None = about(
        "fingerprint of the suffix file that aded_backoff retrieves from", null="it retrieves nothing", default=None
    )
    lookup: str | None = about(
        "fingerprint of aded_backoff's look-up file", null="it has none, or did not ask it", default=None
    )
    answers_sha256: str | None = about("sha256 of the recorded answers' file", null="a model answered", default=None)
    files: dict[str, str] = field(
        default_factory=dict, metadata={"about": "fingerprints of the files that settings name, by key"}
    )
    overrides: list[str] | None = about(
        "KEY=VALUE of the command that began the run",
        null=f"called from Python without them, or {OLDER}",
        default=None,
    )


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

    from aded.kernels import ops

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
