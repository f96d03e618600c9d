from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from typing import Any, Literal
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from suffix_texts import suffix_file
from tiny import paths_of

from aded.core.drafter import Step
from aded.core.tree import DraftTree
from aded.errors import BadInput
from baselines.engines.sglang_ngram import SglangNgram

Path = tuple[int, ...]


class Likely:
    def __init__(self, probability: float, node: Path, above: Path) -> None:
        self.probability, self.node, self.above = probability, node, above

    def __lt__(self, other: Likely) -> bool:
        return self.probability > other.probability


class PlainNgram:
    """The engine's trie with dictionaries and lists. A node of trie and draft tree is the path to it."""

    def __init__(self, budget: int, depth: int, least: int, most: int, capacity: int) -> None:
        self.budget, self.depth, self.least, self.most, self.capacity = budget, depth, least, most, capacity
        self.count: dict[Path, int] = {}
        self.children: dict[Path, list[Path]] = {(): []}  # the latest first
        self.used: list[Path] = []  # the latest first

    def insert(self, text: list[int]) -> None:
        tail = tuple(text[-self.depth :])
        for start in range(len(tail)):
            end = tail[start:]
            while len(self.count) + len(end) > self.capacity - 1:  # the root is one
                oldest = self.used.pop()
                assert self.children.pop(oldest) == []
                self.children[oldest[:-1]].remove(oldest)
                del self.count[oldest]
            nodes = [end[:n] for n in range(1, len(end) + 1)]
            for node in nodes:
                self.count[node] = self.count.get(node, 0) + 1
                self.children.setdefault(node, [])
                siblings = self.children[node[:-1]]
                self.children[node[:-1]] = [node, *(other for other in siblings if other != node)]
            self.used = nodes + [node for node in self.used if node not in nodes]

    def matches(self, context: list[int]) -> list[Path]:
        ends = [tuple(context[-n:]) for n in range(min(self.depth, len(context)), 0, -1)]
        return [end for end in ends if self.children.get(end)]

    def latest(self, context: list[int]) -> list[Path]:
        found: list[Path] = []
        slope = (self.most - self.least) / (self.depth - 1)
        for match in self.matches(context):
            breadth = (self.depth - 1 - len(match)) * slope + self.least
            queue = deque[tuple[Path, Path, float]]([((), match, breadth)])
            while queue:
                path, node, breadth = queue.popleft()
                for child in self.children[node][: max(1, int(breadth))]:
                    below: Path = (*path, child[-1])
                    if below not in found:
                        if len(found) == self.budget:
                            return found
                        found.append(below)
                    queue.append((below, child, breadth - slope))
        return found

    def frequent(self, context: list[int]) -> list[Path]:
        found: list[Path] = []
        heap: list[Likely] = []

        def push(node: Path, probability: float, path: Path) -> None:
            best = sorted(self.children[node], key=lambda child: (-self.count[child], child[-1]))[: self.most]
            total = sum(self.count[child] for child in best)
            for child in best:
                heappush(heap, Likely(self.count[child] / total * probability, child, path))

        for match in self.matches(context):
            push(match, 1.0, ())
            while heap and len(found) < self.budget:
                best = heappop(heap)
                path = (*best.above, best.node[-1])
                if path not in found:
                    found.append(path)
                push(best.node, best.probability, path)
        return found


class PlainCorpus(PlainNgram):
    def __init__(self, documents: list[list[int]], budget: int, depth: int, least: int, most: int) -> None:
        super().__init__(budget, depth, least, most, capacity=0)
        latest, at = dict[Path, int](), 0
        for text in documents:
            for end in range(1, len(text) + 1):
                at += 1
                for start in range(end):
                    part = tuple(text[start:end])
                    self.count[part], latest[part] = self.count.get(part, 0) + 1, at
        for part in self.count:
            below = [other for other in self.count if other[:-1] == part]
            self.children[part] = sorted(below, key=lambda other: -latest[other])

    def matches(self, context: list[int]) -> list[Path]:
        """Matches with the same places are one state."""
        found: list[Path] = []
        for end in (tuple(context[-n:]) for n in range(min(self.depth, len(context)), 0, -1)):
            if end in self.count and not (found and self.count[found[-1]] == self.count[end]):
                found.append(end)
        return found


def answer(drafter: SglangNgram, prompt: list[int], steps: list[list[int]]) -> list[tuple[list[int], list[Path]]]:
    """(context, drafted paths) of each step. steps: the tokens that each decides, prefill first."""
    drafter.begin(np.array(prompt))
    text, found = list(prompt), []
    for new in steps:
        drafter.observe(Step(DraftTree.chain(text[-1], new[:-1]), list(range(len(new))), new[-1]))
        text += new
        found.append((list(text), paths_of(drafter.draft(np.array(text)))))
    drafter.end()
    return found


TOKENS = st.integers(0, 3)
PROMPTS = st.lists(TOKENS, min_size=1, max_size=12)
DOCUMENTS = st.lists(PROMPTS, min_size=1, max_size=4)
Answers = list[tuple[list[int], list[list[int]]]]
STEPS = st.lists(st.lists(TOKENS, min_size=1, max_size=4), min_size=1)
ANSWERS = st.lists(st.tuples(PROMPTS, STEPS), min_size=1, max_size=3)
MatchType = Literal["BFS", "PROB"]
both = pytest.mark.parametrize("match_type", ["BFS", "PROB"])


def settings_of(match_type: MatchType, depth: int, least: int, most: int) -> dict[str, Any]:
    widths = {"min_bfs_breadth": least, "max_bfs_breadth": most}
    return {"match_type": match_type, "max_trie_depth": depth, **widths}


@both
@given(ANSWERS, st.integers(0, 20), st.integers(2, 6), st.integers(1, 3), st.integers(0, 3), st.integers(1, 80))
def test_drafts_equal_the_plain_algorithm(
    match_type: MatchType, answers: Answers, budget: int, depth: int, least: int, wider: int, room: int
) -> None:
    most, capacity = least + wider, depth + room
    with patch("baselines.engines.sglang_ngram.SMALLEST", 4):
        drafter = SglangNgram(budget=budget, capacity=capacity, **settings_of(match_type, depth, least, most))
        plain = PlainNgram(budget, depth, least, most, capacity)
        for prompt, steps in answers:
            for context, drafted in answer(drafter, prompt, steps):
                assert drafted == (plain.latest(context) if match_type == "BFS" else plain.frequent(context))
                plain.insert(context)


@both
@given(DOCUMENTS, ANSWERS, st.integers(0, 12), st.integers(1, 12), st.integers(2, 6), st.integers(1, 3))
def test_a_corpus_has_its_share_of_the_budget(
    match_type: MatchType, texts: list[list[int]], answers: Answers, trie: int, corpus: int, depth: int, least: int
) -> None:
    most, file = least + 2, suffix_file(texts, vocabulary=4)
    settings = settings_of(match_type, depth, least, most)
    settings |= {"external_corpus_path": "x", "external_sam_budget": corpus}
    with patch("baselines.engines.sglang_ngram.open_suffixes", lambda path: file):
        drafter = SglangNgram(budget=trie + corpus, **settings)
    plain = PlainNgram(trie, depth, least, most, 10**6), PlainCorpus(texts, corpus, depth, least, most)
    for prompt, steps in answers:
        for context, drafted in answer(drafter, prompt, steps):
            found = [one.latest(context) if match_type == "BFS" else one.frequent(context) for one in plain]
            assert set(drafted) == {path for paths in found for path in paths}
            plain[0].insert(context)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"min_bfs_breadth": 11}, "min_bfs_breadth: 11 must not be more than method.max_bfs_breadth, 10"),
        ({"capacity": 18}, "capacity: 18 must be more than method.max_trie_depth, 18"),
        ({"external_sam_budget": 4}, "external_sam_budget: and method.external_corpus_path must both"),
        ({"external_sam_budget": 4, "external_corpus_path": "zzz"}, "external_corpus_path: .*zzz"),
    ],
)
def test_settings_that_contradict_are_refused(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(BadInput, match=rf"^method\.{problem}"):
        SglangNgram(**settings)
