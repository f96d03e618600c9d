"""Which slices the machine disturbed. The rule reads the machine and the baseline, never the method's result.

Method and baseline take turns in slices (aded.core.slices). A pair of slices is disturbed where

* other programs took more than MOST_TAKEN of the processors' time in one of its slices, or other virtual machines did
  (steal); or
* its steps of autoregressive decoding took more than SLOW times what such steps take in this run: the median of the
  steps at the same context length, in blocks of BLOCK tokens, among the slices that nobody else took time from.

Disturbed slices leave in pairs, so that both arms keep the same parts of the answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from aded.records.rows import Row, Slices, Timing

MOST_TAKEN = 0.1
SLOW = 1.5
BLOCK = 256
ENOUGH = 0.6
"""Share of a question's slices that must be undisturbed; else the question is decoded again."""
MOST_TIMINGS = 3
"""How often a question is decoded at most."""


@dataclass(frozen=True)
class Pairs:
    """The pairs of slices of one timing of a row. n: pairs, a: steps of autoregressive decoding."""

    slices: Slices
    terms: np.ndarray
    """float [n, 4]: (tokens, seconds) of the method, (seconds, tokens) of autoregressive decoding."""
    plain_seconds: np.ndarray
    """float [a]: each step of autoregressive decoding."""
    blocks: np.ndarray
    """int64 [a]: block of the context length at each of these steps."""
    taken: np.ndarray
    """bool [n]: did others take too much of the processors' time?"""

    @classmethod
    def of(cls, row: Row, timing: Timing) -> Pairs:
        slices = timing.slices
        assert slices is not None
        seconds = step_seconds(timing.draft_ms, timing.verify_ms, timing.observe_ms)
        plain = step_seconds(
            timing.autoregressive_draft_ms, timing.autoregressive_verify_ms, timing.autoregressive_observe_ms
        )
        terms = [
            sums(np.array(row.accept_lengths, float), slices.steps),
            sums(seconds, slices.steps),
            sums(plain, slices.autoregressive_steps),
            np.array(slices.autoregressive_steps, float),
        ]
        blocks = (row.prompt_tokens + 1 + np.arange(len(plain))) // BLOCK
        return cls(slices, np.stack(terms, axis=1), plain, blocks, taken(slices))

    def disturbed(self, usual: np.ndarray) -> np.ndarray:
        """bool [n]. usual: float [blocks], seconds of a step of autoregressive decoding."""
        expected = sums(usual[self.blocks], self.slices.autoregressive_steps)
        return self.taken | (self.terms[:, 2] > SLOW * expected)


def taken(slices: Slices) -> np.ndarray:
    """bool [n]: did other programs or virtual machines take more than MOST_TAKEN?"""
    return np.maximum(np.array(slices.others, float), np.array(slices.steal, float)) > MOST_TAKEN


def step_seconds(*parts_ms: Sequence[float] | None) -> np.ndarray:
    """float [steps]: the sum of each step's parts, given in milliseconds."""
    return np.sum([part for part in parts_ms if part is not None], axis=0, dtype=float) / 1000


def sums(values: np.ndarray, counts: Sequence[int]) -> np.ndarray:
    """float [len(counts)]: the sums of the first counts[0] values, of the next counts[1], and so on."""
    so_far = np.concatenate([[0.0], np.cumsum(values)])
    ends = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
    return so_far[ends[1:]] - so_far[ends[:-1]]


def pairs_of(rows: Sequence[Row]) -> list[list[tuple[np.ndarray, np.ndarray]]]:
    """For each row of a run and each timing: the pairs' terms, float [n, 4], and which are undisturbed, bool [n].

    A row of an unpaired run has none.
    """
    found = [[Pairs.of(row, timing) for timing in row.timings if timing.slices is not None] for row in rows]
    usual = _usual([pairs for timings in found for pairs in timings])
    return [[(pairs.terms, ~pairs.disturbed(usual)) for pairs in timings] for timings in found]


def _usual(found: Sequence[Pairs]) -> np.ndarray:
    """float [blocks]: the median step of autoregressive decoding at each context length; of slices that nobody took
    time from where there are any."""
    if not found:
        return np.zeros(0)
    seconds = np.concatenate([pairs.plain_seconds for pairs in found])
    blocks = np.concatenate([pairs.blocks for pairs in found])
    quiet = np.concatenate([np.repeat(~pairs.taken, pairs.slices.autoregressive_steps) for pairs in found])
    usual = np.zeros(int(blocks.max(initial=-1)) + 1)
    for block in np.unique(blocks):
        here = blocks == block
        chosen = here & quiet if (here & quiet).any() else here
        usual[block] = np.median(seconds[chosen])
    return usual


def to_decode_again(rows: Sequence[Row]) -> set[str]:
    """Ids of the questions of which less than ENOUGH was undisturbed each time they were decoded."""
    kept: dict[str, list[np.ndarray]] = {}
    for row, timings in zip(rows, pairs_of(rows), strict=True):
        for number, (_, undisturbed) in enumerate(timings):
            tries = kept.setdefault(row.question_id, [])
            tries += [np.zeros(0, bool)] * (number + 1 - len(tries))
            tries[number] = np.concatenate([tries[number], undisturbed])
    return {question for question, tries in kept.items() if all(len(one) and one.mean() < ENOUGH for one in tries)}
