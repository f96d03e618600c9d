"""Questions of a benchmark, and the prompts they become."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True)
class Question:
    """One question of one or more turns. `id` is unique in its benchmark; `category` groups questions in plots."""

    id: str
    category: str
    turns: tuple[str, ...]


@runtime_checkable
class Benchmark(Protocol):
    """A set of questions, and how an answer to one is cut and written."""

    stop_strings: Sequence[str]
    raw: bool
    """Questions are plain text to go on from, rather than messages of a chat."""

    def questions(self) -> list[Question]: ...

    def sample(self, question: Question, answer: str) -> dict[str, object] | None:
        """The line of samples.jsonl for a finished answer, or None where the benchmark has none."""


@runtime_checkable
class PromptTemplate(Protocol):
    """Turns a conversation into the text or ids that the model reads."""

    def ids(self, tokenizer: PreTrainedTokenizerBase, turns: Sequence[str], answers: Sequence[str]) -> list[int]:
        """Token ids of the conversation up to the answer wanted: one more turn than there are answers."""


class ChatTemplate:
    """The tokenizer's own chat template."""

    def __init__(self, system: str | None = None) -> None:
        self.system = system

    def ids(self, tokenizer: PreTrainedTokenizerBase, turns: Sequence[str], answers: Sequence[str]) -> list[int]:
        messages = [{"role": "system", "content": self.system}] if self.system else []
        for index, turn in enumerate(turns):
            messages.append({"role": "user", "content": turn})
            if index < len(answers):
                messages.append({"role": "assistant", "content": answers[index]})
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        return tokenizer(text, add_special_tokens=False)["input_ids"]


class Raw:
    """No template: the turns and answers as they are, one after the other."""

    def ids(self, tokenizer: PreTrainedTokenizerBase, turns: Sequence[str], answers: Sequence[str]) -> list[int]:
        parts = [part for pair in zip(turns, [*answers, ""], strict=True) for part in pair]
        return tokenizer("".join(parts))["input_ids"]
