from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from aded.core.target import Step
from aded.testing import (
    drafts_are_the_same_each_time,
    memory_is_bounded,
    no_token_is_made_up,
    nothing_outlives_its_scope,
)
from baselines.engines.llama_cpp_ngram import (
    SLOTS,
    LlamaCppNgram,
    NgramKind,
    NgramMapK,
    NgramMapK4v,
    NgramMod,
    NgramSimple,
)

TEXT = st.lists(st.integers(0, 2), min_size=1, max_size=60)
SIZES = st.integers(1, 4)
KINDS: list[Callable[[], NgramKind]] = [
    partial(NgramMod, n_match=2, n_min=0),
    *(partial(kind, size_n=2, size_m=6) for kind in (NgramSimple, NgramMapK, NgramMapK4v)),
]
Drafts = Iterator[tuple[list[int], list[int]]]


def answered(drafter: LlamaCppNgram, prompt: list[int], answer: list[int]) -> Drafts:
    text = [*prompt, *answer]
    drafter.begin(np.array(prompt))
    known = len(prompt) + 1
    while known < len(text):
        tree = drafter.draft(np.array(text[:known]))
        drafted = tree.tokens[1:].tolist()
        yield text[:known], drafted
        accepted = agreeing(drafted, text[known:])
        known += accepted + 1
        drafter.observe(Step(tree, list(range(accepted + 1)), [*text, 0][known - 1]))
    drafter.end()


def agreeing(drafted: list[int], came: list[int]) -> int:
    return next((n for n in range(len(drafted)) if came[n : n + 1] != drafted[n : n + 1]), len(drafted))


def ngram(text: list[int], start: int, n: int) -> tuple[int, ...]:
    return tuple(text[start : start + n])


class PlainMod:
    def __init__(self, n: int, fewest: int, most: int) -> None:
        self.n, self.fewest, self.most = n, fewest, most
        self.following: dict[tuple[int, ...], int] = {}
        self.learned = self.last = self.low = 0

    def learn(self, text: list[int]) -> None:
        for start in range(self.learned, len(text) - self.n):
            self.following[ngram(text, start, self.n)] = text[start + self.n]
        self.learned = len(text) - self.n

    def begin(self, prompt: list[int]) -> None:
        self.learned = 0
        if len(prompt) >= self.n:
            self.learn(prompt)

    def accept(self, accepted: int) -> None:
        if self.last:
            self.low = self.low + 1 if accepted / self.last < 0.25 else 0
            if self.low == 5:
                self.following, self.learned, self.low = {}, 0, 0

    def draft(self, context: list[int]) -> list[int]:
        self.last = 0
        if len(context) <= self.n:
            return []
        if len(context) - 1 > self.learned + 32:
            self.learn(context[:-1])
        walk = list(context)
        while len(walk) < len(context) + self.most and tuple(walk[-self.n :]) in self.following:
            walk.append(self.following[tuple(walk[-self.n :])])
        drafted = walk[len(context) :]
        if len(drafted) < self.most and len(drafted) < self.fewest:
            return []
        self.last = len(drafted)
        return drafted


@given(st.lists(st.tuples(TEXT, TEXT), max_size=4), SIZES, st.integers(0, 5), st.integers(1, 8))
def test_mod_is_a_dictionary(session: list[tuple[list[int], list[int]]], n: int, fewest: int, most: int) -> None:
    drafter, plain = LlamaCppNgram(NgramMod(n_match=n, n_min=fewest, n_max=most)), PlainMod(n, fewest, most)
    for prompt, answer in session:
        plain.begin(prompt)
        for context, drafted in answered(drafter, prompt, answer):
            assert drafted == plain.draft(context)
            plain.accept(agreeing(drafted, [*prompt, *answer][len(context) :]))


def test_a_prompt_that_fills_a_quarter_of_the_table_empties_it() -> None:
    drafter = LlamaCppNgram(NgramMod(n_match=1, n_min=0, n_max=4))
    for tokens, length in ((SLOTS // 4, 4), (SLOTS // 4 + 2, 0)):
        drafter.reset()
        text = np.arange(tokens)
        drafter.begin(text)
        assert drafter.draft(np.append(text, 0)).drafted == length


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_cut_off_a_draft_was_not_rejected(kind: Callable[[], NgramKind]) -> None:
    drafter, text = LlamaCppNgram(kind()), np.array([*range(30)] * 9)
    drafter.begin(text[:60])
    drafted = []
    for known in range(61, 200, 2):
        tree = drafter.draft(text[:known])
        drafted.append(tree.drafted)
        drafter.observe(Step(tree.up_to_depth(1), [0, 1], int(text[known + 1])))
    assert set(drafted) == {max(drafted)} != {0}


def plain_simple(context: list[int], n: int, m: int) -> list[int]:
    text = context[:-1]
    if len(text) <= n + m + 1:
        return []
    for start in range(len(text) - n - 1, 0, -1):
        if text[start : start + n] == context[-n:]:
            drafted = text[start + n :][:m]
            return drafted if len(drafted) >= n else []
    return []


@given(TEXT, TEXT, SIZES, st.integers(1, 6), st.integers(0, 6))
def test_simple_drafts_what_followed_last(prompt: list[int], answer: list[int], n: int, m: int, budget: int) -> None:
    for context, drafted in answered(LlamaCppNgram(NgramSimple(size_n=n, size_m=m), budget=budget), prompt, answer):
        assert drafted == plain_simple(context, n, m)[:budget]


class PlainMap:
    """The map of one prompt, with a dictionary: each n-gram has the place where it was found first."""

    def __init__(self, n: int, m: int, prompt: list[int]) -> None:
        self.n, self.m, self.prompt = n, m, len(prompt)
        self.known: dict[tuple[int, ...], int] = {}
        self.added = 0

    def match(self, context: list[int]) -> int:
        """New places are those with an m-gram behind; the last ones of the prompt never are among them."""
        if len(context) - 1 < 2 * self.n + self.m:
            return 0
        newest = len(context) - self.n - self.m - 2
        key = tuple(context[-self.n :])
        old = self.prompt - self.n - self.m - 1
        new = [*range(old, self.added, -1), *range(newest, max(self.added, self.prompt), -1)]
        found = self.known.get(key, 0)
        if not 0 < found < newest:
            found = next((place for place in new if ngram(context, place, self.n) == key), 0)
        for place in new:
            self.known.setdefault(ngram(context, place, self.n), place)
        self.added = max(self.added, newest)
        return found


@given(TEXT, TEXT, SIZES, st.integers(1, 6))
def test_map_k_drafts_as_much_as_was_accepted_last_time(prompt: list[int], answer: list[int], n: int, m: int) -> None:
    plain, lengths = PlainMap(n, m, prompt), dict[tuple[int, ...], int]()
    last: tuple[list[int], list[int]] = [], []
    for context, drafted in answered(LlamaCppNgram(NgramMapK(size_n=n, size_m=m)), prompt, answer):
        if last[1]:
            lengths[tuple(last[0][-n:])] = agreeing(last[1], context[len(last[0]) :])
        found = plain.match(context)
        length = lengths.get(tuple(context[-n:]), m) if found else 0
        assert drafted == context[found + n :][:length]
        last = context, drafted


class PlainK4v(PlainMap):
    def __init__(self, n: int, m: int, min_hits: int, prompt: list[int]) -> None:
        super().__init__(n, m, prompt)
        self.min_hits = min_hits
        self.keys: dict[tuple[int, ...], dict[str, Any]] = {}
        self.lengths: dict[tuple[tuple[int, ...], ...], int] = {}

    def draft(self, context: list[int]) -> list[int]:
        found, key = self.match(context), tuple(context[-self.n :])
        if not found:
            return []
        one = self.keys.setdefault(key, {"hits": 0, "counted": 0, "times": {}})
        one["hits"] += 1
        if one["hits"] < self.min_hits:
            return []
        for place in range(one["counted"], found + 1):
            behind = ngram(context, place + self.n, self.m)
            if ngram(context, place, self.n) == key and (behind in one["times"] or len(one["times"]) < 4):
                one["times"][behind] = one["times"].get(behind, 0) + 1
        one["counted"] = found
        best = max(one["times"], key=one["times"].get)
        if one["times"][best] < 2 * (sum(one["times"].values()) - one["times"][best]):
            return []
        self.drafted = key, best
        return context[found + self.n :][: self.lengths.get(self.drafted, self.m)]


@given(TEXT, TEXT, SIZES, st.integers(1, 6), st.integers(1, 3))
@example([9, *[0, 8] * 7, 0, 1, 0, 2, 0, 3, 0, 4, 9, 9, 9], [0, 8, 0, 8], 1, 1, 1)  # more m-grams than it counts
def test_map_k4v_drafts_what_mostly_came(prompt: list[int], answer: list[int], n: int, m: int, min_hits: int) -> None:
    plain, last = PlainK4v(n, m, min_hits, prompt), ([], [])  # type: tuple[PlainK4v, tuple[list[int], list[int]]]
    drafter = LlamaCppNgram(NgramMapK4v(size_n=n, size_m=m, min_hits=min_hits))
    for context, drafted in answered(drafter, prompt, answer):
        if last[1]:
            plain.lengths[plain.drafted] = agreeing(last[1], context[len(last[0]) :])
        assert drafted == plain.draft(context)
        last = context, drafted


@pytest.mark.parametrize("kind", KINDS[1:])
def test_each_way_keeps_the_contract(kind: Callable[[], NgramKind]) -> None:
    """The conformance tests try ngram-mod, whose table alone outlasts a prompt."""
    assert LlamaCppNgram(kind()).adaptation == "prompt"
    for check in (drafts_are_the_same_each_time, nothing_outlives_its_scope, no_token_is_made_up, memory_is_bounded):
        check(lambda: LlamaCppNgram(kind()))
