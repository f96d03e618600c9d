from collections.abc import Callable
from itertools import pairwise
from math import ceil
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny import paths_of

from aded.core.drafter import Step
from aded.core.target import Target
from aded.core.tree import DraftTree
from baselines.logits.goose import Goose, Match, look_up

VOCABULARY = 14
Path = tuple[int, ...]
Candidates = Callable[[Path], list[tuple[int, float]]]
"""(token, probability) of what may follow the end of a text, best first."""


def look_up_plainly(text: list[int], decided: int, shortest: int, longest: int, ahead: int) -> tuple[list[int], bool]:
    """Where the n-gram at the end stood before, with a decided token behind it: the longest first."""
    for n in range(longest, shortest - 1, -1):
        ends = [end for end in range(n, decided) if n <= len(text) and text[end - n : end] == text[-n:]]
        if ends:
            agreed = len(ends) > 1 and len({text[end] for end in ends}) == 1
            return text[ends[0] : decided][:ahead], agreed
    return [], False


@given(
    st.lists(st.integers(0, 2), min_size=1, max_size=40), st.lists(st.integers(0, 2), max_size=9), st.integers(1, 3)
)
def test_the_match_is_the_first_one_of_the_longest_known_ngram(
    decided: list[int], drafted: list[int], shortest: int
) -> None:
    text = [*decided, *drafted]
    chain, agreed = look_up(np.array(text), len(decided), shortest, 4, 6)
    assert (chain.tolist(), agreed) == look_up_plainly(text, len(decided), shortest, 4, 6)


def test_a_match_is_trusted_by_its_length_and_in_full_where_all_agree() -> None:
    for length, trust in {0: 0.0, 4: 0.3, 8: 0.7, 14: 0.8, 20: 0.9}.items():
        assert Match(np.zeros(length, np.int64), False).trust == pytest.approx(trust)
    assert Match(np.zeros(2, np.int64), True).trust == 1


def tree_plainly(text: list[int], chain: list[int], trust: float, rate: float, candidates: Candidates) -> set[Path]:
    """Algorithm 1 with the published settings, on paths instead of numbered nodes."""
    size = 60 + int(trust * 40)
    share = 0.15 if rate < 0.2 else 0.3 if rate < 0.4 else 0.5
    spine = tuple(chain[: int(size * (share + trust * (1 - share)))])
    paths = [spine[:n] for n in range(1, len(spine) + 1)]
    queue: list[tuple[Path, float]] = []

    def attach(path: Path, most: int) -> None:
        likely = [(token, p) for token, p in candidates((*text, *path)) if p >= 0.01 and (*path, token) not in paths]
        for token, p in likely[:most]:
            paths.append((*path, token))
            if len(path) + 1 < 6:
                queue.append((paths[-1], p))

    branches = max(0, size - 1 - len(spine))
    beside = max(1, branches // 2) if spine and branches else 0
    attach((), branches - beside)
    whole, left = sum(1 / n for n in range(1, len(spine) + 1)), beside
    for n in range(1, len(spine) + 1):
        most = min(left, max(1, int(beside / n / whole)))
        attach(spine[:n], most)
        left -= most
    while queue and len(paths) + 1 < size:
        path, p = queue.pop(0)
        left = size - len(paths) - 1
        attach(path, min(left, max(1, min(ceil(left * p), 10 // len(path)))))
    return set(paths)


@given(st.integers(0, 2**32 - 1), st.integers(3, 60), st.sampled_from([8, 14]))
def test_drafts_are_those_of_the_plain_method(seed: int, length: int, vocabulary: int) -> None:
    """Also where the vocabulary has fewer tokens than are kept."""
    rng = np.random.default_rng(seed)
    text = np.resize(rng.integers(vocabulary, size=rng.integers(2, 12)), length).tolist()
    weights = torch.from_numpy(rng.normal(size=(vocabulary, vocabulary)).astype(np.float32)) * 2
    drafter, pairs, rate = Goose(), dict[Path, torch.Tensor](), 0.5
    drafter.setup(cast(Target, SimpleNamespace(output_projection=lambda hidden: weights[hidden[:, 0].long()])))
    drafter.begin(np.array(text))
    tree, path = DraftTree.root(text[-1]), [0]
    prompt = torch.tensor(text)[:, None].float()
    singles = {token: weights[token] for token in text}
    pairs.update({pair: weights[pair[1]] for pair in pairwise(text)})

    def candidates(end: Path) -> list[tuple[int, float]]:
        logits = pairs[end[-2:]] if end[-2:] in pairs else singles.get(end[-1])
        if logits is None:
            return []
        best = logits.topk(min(10, vocabulary))
        return list(zip(best.indices.tolist(), best.values.double().softmax(0).tolist(), strict=True))

    for number in range(4):
        logits = torch.from_numpy(rng.normal(size=(len(tree), vocabulary)).astype(np.float32)) * 2
        before = text[-2:-1]
        for node, token in enumerate(tree.tokens.tolist()):
            above = before if node == 0 else [int(tree.tokens[tree.parents[node]])]
            singles[token] = logits[node]
            pairs.update({(one, token): logits[node] for one in above})
        step = Step(tree, path, int(rng.integers(vocabulary)), logits, prompt_hidden=None if number else prompt)
        drafter.observe(step)
        text += step.new_tokens
        chain, agreed = look_up_plainly(text, len(text), 3, 5, 20)
        trust = Match(np.array(chain), agreed).trust
        tree = drafter.draft(np.array(text))
        if text[-1] in singles:
            while trust > 0.6 and len(chain) < int(100 * trust):
                more, also = look_up_plainly([*text, *chain], len(text), 3, 5, 20)
                chain += more
                if not more or (trust == 1 and not also):
                    break
            wanted = tree_plainly(text, chain, trust, rate, candidates)
        else:
            wanted = {tuple(chain[:n]) for n in range(1, len(chain) + 1)}
        assert set(paths_of(tree)) == wanted
        path = [0]
        while (below := np.flatnonzero(tree.parents == path[-1])).size and rng.random() < 0.7:
            path.append(int(rng.choice(below[:2])))
        if drafter.spine:
            accepted = tree.tokens[path[1:]].tolist()
            same = sum(
                accepted[:n] == drafter.spine[:n] for n in range(1, min(len(path) - 1, len(drafter.spine)) + 1)
            )
            rate = 0.3 * same / len(drafter.spine) + 0.7 * rate


@pytest.mark.parametrize("budget", [0, 1, 2, 10, 63, 100])
@pytest.mark.parametrize("untrusted", [0.0, 0.6, 1.0])
def test_the_budget_is_kept_and_a_trusted_match_takes_all_of_it(budget: int, untrusted: float) -> None:
    drafter = Goose(budget=budget, untrusted=untrusted)
    context = np.tile(np.arange(12), 40)
    drafter.begin(context[:-1])
    drafter.observe(Step(DraftTree.root(int(context[-2])), [0], int(context[-1]), torch.randn(1, VOCABULARY)))
    known = context[: min(20, budget)].tolist()
    assert drafter.draft(context).tokens[1:].tolist() == known, "nothing but the text"
    drafter.observe(Step(DraftTree.root(int(context[-1])), [0], 0, torch.randn(1, VOCABULARY)))
    drafter.observe(Step(DraftTree.root(0), [0], 11, torch.randn(1, VOCABULARY)))
    assert drafter.draft(context).tokens[1:].tolist() == np.resize(context, budget).tolist()
