import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from answer_lines import written
from submitit.core.utils import UncompletedJobError
from texts import TEXTS, Texts
from transformers import PreTrainedTokenizerFast

from aded.errors import BadInput
from aded.files.datastores.ngram_file import open_ngrams
from aded.files.models.tokenizer import load_tokenizer
from datastore import parts
from datastore.builder import build
from datastore.corpora.corpus import Corpus
from datastore.corpora.dataset_corpus import DatasetCorpus
from datastore.parts import Cluster, build_in_parts

IN_PROCESS = Cluster(kind="debug", at_once=1)
CORPUS = Texts(*TEXTS, " ")


@pytest.fixture
def folder(tokenizer: PreTrainedTokenizerFast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(parts, "SECONDS", 0.0)
    tokenizer.save_pretrained(tmp_path / "tok")
    at_once(tmp_path, CORPUS)
    return tmp_path


def at_once(folder: Path, corpus: Corpus, name: str = "one", order: int = 5) -> None:
    build(corpus, load_tokenizer(str(folder / "tok")), out=folder / name, order=order)


def in_parts(folder: Path, corpus: Corpus = CORPUS, cluster: Cluster = IN_PROCESS, **keys: Any) -> None:
    keys = {"order": 5, "parts": 3} | keys
    build_in_parts(corpus, str(folder / "tok"), str(folder), out=folder / "x", cluster=cluster, **keys)


def is_built(folder: Path, name: str = "one") -> bool:
    assert not (folder / ".x.parts").exists()
    return (folder / "x").read_bytes() == (folder / name).read_bytes()


class Writes:
    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.faults: dict[int, BaseException] = {}
        self.write = parts.write_ngrams

    def __call__(self, path: Path, *rest: Any) -> None:
        number = int(path.name[:5])
        if error := self.faults.pop(number, None):
            raise error
        self.numbers.append(number)
        self.write(path, *rest)


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> Writes:
    writes = Writes()
    monkeypatch.setattr(parts, "write_ngrams", writes)
    return writes


@pytest.mark.thorough
def test_two_processes_write_the_bytes_of_one_build(folder: Path) -> None:
    (folder / "rows.jsonl").write_text("".join(f'{{"text": "{text} {n}"}}\n' for n in range(9) for text in TEXTS))
    corpus = DatasetCorpus("jsonl", path=str(folder / "rows.jsonl"))
    at_once(folder, corpus)
    in_parts(folder, corpus, Cluster(kind="local", timeout_min=5), parts=2)
    assert is_built(folder)


@pytest.mark.parametrize(("parts", "order"), [(2, 5), (3, 2), (8, 5)])
def test_any_number_of_parts_writes_the_same_bytes(parts: int, order: int, folder: Path) -> None:
    at_once(folder, CORPUS, order=order)
    in_parts(folder, parts=parts, order=order)
    assert is_built(folder)


@pytest.mark.parametrize(("parts", "clean"), [(2, ["near_duplicates", "degenerate"]), (5, ["degenerate"])])
def test_a_corpus_is_cleaned_as_a_whole(clean: list[Any], parts: int, folder: Path) -> None:
    asked = "what is a cat on a mat to a dog?"
    rows: list[dict[str, Any]] = [{"text": text} for text in TEXTS]
    rows += [{"data": [asked, f"{answer} a"]} for answer in ("yes", "no", "yes", "no")]
    rows += [{"text": "a " * 600}, {"no": 1}, *rows]
    question = written(folder, {"question_id": 81, "category": "a", "turns": [asked]}, name="question.jsonl")
    read = str(written(folder, *rows, name="rows.jsonl"))
    corpus = DatasetCorpus("rows", path=read, clean=clean, report=[f"mt_bench:{question}"])
    at_once(folder, corpus)
    assert int(open_ngrams(folder / "one").header["documents"]) == (9 if "near_duplicates" in clean else 26)
    in_parts(folder, corpus, parts=parts)
    assert is_built(folder)


@pytest.mark.parametrize(
    "change", [{"order": 3}, {"parts": 2}, {"corpus": Texts(*TEXTS[1:])}], ids=["order", "parts", "corpus"]
)
def test_parts_of_another_file_are_built_again(change: dict[str, Any], folder: Path, writes: Writes) -> None:
    writes.faults[2] = KeyboardInterrupt()  # two of three parts are there
    with pytest.raises(KeyboardInterrupt):
        in_parts(folder)
    assert not (folder / "x").exists()
    writes.numbers.clear()
    at_once(folder, change.get("corpus", CORPUS), "other", change.get("order", 5))
    in_parts(folder, **change)
    assert writes.numbers == list(range(change.get("parts", 3)))
    assert is_built(folder, "other")


def test_a_full_disk_is_one_line_and_whole_parts_are_not_built_again(folder: Path, writes: Writes) -> None:
    writes.faults[2] = OSError(28, "No space left on device")
    with pytest.raises(BadInput, match=r"^out: .*00002-of-00003.ngrams cannot be .*No space left"):
        in_parts(folder)
    assert sorted(path.name[:5] for path in (folder / ".x.parts").glob("*.ngrams")) == ["00000", "00001"]
    part = folder / ".x.parts" / "00001-of-00003.ngrams"
    whole = part.read_bytes()
    part.write_bytes(whole[:-40] + bytes([whole[-40] ^ 1]) + whole[-39:])
    in_parts(folder)
    assert writes.numbers == [0, 1, 1, 2]
    assert is_built(folder)


class Machines(Cluster):
    def executor(self, folder: Path) -> Any:
        self.jobs: list[Mock] = []
        self.folder = folder
        return self

    def submit(self, work: Callable[..., Any], part: parts.BuildPart, threads: int | None) -> Mock:
        result = UncompletedJobError("out of memory") if part.number == 1 else lambda: work(part)
        sent = Mock(**{"done.side_effect": [False, False, True], "result.side_effect": result})
        sent.paths.stderr = self.folder / f"{part.number}.err"
        self.jobs.append(sent)
        assert sum(one.done.call_count < 3 for one in self.jobs) <= self.at_once
        return sent


class OnlyTheLastEnds(Machines):
    def submit(self, work: Callable[..., Any], part: parts.BuildPart, threads: int | None) -> Mock:
        sent = super().submit(work, part, threads)
        sent.done = Mock(return_value=part.number == 2)
        return sent


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_job_that_dies_is_named_and_the_others_are_built(jobs: int, folder: Path, writes: Writes) -> None:
    log = folder / ".x.parts" / "jobs" / "1.err"
    with pytest.raises(BadInput) as error:
        in_parts(folder, cluster=Machines(kind="slurm", at_once=jobs))
    assert str(error.value).startswith(f"parts: part 2 of 3 (log: {log}) died")
    in_parts(folder)
    assert sorted(writes.numbers) == [0, 1, 2]
    assert is_built(folder)


def test_bad_input_stops_the_other_jobs_and_leaves_nothing(folder: Path) -> None:
    machines, before = OnlyTheLastEnds(kind="local", at_once=3), sorted(os.listdir(folder))
    with pytest.raises(BadInput, match=r"^corpus.path: no file none.jsonl"):
        in_parts(folder, DatasetCorpus("none", path="none.jsonl"), machines)
    assert [(one.cancel.called, one.wait.called) for one in machines.jobs] == [(True, True)] * 2 + [(False, False)]
    with pytest.raises(BadInput, match=r"^corpus: texts holds no text"):
        in_parts(folder, Texts())
    assert sorted(os.listdir(folder)) == before


def test_a_cluster_refuses(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    programs = folder / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    before = sorted(os.listdir(folder))

    def refused(problem: str, **settings: Any) -> None:
        with pytest.raises(BadInput, match=f"^cluster: .*{problem}"):
            in_parts(folder, cluster=Cluster(**settings))
        assert sorted(os.listdir(folder)) == before

    refused("Could not detect", kind="slurm")
    refused("Unknown argument", kind="local", slurm_partitoin="x")
    refused("Use nodes=1", kind="local", nodes=3)
    refused("timeout_min", kind="local", timeout_min="long")
    for name, line in (("srun", "exit 0"), ("sbatch", "echo sbatch: error: Invalid partition >&2; exit 1")):
        (programs / name).write_text(f"#!/bin/sh\n{line}\n")
        (programs / name).chmod(0o755)
    refused("slurm takes no job: sbatch: error: Invalid partition", kind="slurm")
    assert capsys.readouterr().err == ""
