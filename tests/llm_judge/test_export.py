"""A run's answers in FastChat's layout, which its installed judge reads."""

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
        row(question, turn, [2, 3], **times(0.5, 1.0, 5), token_ids=[question, 6, 7, 8, 9, 6])
        for question in (81, 112)
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


def test_a_record_is_not_written_over_and_a_damaged_one_is_refused(run: Path, tmp_path: Path) -> None:
    for file in ("rows.jsonl", "samples.jsonl"):
        before = (run / file).read_bytes()
        with pytest.raises(BadInput, match=f"^out: .*{file} belongs to RUN_FOLDER="):
            export(run, out=str(run / file))
        assert (run / file).read_bytes() == before
    lost_a_row = "".join((run / "rows.jsonl").read_text().splitlines(keepends=True)[:-1])
    for file in ("config.yaml", "environment.json", "rows.jsonl", "summary.json"):
        whole = (run / file).read_bytes()
        (run / file).write_text(lost_a_row if file == "rows.jsonl" else "{")
        with pytest.raises(BadInput, match=f"^RUN_FOLDER: .*{file}"):
            export(run, out=str(tmp_path / "out"))
        (run / file).write_bytes(whole)
    assert not (tmp_path / "out").exists()


@pytest.mark.thorough
def test_fastchats_judge_reads_the_answers_unchanged(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of it but the request to the judge model."""
    pytest.importorskip("openai", reason="FastChat's judge needs openai < 1: pip install -e '.[judge]'")
    pytest.importorskip("anthropic", reason="FastChat's judge needs anthropic: pip install -e '.[judge]'")
    common = importlib.import_module("fastchat.llm_judge.common")
    path = export(run, out=str(tmp_path / "model_answer"), model_id="mine")
    asked: list[str] = []

    def answered(model: str, conversation: Any, **_: Any) -> str:
        asked.append(conversation.messages[-2][1])
        return "Fair enough. Rating: [[7]]"

    monkeypatch.setattr(common, "chat_completion_openai", answered)
    questions = [{"question_id": n, "category": "writing", "turns": ["a cat?", "a rat?"]} for n in (81, 112)]
    answers = common.load_model_answers(str(path.parent))
    common.check_data(questions, answers, {}, ["mine"], {})
    template = "{question_1} {answer_1} {question_2} {answer_2}"
    prompt = {"type": "single", "system_prompt": "Rate.", "prompt_template": template, "output_format": "[[rating]]"}
    judge = common.Judge("gpt-4", prompt, multi_turn=True)
    for question in questions:
        given = answers["mine"][question["question_id"]]
        assert common.run_judge_single(question, given, judge, None, multi_turn=True)[0] == 7
    texts = [line["choices"][0]["turns"] for line in lines(path)]
    assert asked == [f"a cat? {first} a rat? {second}" for first, second in texts]
