"""What a runner is made of, put together in one way for `aded run`, `aded.compare` and `aded.replay`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from aded.bench.questions import Benchmark, Chat, PromptTemplate, Question, Raw, TokenIds
from aded.bench.recording import Recording
from aded.core.sampler import Decoding
from aded.errors import BadInput
from aded.files.answer_file import ANSWERS_KEY
from aded.targets.engine import Loaded

Pairing = Literal["slices", "answers", "off"]
"""How method and baseline take turns: in slices of about 0.25 s, in whole answers, or not: no baseline decodes."""


class Asked(NamedTuple):
    """A benchmark and its questions."""

    benchmark: Benchmark
    every: list[Question]
    chosen: list[Question]
    """Those that are asked."""

    def template(self, of_model: Callable[[], PromptTemplate]) -> PromptTemplate:
        """Of the questions: the model's, where the benchmark's are chats."""
        return Raw() if self.benchmark.raw else of_model()


@dataclass(frozen=True)
class Experiment:
    """A model, what it is asked, and how it answers: all but the method."""

    loaded: Loaded
    asked: Asked
    template: PromptTemplate
    decoding: Decoding
    max_new_tokens: int
    recording: Recording | None
    """The answers to replay; None where the target decides its own."""
    pairing: Pairing
    trees: int
    """Draft trees of so many questions are kept, the first ones."""

    @property
    def eos_token_ids(self) -> frozenset[int]:
        """The tokens that end an answer."""
        if self.recording:
            return self.recording.eos_token_ids
        return frozenset() if self.decoding.ignore_eos else self.loaded.eos_token_ids


def build_experiment(
    loaded: Loaded,
    asked: Asked,
    template: Callable[[], PromptTemplate],
    *,
    max_new_tokens: int,
    decoding: Decoding = Decoding(),  # noqa: B008 - it is frozen
    recording: Recording | None = None,
    pairing: Pairing = "slices",
    trees: int = 0,
) -> Experiment:
    """Choose the questions that can be answered, and refuse now what would fail in the midst of a run.

    template: makes the model's, where the benchmark's questions are chats.
    """
    if recording is not None:
        if decoding.ignore_eos:
            raise BadInput("decoding.ignore_eos", "recorded answers end where they ended; set it for a model")
        asked = asked._replace(chosen=recording.answered(asked.chosen, asked.every))
    elif not loaded.target.provides:
        raise BadInput(ANSWERS_KEY, "must be given: this target computes nothing")
    asks_in = asked.template(template)
    for question in asked.chosen:
        if isinstance(question, Chat | TokenIds):
            question.prompt_ids([], loaded.tokenizer, asks_in)
    return Experiment(loaded, asked, asks_in, decoding, max_new_tokens, recording, pairing, trees)
