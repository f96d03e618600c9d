"""An n-gram file that jobs build in parts is the file of one build, whatever happens on the way."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from submitit.core.utils import UncompletedJobError
from texts import TEXTS, Texts
from transformers import PreTrainedTokenizerFast

from aded.errors import BadInput
from aded.files.atomic import lock_file
from aded.files.datastores.ngram_file import open_ngrams
from datastore.builder import build
from datastore.corpora.corpus import Corpus
from datastore.corpora.dataset_corpus import DatasetCorpus
from datastore.parts import building, job
from datastore.parts.building import build_in_parts
from datastore.parts.cluster import Cluster

IN_PROCESS = Cluster(kind="debug", at_once=1)
CORPUS = Texts(*TEXTS, " ")


@pytest.fixture
def folder(tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> Path:
    """Contains a tokenizer, `tok`, and what one build makes of CORPUS, `one`."""
    tokenizer.save_pretrained(tmp_path / "tok")
    build(CORPUS, tokenizer, out=tmp_path / "one")
    return tmp_path


def in_parts(folder: Path, corpus: Corpus = CORPUS, cluster: Cluster = IN_PROCESS, **keys: Any) -> None:
    keys = {"order": 5, "parts": 3} | keys
    build_in_parts(corpus, str(folder / "tok"), str(folder), out=folder / "x", cluster=cluster, **keys)


def is_built(folder: Path, name: str = "one") -> bool:
    """Is the file that of one build, and nothing else there?"""
    assert not (folder / ".x.parts").exists()
    return (folder / "x").read_bytes() == (folder / name).read_bytes()


def whole_parts(folder: Path) -> list[str]:
    return sorted(path.name[:5] for path in (folder / ".x.parts").glob("*.ngrams"))


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the parts whose files are written."""
    numbers: list[int] = []
    write = job.write_ngrams

    def counted(path: Path, *rest: Any) -> None:
        numbers.append(int(path.name[:5]))
        write(path, *rest)

    monkeypatch.setattr(job, "write_ngrams", counted)
    return numbers


def fault(monkeypatch: pytest.MonkeyPatch, number: int, error: BaseException) -> Callable[[], None]:
    """Make the job of a part raise in place of writing its file. Returns what ends that."""
    write = job.write_ngrams

    def faulty(path: Path, *rest: Any) -> None:
        if path.name.startswith(f"{number:05d}"):
            raise error
        write(path, *rest)

    monkeypatch.setattr(job, "write_ngrams", faulty)
    return lambda: monkeypatch.setattr(job, "write_ngrams", write)


@pytest.mark.thorough
def test_two_processes_write_the_bytes_of_one_build(tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    tokenizer.save_pretrained(tmp_path / "tok")
    (tmp_path / "rows.jsonl").write_text("".join(f'{{"text": "{text} {n}"}}\n' for n in range(9) for text in TEXTS))
    corpus = DatasetCorpus("jsonl", path=str(tmp_path / "rows.jsonl"))
    build(corpus, tokenizer, out=tmp_path / "one")
    in_parts(tmp_path, corpus, Cluster(kind="local", timeout_min=5), parts=2)
    assert is_built(tmp_path)


@pytest.mark.parametrize(("parts", "order"), [(2, 5), (3, 2), (8, 5)])
def test_any_number_of_parts_writes_the_same_bytes(
    parts: int, order: int, tokenizer: PreTrainedTokenizerFast, folder: Path
) -> None:
    build(CORPUS, tokenizer, out=folder / "one", order=order)
    in_parts(folder, parts=parts, order=order)
    assert is_built(folder)


@pytest.mark.parametrize(("parts", "clean"), [(2, ["near_duplicates", "degenerate"]), (5, ["degenerate"])])
def test_a_corpus_is_cleaned_as_a_whole(
    clean: list[Any], parts: int, tokenizer: PreTrainedTokenizerFast, folder: Path
) -> None:
    rows: list[dict[str, Any]] = [{"text": text} for text in TEXTS]
    rows += [{"data": ["what is a cat on a mat to a dog?", f"{answer} a"]} for answer in ("yes", "no", "yes", "no")]
    rows += [{"text": "a " * 600}, {"no": 1}, *rows]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    question = {"question_id": 81, "category": "cats", "turns": ["what is a cat on a mat to a dog?"]}
    (folder / "question.jsonl").write_text(json.dumps(question) + "\n")
    report = [f"mt_bench:{folder / 'question.jsonl'}"]
    corpus = DatasetCorpus("rows", path=str(folder / "rows.jsonl"), clean=clean, report=report)
    build(corpus, tokenizer, out=folder / "one")
    assert int(open_ngrams(folder / "one").header["documents"]) == (9 if "near_duplicates" in clean else 26)
    in_parts(folder, corpus, parts=parts)
    assert is_built(folder)


def test_what_is_built_is_not_built_again(folder: Path, built: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    end = fault(monkeypatch, 2, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        in_parts(folder)
    assert not (folder / "x").exists()
    assert whole_parts(folder) == ["00000", "00001"]
    end()
    part = folder / ".x.parts" / "00001-of-00003.ngrams"
    whole = part.read_bytes()
    part.write_bytes(whole[:-40] + bytes([whole[-40] ^ 1]) + whole[-39:])
    in_parts(folder)
    assert built == [0, 1, 1, 2]
    assert is_built(folder)


@pytest.mark.parametrize("change", ["corpus", "order", "parts"])
def test_parts_of_another_file_are_built_again(
    change: str,
    folder: Path,
    built: list[int],
    tokenizer: PreTrainedTokenizerFast,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    end = fault(monkeypatch, 2, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        in_parts(folder)
    end()
    built.clear()
    corpus = Texts(*TEXTS[1:]) if change == "corpus" else CORPUS
    order, parts = 3 if change == "order" else 5, 2 if change == "parts" else 3
    build(corpus, tokenizer, out=folder / "other", order=order)
    in_parts(folder, corpus, order=order, parts=parts)
    assert built == list(range(parts))
    assert is_built(folder, "other")


def test_a_full_disk_is_one_line_and_whole_parts_stay(
    folder: Path, built: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> Any:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Cluster, "executor", full)  # where jobs are sent
        with pytest.raises(BadInput, match=r"^out: .*.x.parts cannot be written"):
            in_parts(folder)
    end = fault(monkeypatch, 1, OSError(28, "No space left on device"))
    with pytest.raises(BadInput, match=r"^out: .*00001-of-00003.ngrams cannot be written \(No space left"):
        in_parts(folder)
    assert whole_parts(folder) == ["00000"]
    end()
    in_parts(folder)
    assert built == [0, 1, 2]
    assert is_built(folder)


class Job:
    """A job of a machine that fails: the second part's ends without a result."""

    def __init__(self, number: int, work: Callable[[], Any], folder: Path) -> None:
        self.number, self.work, self.paths = number, work, type("", (), {"stderr": folder / f"{number}.err"})
        self.looks, self.cancelled = 0, False

    def done(self) -> bool:
        self.looks += 1
        return self.looks > 2

    def result(self) -> Any:
        if self.number == 1:
            raise UncompletedJobError("out of memory")
        return self.work()

    def cancel(self, check: bool) -> None:
        self.cancelled = True

    def wait(self) -> None:
        assert self.cancelled


class Machines(Cluster):
    """The machine of such jobs; at_once: at a time."""

    def executor(self, folder: Path) -> Any:
        self.jobs: list[Job] = []
        self.submit = lambda work, part, threads: self.sent(Job(part.number, lambda: work(part), folder))
        return self

    def sent(self, job: Job) -> Job:
        self.jobs.append(job)
        assert sum(job.looks < 3 for job in self.jobs) <= self.at_once
        return job


@pytest.mark.parametrize("at_once", [1, 2])
def test_a_job_that_dies_is_named_with_its_log_and_the_others_are_built(
    at_once: int,
    folder: Path,
    built: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(building, "SECONDS", 0.0)
    log = folder / ".x.parts" / "jobs" / "1.err"
    with pytest.raises(BadInput) as error:
        in_parts(folder, cluster=Machines(kind="slurm", at_once=at_once))
    assert str(error.value).startswith(f"parts: part 2 of 3 (log: {log}) died")
    in_parts(folder)
    assert sorted(built) == [0, 1, 2]
    assert is_built(folder)


def test_bad_input_stops_the_other_jobs_and_leaves_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "SECONDS", 0.0)
    machines, before = Machines(kind="local", at_once=3), sorted(os.listdir(folder))
    with monkeypatch.context() as patch:
        patch.setattr(Job, "done", lambda job: job.number == 2)
        with pytest.raises(BadInput, match=r"^corpus.path: no file none.jsonl"):
            in_parts(folder, DatasetCorpus("none", path="none.jsonl"), machines)
    assert [job.cancelled for job in machines.jobs] == [True, True, False]
    with pytest.raises(BadInput, match=r"^corpus: texts holds no text"):
        in_parts(folder, Texts())
    assert sorted(os.listdir(folder)) == before


def test_two_commands_wait_for_each_other(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    other = lock_file(folder / ".x.parts" / "lock", lambda: None)
    command = Thread(target=in_parts, args=(folder,))
    command.start()
    while command.is_alive() and not any("waiting for another process" in message for message in caplog.messages):
        time.sleep(0.01)
    assert not whole_parts(folder)
    other.lock.release()
    command.join()
    assert is_built(folder)


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({"kind": "slurm"}, "Could not detect"),
        ({"kind": "local", "slurm_partitoin": "x"}, "Unknown argument"),
        ({"kind": "local", "nodes": 3}, "Use nodes=1"),
        ({"kind": "local", "timeout_min": "long"}, "timeout_min"),
    ],
)
def test_what_a_cluster_does_not_take_is_one_line(
    parameters: dict[str, Any], problem: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    before = sorted(os.listdir(folder))
    with pytest.raises(BadInput, match=f"^cluster: .*{problem}"):
        in_parts(folder, cluster=Cluster(**parameters))
    assert sorted(os.listdir(folder)) == before


@pytest.mark.parametrize(
    ("sbatch", "problem"),
    [
        (None, "there is no sbatch here"),
        ("echo sbatch: error: Invalid partition >&2; exit 1", "sbatch: error: Invalid partition"),
        ("exit 1", "FailedJobError"),
    ],
)
def test_a_cluster_that_takes_no_job_is_one_line(
    sbatch: str | None,
    problem: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    programs = folder / "bin"
    programs.mkdir()
    for name, line in (("srun", "exit 0"), ("sbatch", sbatch)):
        if line is not None:
            (programs / name).write_text(f"#!/bin/sh\n{line}\n")
            (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    with pytest.raises(BadInput, match=f"^cluster: slurm takes no job: {problem}"):
        in_parts(folder, cluster=Cluster(kind="slurm"))
    assert capsys.readouterr().err == ""
    assert not (folder / ".x.parts").exists()
