"""What the machine did to the times of a run: which slices it disturbed, and what taking turns costs.

The rule reads the machine and the baseline, never the method's result. Method and baseline take turns in slices
(aded.core.decode.take_turns). A pair of slices is disturbed where

* other programs took more than MOST_TAKEN of the processors' time in one of its slices, or other virtual machines did
  (steal); or
* its steps of autoregressive decoding took more than SLOW times what such steps take in this run: the median of the
  steps at the same context length, in blocks of BLOCK tokens, among the slices that nobody else took time from.

Disturbed slices leave in pairs, so that both arms keep the same parts of the answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
MOST_WARM_UP = 0.03
"""Largest share of a slice; above it slices grow."""
FEWEST_STEPS = 4
"""Slices with fewer steps are not looked at."""


@dataclass(frozen=True)
class SlicePairs:
    """What both arms did in the pairs of slices of one timing of a row. n: pairs."""

    timing: Timing
    tokens: np.ndarray
    """float [n]: new tokens of the method."""
    seconds: np.ndarray
    """float [n]: in which it decoded them."""
    autoregressive_tokens: np.ndarray
    """float [n]"""
    autoregressive_seconds: np.ndarray
    """float [n]"""
    undisturbed: np.ndarray
    """bool [n]"""


PairsByRow = Sequence[Sequence[SlicePairs]]
"""For each row of a run, its pairs of slices, timing by timing. A row of an unpaired run has none."""


def pairs_of(rows: Sequence[Row]) -> PairsByRow:
    """Of all rows of a run: which slices are disturbed depends on the others."""
    usual = _usual_steps(rows)
    return [
        [_pairs(row, timing, timing.slices, usual) for timing in row.timings if timing.slices is not None]
        for row in rows
    ]


def _pairs(row: Row, timing: Timing, slices: Slices, usual: np.ndarray) -> SlicePairs:
    steps = autoregressive_step_seconds(timing)
    seconds = sums(steps, slices.autoregressive_steps)
    expected = sums(usual[_blocks(row, len(steps))], slices.autoregressive_steps)
    return SlicePairs(
        timing=timing,
        tokens=sums(np.array(row.accept_lengths, float), slices.steps),
        seconds=sums(method_step_seconds(timing), slices.steps),
        autoregressive_tokens=np.array(slices.autoregressive_steps, float),
        autoregressive_seconds=seconds,
        undisturbed=~(taken(slices) | (seconds > SLOW * expected)),
    )


def _usual_steps(rows: Sequence[Row]) -> np.ndarray:
    """float [blocks]: the median step of autoregressive decoding at each context length; of slices that nobody took
    time from where there are any."""
    steps_of: list[np.ndarray] = [np.zeros(0)]
    blocks_of: list[np.ndarray] = [np.zeros(0, np.int64)]
    quiet_of: list[np.ndarray] = [np.zeros(0, bool)]
    for row in rows:
        for timing in row.timings:
            if timing.slices is not None:
                steps_of.append(autoregressive_step_seconds(timing))
                blocks_of.append(_blocks(row, len(steps_of[-1])))
                quiet_of.append(np.repeat(~taken(timing.slices), timing.slices.autoregressive_steps))
    seconds, blocks, quiet = (np.concatenate(one) for one in (steps_of, blocks_of, quiet_of))
    usual = np.zeros(int(blocks.max(initial=-1)) + 1)
    for block in np.unique(blocks):
        here = blocks == block
        usual[block] = np.median(seconds[here & quiet if (here & quiet).any() else here])
    return usual


def _blocks(row: Row, steps: int) -> np.ndarray:
    """int64 [steps]: block of the context length at each step of autoregressive decoding."""
    return (row.prompt_tokens + 1 + np.arange(steps)) // BLOCK


def undisturbed(pairs: PairsByRow) -> np.ndarray:
    """bool [n]: of all pairs of the rows, in order."""
    return np.concatenate([np.zeros(0, bool), *(one.undisturbed for timings in pairs for one in timings)])


def taken(slices: Slices) -> np.ndarray:
    """bool [n]: did other programs or virtual machines take more than MOST_TAKEN?"""
    return np.maximum(np.array(slices.others, float), np.array(slices.steal, float)) > MOST_TAKEN


def method_step_seconds(timing: Timing) -> np.ndarray:
    """float [steps]"""
    return step_seconds(timing.draft_ms, timing.verify_ms, timing.observe_ms)


def autoregressive_step_seconds(timing: Timing) -> np.ndarray:
    """float [steps]"""
    return step_seconds(
        timing.autoregressive_draft_ms, timing.autoregressive_verify_ms, timing.autoregressive_observe_ms
    )


def step_seconds(*parts_ms: Sequence[float] | None) -> np.ndarray:
    """float [steps]: the sum of each step's parts, given in milliseconds."""
    return np.sum([part for part in parts_ms if part is not None], axis=0, dtype=float) / 1000


def sums(values: np.ndarray, counts: Sequence[int]) -> np.ndarray:
    """float [len(counts)]: the sums of the first counts[0] values, of the next counts[1], and so on."""
    so_far = np.concatenate([[0.0], np.cumsum(values)])
    ends = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
    return so_far[ends[1:]] - so_far[ends[:-1]]


def to_decode_again(rows: Sequence[Row], pairs: PairsByRow) -> set[str]:
    """Ids of the questions of which less than ENOUGH was undisturbed each time they were decoded.

    pairs: of `pairs_of`.
    """
    kept: dict[str, list[np.ndarray]] = {}
    for row, timings in zip(rows, pairs, strict=True):
        for number, one in enumerate(timings):
            tries = kept.setdefault(row.question_id, [])
            tries += [np.zeros(0, bool)] * (number + 1 - len(tries))
            tries[number] = np.concatenate([tries[number], one.undisturbed])
    return {question for question, tries in kept.items() if all(len(one) and one.mean() < ENOUGH for one in tries)}


def slice_warm_up(rows: Sequence[Row]) -> float | None:
    """Seconds that the first step of a slice takes longer than the median of the others, as a share of the slice.

    The median over the slices of each arm, and of both arms the larger; 0 where the first step is as quick. Slices
    that others took time from and the first ones of an answer, which begin the drafter, do not count. None where no
    slice is left.
    """
    method: list[float] = []
    baseline: list[float] = []
    for timing in (timing for row in rows for timing in row.timings):
        if (slices := timing.slices) is not None:
            disturbed = taken(slices)
            method += _shares(method_step_seconds(timing), slices.steps, disturbed)
            baseline += _shares(autoregressive_step_seconds(timing), slices.autoregressive_steps, disturbed)
    return max((max(0.0, float(np.median(shares))) for shares in (method, baseline) if shares), default=None)


def _shares(seconds: np.ndarray, counts: Sequence[int], disturbed: np.ndarray) -> Iterator[float]:
    """Of each slice that counts. seconds: float [steps]; counts: steps of each slice; disturbed: bool [slices]."""
    if not counts:  # an answer without a step
        return
    parts = np.split(seconds, np.cumsum(counts)[:-1])
    for part, was_disturbed in list(zip(parts, disturbed, strict=True))[1:]:
        if len(part) >= FEWEST_STEPS and not was_disturbed:
            yield (part[0] - np.median(part[1:])) / part.sum()
