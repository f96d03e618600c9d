from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_ngrams import write_small_ngrams
from tiny import paths_of

from aded.core.drafter import Step
from aded.core.tree import DraftTree
from aded.errors import BadInput
from aded.files.datastores.ngram_file import NgramFile, open_ngrams
from baselines.tokens.cacheback import Cacheback, frequent_followers

VOCABULARY = 5
Tokens = tuple[int, ...]
TEXT = st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=40)
DOCUMENTS = [np.random.default_rng(seed).integers(VOCABULARY, size=60) for seed in range(4)]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> NgramFile:
    return open_ngrams(write_small_ngrams(tmp_path_factory.mktemp("corpus") / "x.ngrams", DOCUMENTS, VOCABULARY))


class PlainCacheback:
    """The paper's drafting with lists. A node is the path to it; lists have what was used last in front."""

    def __init__(self, drafter: Cacheback) -> None:
        self.of = drafter
        self.table: list[tuple[Tokens, list[Tokens]]] = []

    def learn(self, text: Tokens) -> None:
        """All followers of a text, from its beginning on."""
        for start in range(len(text) - self.of.leader - self.of.follower + 1):
            middle = start + self.of.leader
            leader, follower = text[start:middle], text[middle : middle + self.of.follower]
            followers = next((row for known, row in self.table if known == leader), [])
            followers = [follower, *(one for one in followers if one != follower)][: self.of.followers]
            others = [row for row in self.table if row[0] != leader]
            self.table = [(leader, followers), *others][: self.of.leaders]

    def followers(self, leader: Tokens) -> list[Tokens]:
        found = [row for row in self.table if row[0] == leader]
        self.table = found + [row for row in self.table if row[0] != leader]
        node = self.of.datastore.find(*leader)
        frozen = frequent_followers(self.of.datastore.ngrams, node, self.of.follower, self.of.frozen)
        return [*(found[0][1] if found else []), *map(tuple, frozen.tolist())]

    def draft(self, text: Tokens) -> set[Tokens]:
        drafted: set[Tokens] = set()
        level: list[Tokens] = [()]
        for most in (self.of.budget - self.of.reserved, *[self.of.budget] * self.of.budget):
            below: list[Tokens] = []
            for path in level:
                for follower in self.followers((*text, *path)[-self.of.leader :]):
                    new = {(*path, *follower[:n]) for n in range(1, self.of.follower + 1)} - drafted
                    if len(drafted) + len(new) > most:
                        if most == self.of.budget:
                            return drafted
                        break
                    drafted |= new
                    below += [(*path, *follower)] if new else []
                else:
                    continue
                break
            level = below
        return drafted


@given(
    texts=st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=2),
    leader=st.integers(1, 2),
    follower=st.integers(1, 3),
    leaders=st.integers(1, 6),
    followers=st.integers(1, 3),
    frozen=st.integers(0, 4),
    budget=st.integers(0, 24),
    reserve=st.floats(0, 1),
)
def test_drafts_are_those_of_the_plain_tables(
    corpus: NgramFile, texts: list[tuple[list[int], list[int]]], **settings: int
) -> None:
    """In a session: a table of the first text goes on with the second, and no follower spans two texts."""
    drafter = Cacheback(corpus, adaptation="session", **settings)
    plain = PlainCacheback(drafter)
    for prompt, answer in texts:
        drafter.begin(np.array(prompt))
        plain.learn(tuple(prompt))
        for n in range(len(answer)):
            context = (*prompt, *answer[: n + 1])
            drafter.observe(Step(DraftTree.root(context[-2]), [0], context[-1]))
            plain.learn(context[-drafter.leader - drafter.follower :])
            tree = drafter.draft(np.array(context))
            assert set(paths_of(tree)) == plain.draft(context)
            assert tree.drafted <= drafter.budget


@given(leader=st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=2), most=st.integers(1, 200))
def test_the_frozen_table_has_the_most_frequent_followers(corpus: NgramFile, leader: list[int], most: int) -> None:
    length, start = 3, len(leader)
    ngrams = [tuple(text[n : n + start + length].tolist()) for text in DOCUMENTS for n in range(len(text))]
    counts = Counter(one[start:] for one in ngrams if len(one) == start + length and list(one[:start]) == leader)
    found = [tuple(row) for row in frequent_followers(corpus.ngrams, corpus.find(*leader), length, most).tolist()]
    assert len(set(found)) == len(found) == min(most, len(counts))
    assert [counts[one] for one in found] == [count for _, count in counts.most_common(most)]


def test_without_a_frozen_table_shorter_ngrams_are_enough(corpus: NgramFile) -> None:
    with pytest.raises(BadInput):
        Cacheback(corpus, leader=3, follower=3)
    Cacheback(corpus, leader=3, follower=3, frozen=0)
