"""A target that replays recorded answers in place of running a model.

Under greedy or match-the-sample verification the accepted path depends only on the text that the model emitted, so
the accepted lengths, and with them the mean accepted tokens, are exactly those of the model, whatever its size. Times
of a target do not exist here, and a drafter that reads logits or hidden states is refused.

Tokens of a recorded text: the text alone is tokenised, without special tokens, and EOS is put behind it. That is how
a chat model saw answers when it was trained (for a SentencePiece tokenizer the first token bears the space that
templates put before an answer). The token limit then cuts as it does for a model: an answer as long as the limit has
no EOS. White space that was stripped when the text was recorded is lost; nothing else is guessed.
"""

from __future__ import annotations

import hashlib
import logging
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from aded.bench.questions import Question
from aded.core.drafter import Step
from aded.core.sampler import Sampler, accepted_path
from aded.core.tree import DraftTree
from aded.errors import BadInput
from aded.files.answer_file import KEY, read_answers
from aded.files.hub import pretrained

log = logging.getLogger(__name__)


class Replay(NamedTuple):
    """One recorded answer: the tokens to emit, and the text that later turns have in their context."""

    token_ids: Sequence[int]
    text: str


class Recording:
    """The answers of one file, asked for by question and turn.

    eos_token_ids: the tokens that end an answer; the rows of a run say themselves whether their last token is one.
    playing: the tokens of the answer asked for last, None before the first.
    """

    def __init__(self, path: str | Path, tokenizer: PreTrainedTokenizerBase) -> None:
        self.path, self.tokenizer = Path(path).expanduser(), tokenizer
        self.answers = read_answers(self.path)
        turns = [turn for turns in self.answers.values() for turn in turns]
        self._eos = [] if tokenizer.eos_token_id is None else [int(tokenizer.eos_token_id)]
        self.eos_token_ids = frozenset(
            [turn.token_ids[-1] for turn in turns if turn.ended]
            + [token for turn in turns if turn.text is not None for token in self._eos]
        )
        self.playing: Sequence[int] | None = None

    def play(self, question_id: str, turn: int, prompt_tokens: int) -> Replay:
        """The answer to replay now, after a prompt of so many tokens.

        Raises BadInput when a row of a run was recorded after another prompt.
        """
        recorded = self.answers[question_id][turn]
        if recorded.text is not None:
            ids = self.tokenizer(recorded.text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
            replay = Replay([*ids, *self._eos], recorded.text)
        else:
            if recorded.prompt_tokens != prompt_tokens:
                raise BadInput(
                    KEY,
                    f"question {question_id}, turn {turn}, was recorded after a prompt of {recorded.prompt_tokens} "
                    f"tokens and has one of {prompt_tokens} here; use that run's benchmark, tokenizer and template",
                )
            text = self.tokenizer.decode(list(recorded.token_ids), skip_special_tokens=True)
            replay = Replay(recorded.token_ids, str(text))
        self.playing = replay.token_ids
        return replay

    def answered(self, wanted: list[Question], benchmark: list[Question]) -> list[Question]:
        """The questions of `wanted` whose every turn can be replayed; the log counts and names those left out.

        benchmark: all its questions. Raises BadInput when the file belongs to another one.
        """
        turns = {question.id: len(question.turns) for question in benchmark}
        strange = [question for question in self.answers if question not in turns]
        if len(strange) == len(self.answers):
            raise BadInput(KEY, f"{self.path} answers none of the benchmark's questions, but {_named(strange)}")
        for name, answers in self.answers.items():
            if len(answers) > turns.get(name, len(answers)):
                raise BadInput(
                    KEY,
                    f"{self.path} has {len(answers)} turns for question {name}, which has {turns[name]}; "
                    "it belongs to another benchmark",
                )
        skipped: dict[str, list[str]] = {"answer without its question": strange} if strange else {}
        kept = []
        for question in wanted:
            if fault := self._fault(question):
                skipped.setdefault(fault, []).append(question.id)
            else:
                kept.append(question)
        for fault, ids in skipped.items():
            log.warning("%s: %s, skipped %d: %s", self.path, fault, len(ids), _named(ids))
        if not kept:
            raise BadInput(KEY, f"{self.path} has no whole answer to the benchmark's questions")
        return kept

    def _fault(self, question: Question) -> str | None:
        """Why the question cannot be replayed, or None."""
        turns = self.answers.get(question.id, [])
        if len(turns) < len(question.turns):
            return "question without an answer to each turn" if turns else "question without an answer"
        return next((turn.fault for turn in turns if turn.fault), None)

    def describe(self) -> dict[str, str]:
        """For the run's record: which answers these are."""
        return {"answers_sha256": hashlib.sha256(self.path.read_bytes()).hexdigest()}


def _named(ids: Sequence[str], most: int = 20) -> str:
    return ", ".join(ids[:most]) + (f" and {len(ids) - most} more" if len(ids) > most else "")


class RecordedTarget:
    """Chooses at each position the token that the recorded answer has there; see Target.

    Before the first answer is asked for, as in warm-up, it repeats the prompt.
    """

    provides: frozenset[str] = frozenset()
    context_length = sys.maxsize

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.eos_token_ids = recording.eos_token_ids

    def prefill(self, prompt_ids: np.ndarray, sampler: Sampler, room: int, requires: Collection[str] = ()) -> Step:
        playing = self.recording.playing
        self._answer = np.resize(prompt_ids, room).tolist() if playing is None else playing
        self._length = 1
        return Step(DraftTree.root(int(prompt_ids[-1])), [0], self._answer[0])

    def verify(self, tree: DraftTree) -> Step:
        """The tree is no deeper than the rest of the answer: the loop knows how long the answer is."""
        depths = tree.depths
        path, token = accepted_path(tree, lambda node: self._answer[self._length + int(depths[node])])
        self._length += len(path)
        return Step(tree, path, token)

    def describe(self) -> dict[str, object]:
        """No engine: nothing is computed."""
        return {"engine": None}

    def self_check(self) -> None:
        """Nothing to check: the answers are checked as they are read."""


def load_recorded(answers: str, *, tokenizer: str, cache: str = "") -> tuple[RecordedTarget, PreTrainedTokenizerBase]:
    """The target that replays the file `answers`, and the tokenizer, a Hub id or folder, of their model."""
    words = pretrained(AutoTokenizer, tokenizer, key="model.tokenizer")
    return RecordedTarget(Recording(answers, words)), words
