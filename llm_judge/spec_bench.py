"""Spec-Bench (Xia et al. 2024, arXiv 2401.07851): its questions, its tasks, and the files that its runs write.

The 480 questions are of six tasks, 80 each, by their ids. The first task is MT-Bench, whose questions have eight
categories of their own in Spec-Bench's files; its evaluation/speed.py puts them together, and so does this module.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from aded.bench.questions import Question
from aded.errors import BadInput
from aded.files.json_lines import LINE, json_lines, typed
from aded.records.rows import Row
from aded.settings import FilePath, Id
from llm_judge.questions import QUESTIONS_KEY, JudgeQuestions

TASKS = ("mt_bench", "translation", "summarization", "qa", "math_reasoning", "rag")
"""As its evaluation/speed.py names them, in the order of the ids."""
MT_BENCH_CATEGORIES = ("writing", "roleplay", "reasoning", "math", "coding", "extraction", "stem", "humanities")
FIRST, LAST, PER_TASK, PER_CATEGORY = 81, 560, 80, 10
SOURCE = "data/spec_bench/question.jsonl of the repository hemingkx/Spec-Bench"


def task_of(question_id: str) -> str:
    """The task of a question. Raises ValueError for an id that is none of Spec-Bench's."""
    if not question_id.isdecimal() or not FIRST <= int(question_id) <= LAST:
        raise ValueError(f"question {question_id} is none of Spec-Bench's, which are {FIRST} to {LAST}")
    return TASKS[(int(question_id) - FIRST) // PER_TASK]


def category_of(question_id: str) -> str:
    """The category that Spec-Bench's files give a question: its task, in MT-Bench one of eight. Raises ValueError."""
    task = task_of(question_id)
    return MT_BENCH_CATEGORIES[(int(question_id) - FIRST) // PER_CATEGORY] if task == TASKS[0] else task


class SpecBench(JudgeQuestions):
    """Spec-Bench's questions; a question's category is its task.

    question_file: Spec-Bench's question.jsonl.
    """

    def __init__(self, question_file: FilePath | None) -> None:
        if question_file is None:
            raise BadInput(QUESTIONS_KEY, f"give {SOURCE} by its path")
        super().__init__(question_file, first_id=FIRST, last_id=LAST)
        self._questions = [_of_its_task(question, question_file) for question in self._questions]


def _of_its_task(question: Question, path: str) -> Question:
    if question.category != category_of(question.id):
        raise BadInput(
            QUESTIONS_KEY,
            f"{path}: question {question.id} is of {question.category or 'no category'}, in Spec-Bench it is of "
            f"{category_of(question.id)}; give {SOURCE}",
        )
    return replace(question, category=task_of(question.id))


@dataclass(frozen=True)
class _Choice:
    __pydantic_config__ = LINE
    accept_lengths: list[float]


@dataclass(frozen=True)
class _Line:
    __pydantic_config__ = LINE
    question_id: Id
    choices: Annotated[list[_Choice], Field(min_length=1)]
    model_id: str = ""


@dataclass(frozen=True)
class RunFile:
    """What a file of Spec-Bench's model_answer says of accepted tokens, by its own definition."""

    name: str
    """The model_id in its lines, which names model and method; without one the file's name."""
    accept_lengths: dict[str, list[float]]
    """Question id -> the lengths of all its steps, as the method that wrote the file counts steps."""

    @property
    def benchmark(self) -> str:
        """mt_bench where the file has no question of another task."""
        tasks = {task_of(question) for question in self.accept_lengths}
        return TASKS[0] if tasks == {TASKS[0]} else "spec_bench"

    @property
    def micro(self) -> float | None:
        """As evaluation/speed.py computes `overall`: the mean of all lengths of all questions."""
        return _mean(list(self.accept_lengths.values()))

    @property
    def by_category(self) -> dict[str, float]:
        """The same of each task, as evaluation/speed.py computes it; in mt_bench of each category."""
        group = category_of if self.benchmark == TASKS[0] else task_of
        found: dict[str, list[list[float]]] = {}
        for question, lengths in sorted(self.accept_lengths.items(), key=lambda item: int(item[0])):
            found.setdefault(group(question), []).append(lengths)
        means = {category: _mean(lengths) for category, lengths in found.items()}
        return {category: mean for category, mean in means.items() if mean is not None}

    @property
    def macro(self) -> float | None:
        """The mean of the categories; Spec-Bench prints none."""
        values = list(self.by_category.values())
        return sum(values) / len(values) if values else None


def _mean(lengths: Sequence[Sequence[float]]) -> float | None:
    flat = [length for one in lengths for length in one]
    return float(np.mean(flat)) if flat else None


def read_run_file(path: str | Path, key: str) -> RunFile:
    """A file that a run of Spec-Bench wrote. Raises BadInput naming `key`, line and id."""
    found: dict[str, list[float]] = {}
    name = ""
    for where, value in json_lines(path, key):
        form = "a line of Spec-Bench's model_answer, with question_id and choices[0].accept_lengths"
        line: _Line = typed(value, _Line, key, where, form)
        try:
            task_of(line.question_id)
        except ValueError as error:
            raise BadInput(key, f"{where}: {error}") from None
        if line.question_id in found:
            raise BadInput(key, f"{where}: question {line.question_id} appears twice")
        found[line.question_id] = line.choices[0].accept_lengths
        name = name or line.model_id
    if not any(found.values()):
        raise BadInput(key, f"{path} holds no accept_lengths")
    return RunFile(name or Path(path).stem, found)


def as_spec_bench(turns: Sequence[Row], line: dict[str, Any]) -> dict[str, Any]:
    """A question's line in FastChat's layout (llm_judge.export), as Spec-Bench writes it. Raises ValueError.

    turns: the question's rows.

    The category is Spec-Bench's own. new_tokens is whole answers, as Spec-Bench counts: the token that prefill
    decided is one of them. accept_lengths are those of our steps. Where no model ran there are no seconds, and
    evaluation/speed.py needs a number: wall_time is then the number of steps, and wall_time_unit says so.
    """
    (choice,) = line["choices"]
    choice = {**choice, "new_tokens": [len(row.token_ids) for row in turns]}
    if None in choice["wall_time"]:
        choice |= {"wall_time": [float(row.steps) for row in turns], "wall_time_unit": "steps; no model ran"}
    return {**line, "category": category_of(turns[0].question_id), "choices": [choice]}
