from collections import Counter
from heapq import heappop, heappush

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from suffix_texts import DOCUMENTS, TEXTS, ends_of, longest_known, suffix_file

from baselines.tokens.sam_decoding import SamDecoding

VOCABULARY = 4
Nodes = list[tuple[int, int]]
"""Token and parent of each node."""


def chain_behind(text: list[int], match: list[int], root: int, most: int) -> Nodes:
    start = ends_of(text, match)[0]
    return [(token, i - 1) for i, token in enumerate([root, *text[start : start + most]])]


def best_tree(corpus: list[int], match: list[int], root: int, most: int, branches: int) -> Nodes:
    """Best first by how often the corpus goes on so; of equals what was reached first, and first in the corpus."""
    nodes, depths, number = Nodes(), Counter[int](), 0
    heap = [(0, number, [root], -1)]
    while heap and len(nodes) <= most:
        _, _, path, parent = heappop(heap)
        if depths[len(path)] == branches:
            continue
        depths[len(path)] += 1
        nodes.append((path[-1], parent))
        behind = [corpus[end] for end in ends_of(corpus, [*match, *path[1:]]) if end < len(corpus)]
        for token, times in Counter(token for token in behind if token != VOCABULARY).most_common(branches):
            number += 1
            heappush(heap, (-times, number, [*path, token], len(nodes) - 1))
    return nodes


@given(DOCUMENTS, TEXTS, st.integers(0, 20), st.integers(0, 3), st.integers(1, 4), st.sampled_from([0.5, 1, 4]))
def test_the_drafts_are_those_of_plain_searches(
    documents: list[list[int]], text: list[int], budget: int, bias: int, branches: int, factor: float
) -> None:
    """At every length of the text; the corpus is one text with separators."""
    file = suffix_file(documents, VOCABULARY)
    drafter = SamDecoding(file, budget=budget, length_factor=factor, length_bias=bias, branches=branches)
    corpus = file.tokens.tolist()
    for n in range(1, len(text) + 1):
        context = text[:n]
        near, far = longest_known(context[:-1], context), longest_known(corpus, context)
        nodes = min(budget, int(factor * max(len(near), len(far) - bias)))
        expected = (
            chain_behind(context[:-1], near, context[-1], nodes)
            if len(near) >= len(far) - bias
            else best_tree(corpus, far, context[-1], nodes, branches)
        )
        tree = drafter.draft(np.array(context))
        assert list(zip(tree.tokens.tolist(), tree.parents.tolist(), strict=True)) == expected
