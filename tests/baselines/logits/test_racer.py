from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny import paths_of

from aded.core.drafter import Step
from aded.core.tree import DraftTree
from aded.errors import BadInput
from baselines.logits.racer import Racer

VOCABULARY = 10
Path = tuple[int, ...]


class PlainRacer:
    """RACER with dictionaries. A node of trie and draft tree is the path to it."""

    def __init__(self, budget: int, ngram: int, max_nodes: int, breadth: int) -> None:
        self.budget, self.ngram, self.max_nodes, self.breadth = budget, ngram, max_nodes, breadth
        self.count: dict[Path, int] = {}
        self.children: dict[Path, list[Path]] = {(): []}
        self.used: list[Path] = []  # longest ago first
        self.candidates: dict[int, list[int]] = {}

    def touch(self, node: Path) -> None:
        for n in range(len(node), 0, -1):
            if node[:n] in self.used:
                self.used.remove(node[:n])
            self.used.append(node[:n])

    def insert(self, ngram: Path) -> None:
        for n in range(1, len(ngram) + 1):
            node = ngram[:n]
            if node not in self.count:
                self.touch(node[:-1])
                if len(self.count) == self.max_nodes - 1:  # all but the root
                    oldest = self.used.pop(0)
                    assert self.children.pop(oldest) == []
                    self.children[oldest[:-1]].remove(oldest)
                    del self.count[oldest]
                self.count[node], self.children[node] = 0, []
                self.children[node[:-1]].insert(0, node)
                self.used.append(node)
            self.count[node] += 1
        self.touch(ngram)

    def draft(self, context: list[int]) -> list[Path]:
        found: list[Path] = [()]
        reached: list[tuple[int, int, Path, Path]] = []  # (-count, number, node, path in the draft tree)
        for span in range(min(self.ngram, len(context)), 1, -1):
            node = tuple(context[-span:])
            if node in self.count:
                self.touch(node)
                reached.append((-self.count[node], len(reached), node, ()))
        number = len(reached)
        for _ in range(self.budget + 1):
            if reached:
                reached.remove(best := min(reached))
                _, _, node, path = best
                if path not in found:
                    found.append(path)
                for child in self.children[node]:
                    reached.append((-self.count[child], number, child, (*path, child[-1])))
                    number += 1
        level: list[tuple[Path, int]] = [((), self.breadth)]
        depth = 0
        while level and len(found) <= self.budget:
            below = []
            for path, width in level:
                half = width if depth == 1 else width // 2
                for rank, token in enumerate(self.candidates.get((context[-1:] + list(path))[-1], [])[:width]):
                    if len(found) <= self.budget:
                        if (*path, token) not in found:
                            found.append((*path, token))
                        below.append(((*path, token), max(1, half >> rank)))
            level, depth = below, depth + 1
        return found[1:]


@given(
    st.integers(0, 2**32 - 1),
    st.integers(2, VOCABULARY),
    st.integers(0, 40),
    st.integers(2, 5),
    st.integers(1, 60),
    st.sampled_from([1, 3, 8]),
)
def test_drafts_equal_the_plain_algorithm(
    seed: int, tokens: int, budget: int, ngram: int, more: int, breadth: int
) -> None:
    """Over two prompts, with texts of few tokens, and with tries that are soon full."""
    rng = np.random.default_rng(seed)
    drafter = Racer(budget=budget, ngram=ngram, max_nodes=ngram + more, breadth=breadth)
    plain = PlainRacer(budget, ngram, ngram + more, breadth)
    # Hidden states of the prompt that are its logits.
    drafter.setup(SimpleNamespace(output_projection=torch.nn.Identity()))

    def logits_of(rows: int) -> np.ndarray:
        return rng.permuted(np.tile(np.arange(VOCABULARY, dtype=np.float32), (rows, 1)), axis=1)

    for _ in range(2):
        text = rng.integers(tokens, size=rng.integers(1, 12)).tolist()
        drafter.begin(np.array(text))
        tree, path, read = DraftTree.root(text[-1]), [0], 0
        of_prompt: np.ndarray | None = logits_of(len(text))
        for _ in range(6):
            logits = logits_of(len(tree))
            hidden = None if of_prompt is None else torch.from_numpy(of_prompt)
            step = Step(tree, path, int(rng.integers(tokens)), torch.from_numpy(logits), prompt_hidden=hidden)
            drafter.observe(step)
            for token, row in zip(text, () if of_prompt is None else of_prompt, strict=False):
                plain.candidates[token] = np.argsort(-row)[:breadth].tolist()
            of_prompt = None
            for node in np.argsort(tree.depths, kind="stable"):
                best = np.argsort(-logits[node])[:breadth].tolist()
                plain.candidates[int(tree.tokens[node])] = best
            text += step.new_tokens
            for end in range(max(read, ngram - 1) + 1, len(text)):
                plain.insert(tuple(text[end - ngram : end]))
            read = len(text) - 1
            tree = drafter.draft(np.array(text))
            assert paths_of(tree) == plain.draft(text)
            path = [0]
            while len(below := np.flatnonzero(tree.parents == path[-1])) and rng.random() < 0.7:
                path.append(int(rng.choice(below)))


def test_a_trie_must_hold_an_ngram() -> None:
    with pytest.raises(BadInput, match=r"^method.max_nodes: 10 must be more than method.ngram, 10"):
        Racer(max_nodes=10)
