"""FastChat can read an exported file: with its own loader, or without it by the keys that the loader looks up."""

import importlib
import json
from pathlib import Path
from typing import Any

import pytest
from command import Command
from made_up_run import row, times, write_run
from transformers import PreTrainedTokenizerFast

from aded.errors import BadInput
from aded.files.answer_file import read_answers
from llm_judge.export import export
from scripts.export import main


@pytest.fixture
def run(tmp_path: Path, tokenizer: PreTrainedTokenizerFast) -> Path:
    """Two questions of two turns, timed; the tokenizer is beside the run."""
    tokenizer.save_pretrained(tmp_path / "tokenizer")
    rows = [
        row(question, turn, [2, 3], **times(0.5, 1.0, 5), token_ids=[5, 6, 7, 8, 9, 10])
        for question in (81, 82)
        for turn in (0, 1)
    ]
    settings = {"model.path": str(tmp_path / "tokenizer"), "paths.cache": str(tmp_path / "cache")}
    return write_run(tmp_path / "run", rows, answers=None, settings=settings)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_every_question_is_one_line_of_fastchats_layout(
    run: Path, tmp_path: Path, tokenizer: PreTrainedTokenizerFast
) -> None:
    path = export(run, out=str(tmp_path / "model_answer"), model_id="mine")
    assert path == tmp_path / "model_answer" / "mine.jsonl"
    first, second = lines(path)
    assert (first["question_id"], second["question_id"], first["model_id"]) == (81, 82, "mine")
    assert first["answer_id"] != second["answer_id"]
    assert isinstance(first["tstamp"], float)
    (choice,) = first["choices"]
    text = str(tokenizer.decode([5, 6, 7, 8, 9, 10], skip_special_tokens=True)).strip()
    assert (choice["index"], choice["turns"]) == (0, [text, text])
    assert (choice["decoding_steps"], choice["new_tokens"]) == ([2, 2], [5, 5])
    assert choice["wall_time"] == [pytest.approx(0.6)] * 2
    assert choice["accept_lengths"] == [2, 3, 2, 3]
    assert {question: len(turns) for question, turns in read_answers(path).items()} == {"81": 2, "82": 2}


def test_fastchats_own_loader_reads_it(run: Path, tmp_path: Path) -> None:
    path = export(run, out=str(tmp_path / "model_answer" / "mine.jsonl"))
    try:
        common = importlib.import_module("fastchat.llm_judge.common")
    except ImportError as error:
        pytest.skip(f"FastChat's judge is not importable: {error}")
    answers = common.load_model_answers(str(path.parent))
    assert list(answers) == ["mine"]
    assert list(answers["mine"]) == [81, 82]
    questions = [{"question_id": number, "category": "writing", "turns": ["a", "b"]} for number in (81, 82)]
    common.check_data(questions, answers, {}, ["mine"], {})
    assert answers["mine"][81]["choices"][0]["turns"][1]


def test_the_command_takes_keys_with_and_without_dashes(run: Path, tmp_path: Path, command: Command) -> None:
    for number, keys in enumerate((["out={}", "model_id=mine"], ["--out", "{}", "--model-id", "mine"])):
        folder = tmp_path / str(number)
        done = command(main, "fastchat", str(run), *(key.format(folder) for key in keys))
        assert done.out == f"answers: {folder / 'mine.jsonl'}\n"
        assert len(lines(folder / "mine.jsonl")) == 2


def test_bad_arguments_are_reported_in_one_line(run: Path, tmp_path: Path, command: Command) -> None:
    (tmp_path / "file").touch()
    for arguments, problem in (
        ([], "FORM: "),
        ([str(run), "model=x"], "model: no such key"),
        ([str(run), "out=a.jsonl", "model_id=b"], "model_id: FastChat names the model by the file"),
        ([str(run), "model_id=../b"], "model_id: '../b' must be a name without slashes"),
        ([str(run), "tokenizer=./nowhere"], "tokenizer: no folder ./nowhere"),
        ([str(run), f"out={tmp_path}/file/x"], "out: "),
        (["/nowhere"], "RUN_FOLDER: /nowhere is no finished run"),
    ):
        assert command.refusal(main, "fastchat", *arguments).startswith(problem)


@pytest.mark.parametrize("file", ["rows.jsonl", "samples.jsonl"])
def test_the_record_itself_is_not_written_over(file: str, run: Path) -> None:
    before = (run / file).read_bytes()
    with pytest.raises(BadInput, match=f"^out: .*{file} belongs to RUN_FOLDER="):
        export(run, out=str(run / file))
    assert (run / file).read_bytes() == before


@pytest.mark.parametrize("file", ["config.yaml", "environment.json", "rows.jsonl", "summary.json"])
def test_a_damaged_record_is_refused(file: str, run: Path, tmp_path: Path) -> None:
    lost_a_row = "".join((run / "rows.jsonl").read_text().splitlines(keepends=True)[:-1])
    (run / file).write_text(lost_a_row if file == "rows.jsonl" else "{")
    with pytest.raises(BadInput, match=f"^RUN_FOLDER: .*{file}"):
        export(run, out=str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()
