"""Which questions of benchmarks a conversation holds, by words in a row: GPT-3's rule (arXiv 2005.14165, appendix C).

A conversation holds a question when a message shares 13 words in a row with it or with its reference answer. A
question of 8 to 12 words is held when a message contains all of it, and a shorter one when it is the whole message.
So the question "hi" is not in every greeting.

What a benchmark adds to each question is not the question: words that all of them begin or end with are cut off, and
words in a row that several of them have count for none.

The loaders of questions are those of runs. They are named by conf/benchmark, so that nothing here imports the bench.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numba import njit

from aded.config.choices import benchmark_arguments
from aded.config.objects import instantiate
from aded.errors import BadInput
from aded.files.datastores.cleaning import Check
from aded.identity import sha256
from datastore.cleaning.words import appended, mixed, ngram_hashes, words


@dataclass(frozen=True)
class AskedTexts:
    """What a benchmark asks in one question."""

    id: str
    turns: tuple[str, ...]
    references: tuple[str, ...]
    """Right answers, where the benchmark has them."""


def asked_texts(choice: str, key: str) -> list[AskedTexts]:
    """The questions of a benchmark. Raises BadInput naming `key`.

    choice: a name of conf/benchmark, or NAME:FILE to give its question_file.
    """
    name, _, file = choice.partition(":")
    try:
        config = benchmark_arguments(name)
        if file or config.get("question_file") == "???":
            config["question_file"] = file or None
        questions = instantiate(config, "benchmark").questions()
    except BadInput as error:
        raise BadInput(key, f"{choice}: {error} (NAME:FILE gives a benchmark its file)") from None
    found = [AskedTexts(one.id, tuple(_texts(one.turns)), tuple(one.references)) for one in questions]
    for one, asked in zip(questions, found, strict=True):
        if not any(text.strip() for text in asked.turns):
            where = one.where or f"question {one.id} of {choice}"
            raise BadInput(
                key, f"{where} has no text, which no corpus can be checked for; take it out, or give it one"
            )
    return found


def _texts(turns: Sequence[Any]) -> list[str]:
    """The texts that a user says. Questions of token ids have none."""
    found = []
    for turn in turns:
        if isinstance(turn, str):
            found.append(turn)
        elif isinstance(turn, Sequence):
            found += [one["content"] for one in turn if isinstance(one, Mapping) and one["role"] == "user"]
    return found


LONGEST, SHORTEST = 13, 8
"""Words in a row that count: those of a long question, and the fewest of a short one. Both are GPT-3's."""
FILTER_BITS = 20
Owner = tuple[str, str]
"""A benchmark and a question of it."""


class Overlap:
    """Finds the questions of benchmarks, and counts the conversations that hold each.

    A question of a benchmark that is left out counts the conversations that it leaves out; one of the others counts
    those that stay.

    benchmarks: name -> its questions.
    left_out: are conversations that hold a question left out?
    files: the fingerprint of the question file of each that was given one, as Check has it.
    """

    def __init__(
        self, benchmarks: Mapping[str, Sequence[AskedTexts]], left_out: Mapping[str, bool], files: Mapping[str, str]
    ) -> None:
        self._owners: dict[int, list[Owner]] = {}
        self._whole: dict[int, list[Owner]] = {}
        self.checks = {}
        for name, questions in benchmarks.items():
            self._index(name, questions)
            texts = [text for one in questions for text in (one.id, *one.turns, *one.references)]
            texts_hash = sha256("\0".join(texts).encode("utf-8", "surrogatepass"))[:16]
            self.checks[name] = Check(len(questions), texts_hash, left_out[name], {}, files.get(name))
        self._filter = np.zeros(1 << FILTER_BITS, np.bool_)
        self._filter[np.array(list(self._owners), np.uint64) >> np.uint64(64 - FILTER_BITS)] = True

    def held(self, messages: Sequence[str]) -> set[Owner]:
        """The questions that a conversation holds."""
        owners: set[Owner] = set()
        for hashes in map(words, messages):
            for found in _candidates(hashes, self._filter).tolist():
                owners.update(self._owners.get(found, ()))
            if len(hashes):
                owners.update(self._whole.get(_all_of(hashes), ()))
        return owners

    def leaves_out(self, held: Iterable[Owner]) -> bool:
        """Is a question of a benchmark that is left out among them?"""
        return any(self.checks[name].left_out for name, _ in held)

    def count(self, held: Iterable[Owner], *, left_out: bool) -> None:
        """Count a conversation for the questions that it holds. left_out: it was left out for some of them."""
        for name, question in held:
            if self.checks[name].left_out == left_out:
                met = self.checks[name].met
                met[question] = met.get(question, 0) + 1

    def _index(self, name: str, questions: Sequence[AskedTexts]) -> None:
        turns = [[words(turn) for turn in one.turns] for one in questions]
        begin, end = _in_common([turn for one in turns for turn in one])
        asked: dict[int, set[tuple[str, bytes]]] = {}
        for question, own in zip(questions, turns, strict=True):
            text = b"".join(turn.tobytes() for turn in own)  # two questions with one text are one
            kept = [turn[begin : len(turn) - end] for turn in own]
            for first in own[:1] + [turn for turn in kept[:1] if len(turn) < SHORTEST]:
                if len(first):
                    self._whole.setdefault(_all_of(first), []).append((name, question.id))
            found = [ngram_hashes(turn, min(LONGEST, len(turn))) for turn in kept if len(turn) >= SHORTEST]
            found += [ngram_hashes(words(reference), LONGEST) for reference in question.references]
            for value in (value for hashes in found for value in hashes.tolist()):
                asked.setdefault(value, set()).add((question.id, text))
        for value, askers in asked.items():
            if len({text for _, text in askers}) == 1:
                self._owners.setdefault(value, []).extend((name, question) for question, _ in askers)


def _all_of(hashes: np.ndarray) -> int:
    return int(ngram_hashes(hashes, len(hashes))[0])


def _in_common(texts: Sequence[np.ndarray]) -> tuple[int, int]:
    """How many words all texts begin with, and end with; none if a text has no others."""
    begin, end = (
        min((_equal_words(one[::step], other[::step]) for one, other in pairwise(texts)), default=0)
        for step in (1, -1)
    )
    return (begin, end) if all(len(text) > begin + end for text in texts) else (0, 0)


def _equal_words(one: np.ndarray, other: np.ndarray) -> int:
    """How many words two texts begin with."""
    size = min(len(one), len(other))
    differ = np.flatnonzero(one[:size] != other[:size])
    return int(differ[0]) if len(differ) else size


@njit(cache=True)
def _candidates(words: np.ndarray, keep: np.ndarray) -> np.ndarray:
    """The hashes of n-grams of SHORTEST to LONGEST words that pass the filter, which few do: uint64 [m].

    keep: bool [2^FILTER_BITS], by the first bits of a hash.
    """
    found = []
    for i in range(len(words)):
        value = np.uint64(0)
        for length, word in enumerate(words[i : i + LONGEST], 1):
            value = appended(value, word)
            if length >= SHORTEST:
                hashed = mixed(value)
                if keep[hashed >> np.uint64(64 - FILTER_BITS)]:
                    found.append(hashed)
    return np.array(found, np.uint64)
