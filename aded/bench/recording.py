"""Recorded answers: what a real model emitted, replayed by the sampler `Recorded`.

Under greedy or match-the-sample verification the accepted path depends only on the text that the model emitted, so
the accepted lengths, and with them the mean accepted tokens, are exactly those of the model, whatever its size.

Tokens of a recorded text: the text alone is tokenised, without special tokens, and EOS is put behind it. That is how
a chat model saw answers when it was trained (a SentencePiece tokenizer puts the space that templates have before an
answer into the first token). Raw text, without a chat template, has its special tokens in it, as gpt-oss's channels.
The token limit then cuts as it does for a model: an answer as long as the limit has no EOS. White space that was
stripped when the text was recorded is lost; nothing else is guessed.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Sequence
from os.path import expanduser
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from aded.bench.questions import GivenQuestions, Question
from aded.config.objects import CONF
from aded.core.drafter import Drafter, Step
from aded.core.sampler import Rejection, Sampler
from aded.core.tree import DraftTree
from aded.errors import BadInput
from aded.files.answer_file import ANSWERS_KEY, read_answers
from aded.files.models.tokenizer import load_tokenizer
from aded.files.pack import ABOUT, About, AbsentTokenizer, is_pack, read_about, read_pack
from aded.identity import sha256, tokenizer_fingerprint
from aded.records.rows import Row
from aded.settings import Dtype, FilePath
from aded.targets.engine import Loaded
from aded.targets.weightless import WeightlessTarget, random_target

if TYPE_CHECKING:
    from aded.files.models.tokenizer import AnyTokenizer

SHAPES = CONF / "model" / "compute"
log = logging.getLogger(__name__)


class RecordedAnswer(NamedTuple):
    """One recorded answer: the tokens to emit, and the text that later turns have in their context."""

    token_ids: Sequence[int]
    text: str


class Recording:
    """The answers of one file or pack, by question and turn.

    eos_token_ids: the tokens that end an answer; the rows of a run say whether their last token is one.
    """

    def __init__(self, path: str | Path, tokenizer: AnyTokenizer) -> None:
        self.path, self.tokenizer = Path(expanduser(path)), tokenizer
        if is_pack(self.path):
            _check_tokenizer(read_about(self.path, ANSWERS_KEY), tokenizer)
        self.answers = read_answers(self.path)
        turns = [turn for turns in self.answers.values() for turn in turns]
        self._eos = [] if tokenizer.eos_token_id is None else [int(tokenizer.eos_token_id)]
        self.eos_token_ids = frozenset(
            [turn.token_ids[-1] for turn in turns if turn.ended and turn.token_ids]
            + [token for turn in turns if turn.text is not None for token in self._eos]
        )

    def prompt(self, question_id: str, turn: int) -> Sequence[int] | None:
        """The prompt that the answer followed; None where the file has none."""
        return self.answers[question_id][turn].prompt_ids

    def answer(self, question_id: str, turn: int, prompt_tokens: int, raw: bool = False) -> RecordedAnswer:
        """The answer to replay after a prompt of so many tokens.

        raw: a text has special tokens in it, perhaps the one that ends it.
        Raises BadInput when a row of a run was recorded after another prompt.
        """
        recorded = self.answers[question_id][turn]
        if recorded.text is not None:
            ids = self.tokenizer(recorded.text, add_special_tokens=False, split_special_tokens=not raw)["input_ids"]
            end = [] if ids[-1:] == self._eos else self._eos
            return RecordedAnswer([*ids, *end], recorded.text)
        if recorded.prompt_tokens != prompt_tokens:
            raise BadInput(
                ANSWERS_KEY,
                f"question {question_id}, turn {turn}, was recorded after a prompt of {recorded.prompt_tokens} "
                f"tokens and has one of {prompt_tokens} here; use that run's benchmark, tokenizer and template",
            )
        text = self.tokenizer.decode(list(recorded.token_ids), skip_special_tokens=True)
        return RecordedAnswer(recorded.token_ids, str(text))

    def answered(self, wanted: list[Question], benchmark: list[Question]) -> list[Question]:
        """The questions of `wanted` whose every turn can be replayed; the log counts and names those left out.

        benchmark: all its questions. Raises BadInput when the file belongs to another one.
        """
        turns = {question.id: len(question.turns) for question in benchmark}
        strange = [question for question in self.answers if question not in turns]
        if len(strange) == len(self.answers):
            raise BadInput(
                ANSWERS_KEY, f"{self.path} answers none of the benchmark's questions, but {_named(strange)}"
            )
        for name, answers in self.answers.items():
            if len(answers) > turns.get(name, len(answers)):
                raise BadInput(
                    ANSWERS_KEY,
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
            raise BadInput(ANSWERS_KEY, f"{self.path} has no whole answer to the benchmark's questions")
        return kept

    def _fault(self, question: Question) -> str | None:
        """Why the question cannot be replayed, or None."""
        turns = self.answers.get(question.id, [])
        if len(turns) < len(question.turns):
            return "question without an answer to each turn" if turns else "question without an answer"
        return next((turn.fault for turn in turns if turn.fault), None)

    def describe(self) -> dict[str, str]:
        """For the run's record: which answers these are."""
        if is_pack(self.path):
            return {"answers_sha256": read_about(self.path, ANSWERS_KEY).answers_sha256}
        return {"answers_sha256": sha256(self.path)}


def _check_tokenizer(pack: About, tokenizer: AnyTokenizer) -> None:
    """Raise BadInput unless the pack's ids are this tokenizer's."""
    if (found := tokenizer_fingerprint(tokenizer)) != pack.tokenizer:
        raise BadInput(
            "model.tokenizer", f"has the fingerprint {found[:12]}, the pack's has {pack.tokenizer[:12]}; leave it out"
        )


class PackBenchmark(GivenQuestions):
    """The questions of a pack: their ids, and no text, as the pack has the prompts.

    pack: its folder.
    """

    def __init__(self, pack: FilePath) -> None:
        if not is_pack(pack):
            raise BadInput(
                ANSWERS_KEY, f"{pack} is no pack, which has a {ABOUT}; name the benchmark of these answers"
            )
        answered = read_pack(pack, ANSWERS_KEY).turns
        categories = {turn.question_id: turn.category for turn in answered}
        turns = Counter(turn.question_id for turn in answered)
        super().__init__([Question(name, categories[name], ("",) * count) for name, count in turns.items()])


def _named(ids: Sequence[str], most: int = 20) -> str:
    return ", ".join(ids[:most]) + (f" and {len(ids) - most} more" if len(ids) > most else "")


def load_for_replay(
    answers: FilePath,
    tokenizer: FilePath | None = None,
    *,
    compute: FilePath | None = None,
    dtype: Dtype = "bfloat16",
    device: str = "cpu",
    cache: str | None = None,
) -> Loaded:
    """Target and tokenizer of `model=recorded`.

    answers: the file or pack.
    tokenizer, cache: as load_tokenizer takes them, of the model that gave the answers; None: the answers are a pack.
    compute: a shape in conf/model/compute that runs every step with random weights; None: no model runs.
    dtype: of these weights.
    device: cpu, cuda or cuda:N, where they are.
    """
    loaded: Any
    if tokenizer is not None:
        loaded = load_tokenizer(tokenizer, cache, "model.tokenizer")
    elif is_pack(answers):
        pack = read_about(answers, ANSWERS_KEY)
        loaded = AbsentTokenizer(pack.tokenizer, pack.vocabulary)
    elif not Path(answers).expanduser().exists():
        raise BadInput(ANSWERS_KEY, f"there is no {answers}; name a pack, or a file of answers")
    else:
        raise BadInput("model.tokenizer", f"must be given: {answers} is no pack, so its answers are texts")
    if compute is None:
        return Loaded(WeightlessTarget(), loaded, frozenset())
    shape = read_shape(compute)
    if len(loaded) > shape["vocab_size"]:
        raise BadInput("model.compute", f"{compute} has {shape['vocab_size']} tokens, the tokenizer {len(loaded)}")
    return Loaded(random_target(shape, dtype=dtype, device=device, cache=cache), loaded, frozenset())


def read_shape(name: str) -> dict[str, Any]:
    """The transformers config in conf/model/compute/`name`.yaml. Raises BadInput with the known names."""
    path = SHAPES / f"{name}.yaml"
    if not path.is_file():
        known = ", ".join(sorted(path.stem for path in SHAPES.glob("*.yaml")))
        raise BadInput("model.compute", f"{name!r} is no known shape; there are {known}")
    from omegaconf import OmegaConf  # a replay without a model needs none

    shape: Any = OmegaConf.to_container(OmegaConf.load(path))
    return shape


def feed_answer(
    drafter: Drafter,
    prompt_ids: np.ndarray,
    row: Row,
    sampler: Sampler,
    eos_token_ids: Collection[int] = (),
    seed: int = 0,
) -> None:
    """Take a drafter through a row's answer: it then knows what it knew when it gave that answer.

    It is called as the decode loop did: the same contexts, int64, after the same prompt [m]. No target is needed: a
    row has the tokens and where each step ended. What a drafter took from logits or hidden states is in no row. What
    it observes of a step is the accepted path and the bonus token; the rest of a draft changed nothing.
    """
    tokens = np.array(row.token_ids, np.int64)
    if len(tokens) == 0:  # the prompt filled the model's context: the drafter was not asked
        return
    context = np.concatenate([prompt_ids, tokens])
    at = len(prompt_ids)
    drafter.draw_by(sampler if isinstance(sampler, Rejection) else None)
    drafter.end_at(eos_token_ids)
    drafter.begin(prompt_ids, seed)
    drafter.observe(Step(DraftTree.root(int(context[at - 1])), [0], int(context[at])))
    at += 1
    for length in row.accept_lengths:
        drafter.draft(context[:at])
        path = DraftTree.chain(int(context[at - 1]), context[at : at + length - 1].tolist())
        drafter.observe(Step(path, list(range(length)), int(context[at + length - 1])))
        at += length
    drafter.end()
