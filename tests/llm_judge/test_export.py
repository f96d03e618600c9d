import json
from pathlib import Path
from typing import Any

import pytest
from command import Command
from made_up_run import row, times, write_run
from transformers import PreTrainedTokenizerFast

from aded.commands.export import main
from aded.errors import BadInput
from aded.files.answer_file import read_answers
from llm_judge.export import export


@pytest.fixture
def run(tmp_path: Path, tokenizer: PreTrainedTokenizerFast) -> Path:
    tokenizer.save_pretrained(tmp_path / "tokenizer")
    known = times(0.5, 1.0, 5)
    rows = [row(n, turn, [2, 3], **known, token_ids=[n, 6, 7, 8, 9, 6]) for n in (81, 112) for turn in (0, 1)]
    settings = {"model.path": str(tmp_path / "tokenizer"), "paths.cache": str(tmp_path / "cache")}
    return write_run(tmp_path / "run", rows, answers=None, settings=settings)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_question_is_a_line_of_fastchats(run: Path, tmp_path: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    path = export(run, str(tmp_path / "model_answer"), "mine", str(tmp_path / "tokenizer"))
    assert path == tmp_path / "model_answer" / "mine.jsonl"
    first, second = lines(path)
    assert (first["question_id"], second["question_id"], first["model_id"]) == (81, 112, "mine")
    assert first["answer_id"] != second["answer_id"]
    assert isinstance(first["tstamp"], float)
    (choice,) = first["choices"]
    text = str(tokenizer.decode([81, 6, 7, 8, 9, 6], skip_special_tokens=True)).strip()
    assert (choice["index"], choice["turns"]) == (0, [text, text])
    assert (choice["decoding_steps"], choice["new_tokens"]) == ([2, 2], [5, 5])
    assert choice["wall_time"] == [pytest.approx(0.6)] * 2
    assert choice["accept_lengths"] == [2, 3, 2, 3]
    assert {question: len(turns) for question, turns in read_answers(path).items()} == {"81": 2, "112": 2}


def test_an_answer_ends_before_a_stop_string(tmp_path: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    tokenizer.save_pretrained(tmp_path / "tokenizer")
    ids = tokenizer("a\nbc", add_special_tokens=False)["input_ids"]
    settings = {"benchmark.stop_strings": ["\nb"]}
    run = write_run(tmp_path / "run", [row(81, 0, [2], token_ids=ids)], answers=None, settings=settings)
    (line,) = lines(export(run, str(tmp_path / "out"), "mine", str(tmp_path / "tokenizer")))
    assert line["choices"][0]["turns"] == ["a"]


def test_the_command_names_answers_and_bad_arguments(run: Path, tmp_path: Path, command: Command) -> None:
    done = command(
        main, "fastchat", str(run), f"out={tmp_path / 'out'}", "--model-id", "mine", f"tokenizer={tmp_path}/tokenizer"
    )
    assert done.out == f"answers: {tmp_path / 'out' / 'mine.jsonl'}\n"
    (tmp_path / "file").touch()
    for arguments, problem in (
        ([], "FORM: "),
        ([str(run), "model=x"], "model: no such key"),
        ([str(run), "out=a.jsonl", "model_id=b"], "model_id: FastChat names the model by the file"),
        ([str(run), "model_id=../b"], "model_id: '../b' must be a name without slashes"),
        ([str(run), "tokenizer=./nowhere"], "tokenizer: no folder ./nowhere"),
        ([str(run)], f"tokenizer: name it; the run names {tmp_path}/tokenizer"),
        ([str(run), f"tokenizer={tmp_path}/tokenizer", f"out={tmp_path}/file/x"], "out: "),
        (["/nowhere"], "RUN_FOLDER: /nowhere is no finished run"),
    ):
        assert command.refusal(main, "fastchat", *arguments).startswith(problem)


def test_a_record_is_not_written_over_and_a_damaged_one_is_refused(run: Path, tmp_path: Path) -> None:
    for file in ("rows.jsonl", "samples.jsonl"):
        before = (run / file).read_bytes()
        with pytest.raises(BadInput, match=f"^out: .*{file} belongs to RUN_FOLDER="):
            export(run, out=str(run / file))
        assert (run / file).read_bytes() == before
    (run / "summary.json").write_text("{")
    with pytest.raises(BadInput, match=r"^RUN_FOLDER: .*summary\.json"):
        export(run, out=str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()
