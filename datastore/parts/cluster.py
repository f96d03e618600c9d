"""Where the jobs of a build run: conf/cluster, for submitit."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from aded.errors import BadInput, first_line
from aded.settings import Positive

if TYPE_CHECKING:
    import submitit

Result = TypeVar("Result")


class Cluster:
    """Runs jobs as processes of this machine (local), on Slurm (slurm), or one by one in this process (debug).

    kind: local, slurm or debug
    at_once: jobs at a time; None: one for each core of this machine
    timeout_min: minutes after which a job is stopped
    cpus_per_task, mem_gb: cores and memory of a job of Slurm
    slurm_partition: where Slurm runs them; None: Slurm's own choice
    parameters: these three, and submitit's others
    """

    def __init__(
        self, *, kind: Literal["local", "slurm", "debug"], at_once: Positive | None = None, **parameters: Any
    ) -> None:
        self.kind, self.parameters = kind, parameters
        self.at_once = at_once or os.cpu_count() or 1

    @property
    def threads(self) -> int | None:
        """The threads of a job, so that those of this machine do not hinder each other; None: as many as it likes."""
        return max(1, (os.cpu_count() or 1) // self.at_once) if self.kind == "local" else None

    def executor(self, folder: Path) -> submitit.Executor:
        """folder: for the jobs' files and logs. Raises BadInput."""
        import submitit

        try:
            executor = submitit.AutoExecutor(folder, cluster=self.kind)
            executor.update_parameters(name="aded-build", **self.parameters)
        except (
            RuntimeError,
            NameError,
            AssertionError,
            TypeError,
            ValueError,
        ) as error:  # no Slurm; a wrong parameter
            raise BadInput("cluster", f"{self.kind} does not take this: {first_line(error)}") from None
        return executor

    def send(
        self, executor: submitit.Executor, work: Callable[..., Result], *arguments: object
    ) -> submitit.Job[Result]:
        """Send a job that calls `work`. Raises BadInput where the cluster refuses it."""
        try:
            with redirect_stderr(StringIO()):  # submitit repeats there what is raised
                return executor.submit(work, *arguments)
        except OSError as error:
            if error.filename != "sbatch":
                raise
            reason = "there is no sbatch here"
        except RuntimeError as error:
            reason = first_line(error)
        raise BadInput("cluster", f"{self.kind} takes no job: {reason}; the same command goes on with whole parts")

    def stop(self, jobs: list[submitit.Job[Any]]) -> None:
        """Stop jobs that run; those of this machine have ended then."""
        for job in jobs:
            job.cancel(check=False)
        if self.kind == "local":
            for job in jobs:
                job.wait()
