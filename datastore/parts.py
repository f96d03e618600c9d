"""Builds an n-gram file by a job for each part of the corpus, and merges the parts.

submitit sends the jobs, to where conf/cluster says: it runs one function per job, as processes or on Slurm, and needs
neither a service nor a cluster of its own, as Ray, Spark and Dask do. Their strength, moving data between jobs, is
not needed: parts share nothing, and a merge reads each once.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from tqdm import tqdm

from aded.errors import BadInput, first_line
from aded.files.atomic import not_writable
from aded.files.datastores.ngram_file import open_ngrams
from aded.files.models.tokenizer import load_tokenizer
from aded.identity import tokenizer_fingerprint
from aded.settings import Positive
from aded.shown import show_log
from datastore.builder import header_of
from datastore.corpora.corpus import Corpus
from datastore.merge import merge
from datastore.ngrams import StreamWindows, count_windows, write_ngrams
from datastore.scratch import LOCK, locked, remove_folder, scratch_folder
from datastore.token_stream import tokenise

if TYPE_CHECKING:
    import submitit
    from submitit import Job

log = logging.getLogger(__name__)

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


@dataclass(frozen=True)
class BuildPart:
    """Part `number`, from 0 on, of the n-gram file of a corpus.

    corpus: the whole of it; tokenizer, cache: as load_tokenizer takes them; order: tokens of the longest n-grams;
    folder: of all parts.
    """

    corpus: Corpus
    number: int
    parts: int
    tokenizer: str
    cache: str
    order: int
    folder: Path

    def __str__(self) -> str:
        return f"part {self.number + 1} of {self.parts}"

    @property
    def path(self) -> Path:
        return self.folder / f"{self.number:05d}-of-{self.parts:05d}.ngrams"

    @property
    def content(self) -> str:
        """What the header of its file says that it is."""
        return f"{self} of {self.corpus.identity}"

    def is_there(self, tokenizer: str) -> bool:
        """Is its file whole, and of this corpus, tokenizer (a fingerprint) and order?"""
        try:
            file = open_ngrams(self.path)
            file.verify()
        except BadInput:
            return False
        found = file.header.get("part"), file.header["tokenizer"], file.order
        return found == (self.content, tokenizer, self.order)


def build_part(part: BuildPart, threads: int | None = None) -> tuple[str, str] | None:
    """Build the part's file, unless it is there. Returns None, or the key and the problem of input that is bad.

    threads: for tokenising; None: one for each core.
    """
    show_log()
    if threads:
        os.environ["RAYON_NUM_THREADS"] = str(threads)
    corpus = part.corpus.part(part.number, part.parts)
    try:
        tokenizer = load_tokenizer(part.tokenizer, part.cache)
        # A job may go on when the command that sent it was killed. The next one waits here, and finds the file.
        with scratch_folder({"out": part.path}) as folder:
            if not part.is_there(tokenizer_fingerprint(tokenizer)):
                stream = tokenise(corpus, tokenizer, folder / "tokens", progress=False)
                ngrams = count_windows(StreamWindows(stream), part.order, folder)
                header = {**header_of(corpus, tokenizer, stream), "part": part.content}
                write_ngrams(part.path, ngrams, header, corpus.prompts())
    except BadInput as error:
        return error.key, error.problem
    return None


SECONDS = 0.5
"""Between two looks at the jobs."""
Problem = tuple[str, str] | None
"""What a job returns: None, or the key and the problem of bad input."""


def build_in_parts(
    corpus: Corpus,
    tokenizer: str,
    cache: str,
    *,
    out: Path,
    order: int,
    parts: int,
    cluster: Cluster,
    progress: bool = False,
) -> None:
    """Build the n-gram file `out`; its bytes are those of one build. Raises BadInput.

    tokenizer, cache: as load_tokenizer takes them; order: tokens of the longest n-grams.

    The parts' files lie in a folder beside `out`, whole or not at all. Whatever ends this command, the next one with
    the same settings builds those that are not there.
    """
    folder = out.absolute().with_name(f".{out.name}.parts")
    fingerprint = tokenizer_fingerprint(load_tokenizer(tokenizer, cache))
    all_parts = [BuildPart(corpus, number, parts, tokenizer, cache, order, folder) for number in range(parts)]
    try:
        with locked(folder / LOCK, folder):
            missing = [part for part in all_parts if not part.is_there(fingerprint)]
            if len(missing) < parts:
                log.info("%d of %d parts are there", parts - len(missing), parts)
            try:
                if missing:
                    _build(missing, cluster, progress)
                if not any(int(open_ngrams(part.path).header["tokens"]) for part in all_parts):
                    remove_folder(folder)
                    raise BadInput("corpus", f"{corpus.name} holds no text")
                merge(out, [part.path for part in all_parts], progress=progress)
            except BadInput as error:
                if error.key != "parts" and not any(part.path.exists() for part in all_parts):
                    remove_folder(folder)  # it holds neither a part nor the log of a job that died
                raise
            remove_folder(folder)
    except OSError as error:
        raise not_writable("out", folder, error, "whole parts stay") from None


def _build(missing: Sequence[BuildPart], cluster: Cluster, progress: bool) -> None:
    """Build these parts. Raises BadInput: at once for bad input of a job; after all others for jobs that died."""
    executor, parts = cluster.executor(missing[0].folder / "jobs"), missing[0].parts
    waiting, died = list(missing), list[str]()
    running: dict[BuildPart, Job[Problem]] = {}
    try:
        with tqdm(desc="parts", total=parts, initial=parts - len(missing), disable=not progress) as bar:
            while waiting or running:
                while waiting and len(running) < cluster.at_once:
                    part = waiting.pop(0)
                    running[part] = cluster.send(executor, build_part, part, cluster.threads)
                for part in [part for part, job in running.items() if job.done()]:
                    if log_of_dead := _log_if_dead(running.pop(part)):
                        died.append(f"{part} (log: {log_of_dead})")
                        log.warning("%s died; its log is %s", part, log_of_dead)
                    else:
                        bar.update()
                        if bar.disable:
                            log.info("%s is built; left: %d", part, len(waiting) + len(running))
                if running:
                    time.sleep(SECONDS)
    finally:
        cluster.stop(list(running.values()))
    if died:
        raise BadInput("parts", f"{', '.join(died)} died; the others are built, and the same command goes on")


def _log_if_dead(job: Job[Problem]) -> Path | None:
    """The log of a job that ended without a result. Raises BadInput if that is what its result says."""
    from submitit.core.utils import FailedJobError, UncompletedJobError

    try:
        problem = job.result()
    except (FailedJobError, UncompletedJobError):
        return job.paths.stderr
    if problem:
        raise BadInput(*problem)
    return None
