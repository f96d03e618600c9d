"""Runs one method over a benchmark's questions, each in turn with autoregressive decoding, the baseline."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from aded.bench.clock import Lap, TurnWatch, timing_of
from aded.bench.questions import Benchmark, Chat, PromptTemplate, Question, Raw, TokenIds, is_raw
from aded.bench.recording import RecordedAnswer, Recording, feed_answer
from aded.config.methods import autoregressive
from aded.core.decode import SLICE_SECONDS, WHOLE_ANSWER, Answer, Arm, decode, largest_tree, last, steps, take_turns
from aded.core.drafter import Drafter
from aded.core.sampler import Decoding, Recorded, Sampler
from aded.core.target import Step, Target
from aded.errors import BadInput
from aded.files.answer_file import ANSWERS_KEY, sha256_of
from aded.files.models.tokenizer import answer_text, stop_rule
from aded.files.pack import AbsentTokenizer
from aded.records.metrics import compression
from aded.records.noise import MOST_WARM_UP, slice_warm_up
from aded.records.rows import Calibration, Divergence, Row, Timing
from aded.records.trees import TreeRecorder
from aded.targets.engine import Loaded

Pairing = Literal["slices", "answers", "off"]
"""How method and baseline take turns: in slices of about 0.25 s, in whole answers, or not: no baseline decodes."""
WARM_UP_TEXT = "def add(a, b):\n    return a +"
WARM_UP_TOKENS = 16
BASELINE_WARM_UP_TOKENS = 4
"""Fewer than the method's: each of its steps is like the last one."""
LONGEST_SLICE = 8.0
"""Seconds."""
log = logging.getLogger(__name__)


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


class Turn(NamedTuple):
    """A turn of a question as it is asked."""

    question: Question
    number: int
    prompt: np.ndarray
    """int64 [m]"""
    recorded: RecordedAnswer | None
    """None: the model is asked."""

    @property
    def stream(self) -> tuple[int, int]:
        """Separates the random draws of one answer from those of all others, whatever the order of questions."""
        return zlib.crc32(self.question.id.encode()), self.number


class Runner:
    """A method that answers an experiment's questions. drafter: set up for the experiment's model."""

    def __init__(self, experiment: Experiment, drafter: Drafter) -> None:
        self.experiment, self.drafter = experiment, drafter
        self.target, self.tokenizer, _ = experiment.loaded
        # A replay without a model has nothing to compare with: the answer is given, and no model's time is taken.
        paired = experiment.pairing != "off" and "seconds" in self.target.provides
        self.baseline = autoregressive() if paired else None
        self.slice_seconds = SLICE_SECONDS if experiment.pairing == "slices" else WHOLE_ANSWER
        """Method and baseline take turns in slices of so many seconds, where memory holds a KV cache for each."""
        self.trees = TreeRecorder(experiment.trees, self.tokenizer) if experiment.trees else None
        self.on_lap: Callable[[Lap], None] | None = None
        """Is told of each slice as it ends, outside every clock."""
        self._other: Target | None = None
        """The baseline's, where it decodes at the same time."""
        self._cache_rows = 0
        """Of its KV cache, that there was memory for."""
        self._cuda = str(getattr(self.target, "device", "cpu")).startswith("cuda")
        self._stop = stop_rule(self.tokenizer, experiment.asked.benchmark.stop_strings)

    def describe(self) -> dict[str, Any]:
        """Facts for the run's record."""
        recording = self.experiment.recording.describe() if self.experiment.recording else {}
        learned_from = self.drafter.learned_from
        return {
            **self.target.describe(),
            "learned_from": None if learned_from is None else sorted(learned_from),
            **self.drafter.describe(),
            **recording,
        }

    def warm_up(self) -> None:
        """See warm_up; of the method and the baseline, on a prompt of no benchmark."""
        replayed = self.experiment.recording is not None
        tokens = list(range(WARM_UP_TOKENS)) if replayed else self.tokenizer(WARM_UP_TEXT)["input_ids"]
        sampler = Recorded(tokens) if replayed else self.experiment.decoding.sampler()
        prompt = np.array(tokens, np.int64)
        warm_up(self.target, self.drafter, prompt, sampler, WARM_UP_TOKENS)
        if self.baseline is not None:
            warm_up(self._second_target(len(prompt)), self.baseline, prompt, sampler, BASELINE_WARM_UP_TOKENS)

    def answer(self, questions: Iterable[Question], start: int = 0) -> Iterator[list[Row]]:
        """One list of rows per question, in order; the first question has the number `start`. Method and baseline
        take turns at going first."""
        for number, question in enumerate(questions, start):
            trees = self.trees if self.trees and number < self.trees.questions else None
            rows = self._question(question, baseline_first=number % 2 == 1, trees=trees)
            self.grow_slices(rows)
            yield rows

    def answer_again(
        self, questions: Sequence[Question], rows: Sequence[Row], chosen: Set[str]
    ) -> Iterator[list[Row]]:
        """The rows of each chosen question, in order, with the timing of decoding it once more.

        questions, rows: all that were answered. chosen: ids. What a method learns over the session is what it was.
        """
        self.drafter.reset()
        at, last_chosen = iter(rows), max(number for number, one in enumerate(questions) if one.id in chosen)
        for number, question in enumerate(questions[: last_chosen + 1]):
            before = [next(at) for _ in question.turns]
            if question.id in chosen:
                again = self._question(question, baseline_first=number % 2 == 1)
                self.grow_slices(again)
                yield [_with_timing(*both) for both in zip(before, again, strict=True)]
            else:
                self.restore([question], before)

    def grow_slices(self, rows: Sequence[Row]) -> None:
        """Double the slices where taking turns cost too much of those of a question, `rows`."""
        share = slice_warm_up(rows)
        if share is not None and share > MOST_WARM_UP and self.slice_seconds < LONGEST_SLICE:
            self.slice_seconds *= 2
            log.info("taking turns costs %.1f %% of a slice: slices of %.2g s now", 100 * share, self.slice_seconds)

    def restore(self, questions: Sequence[Question], rows: Iterable[Row]) -> None:
        """Bring a drafter that remembers answers to where it was when it had answered the questions, `rows`.

        A drafter that reads logits or hidden states, which no row holds, answers them again; nothing is recorded.
        """
        if not self.drafter.remembers_answers:
            return
        at = iter(rows)
        for question in questions:
            answered = [next(at) for _ in question.turns]
            for row, turn in zip(answered, self.turns(question, answered), strict=True):
                if self.drafter.requires:
                    last(self._steps(self.target, self.drafter, turn))
                else:
                    ends, seed = self.experiment.eos_token_ids, self._seed(turn)
                    feed_answer(self.drafter, turn.prompt, row, self._sampler(turn), ends, seed)

    def turns(self, question: Question, rows: Sequence[Row]) -> Iterator[Turn]:
        """Those of a question. A turn needs the rows of those before it; `rows` may grow meanwhile."""
        answers: list[str] = []
        for number in range(len(question.turns)):
            turn = self._turn(question, number, answers)
            yield turn
            answers.append(self._text(rows[number].token_ids, turn.recorded))

    def _turn(self, question: Question, number: int, answers: list[str]) -> Turn:
        """A turn after the answers before it."""
        recording, template = self.experiment.recording, self.experiment.template
        ids = recording and recording.prompt(question.id, number)
        prompt = np.array(ids or question.prompt_ids(answers, self.tokenizer, template), np.int64)
        if len(prompt) == 0:
            raise BadInput("benchmark", f"question {question.id} has no token; leave it out")
        raw = is_raw(question, template)
        recorded = recording.answer(question.id, number, len(prompt), raw) if recording else None
        return Turn(question, number, prompt, recorded)

    def _text(self, token_ids: list[int], recorded: RecordedAnswer | None) -> str:
        """What later turns have in their context of an answer."""
        stops = self.experiment.asked.benchmark.stop_strings
        return recorded.text if recorded else answer_text(self.tokenizer, token_ids, stops)

    def _question(self, question: Question, baseline_first: bool, trees: TreeRecorder | None = None) -> list[Row]:
        rows: list[Row] = []
        for turn in self.turns(question, rows):
            on_step = trees.begin(question.id, turn.number, turn.prompt, self.drafter) if trees else None
            rows.append(self._decoded(turn, baseline_first, on_step))
        return rows

    def _decoded(self, turn: Turn, baseline_first: bool, on_step: Callable[[Step], None] | None) -> Row:
        """A turn's row: the method's answer, and the baseline's in turn with it."""
        watch = TurnWatch(self._cuda)
        method = Arm(self._steps(self.target, self.drafter, turn, on_step))
        if self.baseline is None:
            method.finish()
            return self._row(turn, method.answer, None, timing_of(method.answer, None, [], watch.use()))
        baseline = Arm(self._steps(self._second_target(len(turn.prompt)), self.baseline, turn))
        order = (baseline, method) if baseline_first else (method, baseline)
        slices: list[tuple[int, Lap]] = []  # of each arm in turn: its steps so far, and what the machine did
        for arm in take_turns(*order, self.slice_seconds):
            lap = watch.lap()
            slices.append((arm.answer.steps, lap))
            if self.on_lap is not None:
                self.on_lap(lap)
        pairs = list(zip(slices[baseline_first::2], slices[not baseline_first :: 2], strict=True))
        timing = timing_of(method.answer, baseline.answer, pairs, watch.use())
        return self._row(turn, method.answer, baseline.answer, timing)

    def _second_target(self, prompt_tokens: int) -> Target:
        """The baseline's target: one with a cache of its own, where arms take turns in slices."""
        cache_rows = prompt_tokens + self.experiment.max_new_tokens + largest_tree(self.drafter)
        if self.slice_seconds < WHOLE_ANSWER and cache_rows > self._cache_rows:
            if self.target.has_memory_for(cache_rows):
                self._cache_rows, self._other = cache_rows, self._other or self.target.fork()
            else:
                log.warning("pairing=slices: no memory for a second KV cache; whole answers take turns")
                self.slice_seconds, self._other = WHOLE_ANSWER, None
        return self._other or self.target

    def _steps(
        self, target: Target, drafter: Drafter, turn: Turn, on_step: Callable[[Step], None] | None = None
    ) -> Iterator[Answer]:
        limit = self.experiment.max_new_tokens
        return steps(
            target,
            drafter,
            turn.prompt,
            self._sampler(turn),
            max_new_tokens=min(limit, len(turn.recorded.token_ids)) if turn.recorded else limit,
            eos_token_ids=self.experiment.eos_token_ids,
            stop=self._stop,
            seed=self._seed(turn),
            on_step=on_step,
        )

    def _sampler(self, turn: Turn) -> Sampler:
        return Recorded(turn.recorded.token_ids) if turn.recorded else self.experiment.decoding.sampler(*turn.stream)

    def _seed(self, turn: Turn) -> int:
        """The drafter's seed for an answer."""
        return zlib.crc32(repr((self.experiment.decoding.seed, *turn.stream)).encode())

    def _row(self, turn: Turn, answer: Answer, plain: Answer | None, timing: Timing) -> Row:
        timed = "seconds" in self.target.provides
        compared = plain if self.experiment.decoding.repeats_the_baseline else None
        drafting = sum(answer.draft_times) + sum(answer.observe_times)
        text = str(self.tokenizer.decode(answer.token_ids, skip_special_tokens=True))
        return Row(
            question_id=turn.question.id,
            turn=turn.number,
            category=turn.question.category,
            prompt_tokens=len(turn.prompt),
            new_tokens=answer.new_tokens,
            steps=answer.steps,
            accept_lengths=answer.accept_lengths,
            drafted_nodes=answer.drafted_nodes,
            calibration=None if answer.calibration is None else Calibration(**answer.calibration),
            draft_seconds=drafting,
            verify_seconds=sum(answer.verify_times) if timed else None,
            decode_seconds=answer.decode_seconds if timed else None,
            prefill_seconds=answer.prefill_seconds if timed else None,
            stop_reason=answer.stop_reason,
            token_ids=answer.token_ids,
            token_ids_sha256=sha256_of(answer.token_ids),
            identical=None if compared is None else compared.token_ids == answer.token_ids,
            divergence=None if compared is None else self._divergence(turn.prompt, answer, compared),
            autoregressive_new_tokens=None if plain is None else plain.new_tokens,
            autoregressive_decode_seconds=None if plain is None else plain.decode_seconds,
            autoregressive_prefill_seconds=None if plain is None else plain.prefill_seconds,
            timings=[timing if timed else replace(timing, verify_ms=None)],
            compression=None if isinstance(self.tokenizer, AbsentTokenizer) else compression(text),
            parts=answer.parts,
        )

    def _divergence(self, prompt: np.ndarray, answer: Answer, plain: Answer) -> Divergence | None:
        """First position at which the answers differ, and how near the two best logits are there."""
        pairs = enumerate(zip(answer.token_ids, plain.token_ids, strict=False))
        at = next((index for index, (mine, other) in pairs if mine != other), None)
        if at is None or "logits" not in self.target.provides:
            return None
        context = np.concatenate([prompt, np.array(plain.token_ids[:at], np.int64)])
        step = self.target.prefill(context, self.experiment.decoding.sampler(), 1, {"logits"})
        assert step.logits is not None
        best = step.logits[-1].float().topk(2).values
        return Divergence(at, float(best[0] - best[1]))


def warm_up(target: Target, drafter: Drafter, prompt: np.ndarray, sampler: Sampler, tokens: int) -> None:
    """Load caches and compile before any clock runs; nothing that is learned from it stays."""
    decode(target, drafter, prompt, sampler, max_new_tokens=tokens)
    drafter.reset()


def _with_timing(row: Row, again: Row) -> Row:
    """The row with the timing of the same answer, decoded again."""
    same = ("token_ids", "accept_lengths", "drafted_nodes", "autoregressive_new_tokens")
    if any(getattr(row, key) != getattr(again, key) for key in same):
        log.warning("question %s, decoded again, has another answer or other steps; left out", row.question_id)
        return row
    return replace(row, timings=[*row.timings, *again.timings])
