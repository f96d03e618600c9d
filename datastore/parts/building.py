"""Builds an n-gram file by a job for each part of the corpus, and merges the parts.

submitit sends the jobs: it runs one function per job, as processes or on Slurm, and needs neither a service nor a
cluster of its own, as Ray, Spark and Dask do. Their strength, moving data between jobs, is not needed: parts share
nothing, and a merge reads each once.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tqdm import tqdm

from aded.errors import BadInput
from aded.files.atomic import not_writable
from aded.files.datastores.ngram_file import open_ngrams
from aded.files.models.tokenizer import load_tokenizer
from aded.identity import tokenizer_fingerprint
from datastore.corpora.corpus import Corpus
from datastore.merge import merge
from datastore.parts.cluster import Cluster
from datastore.parts.job import BuildPart, build_part
from datastore.scratch import LOCK, locked, remove_folder

if TYPE_CHECKING:
    from submitit import Job

SECONDS = 0.5
"""Between two looks at the jobs."""
Problem = tuple[str, str] | None
"""What a job returns: None, or the key and the problem of bad input."""
log = logging.getLogger(__name__)


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
