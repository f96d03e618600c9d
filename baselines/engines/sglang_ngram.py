"""SGLang's n-gram drafter: drafts what followed the suffixes of the text in a trie (after arXiv 2312.12728).

https://github.com/sgl-project/sglang, licence Apache-2.0, release 0.5.23: kernels/jit/csrc/ngram_corpus/trie.cpp and
srt/speculative/ngram_worker.py. The settings are the engine's, without `speculative_ngram_` before their names.

Each step inserts all suffixes of the text's last 18 tokens, so a prompt is known by its last tokens alone. Every
suffix that the trie holds is a match; what is below the longest match is drafted, then below the next longer
one. With match type BFS the latest children come first, breadth first, and the more of them the shorter the match and
the closer to it. With PROB the most probable nodes come first, by how often they were inserted.

The engine inserts the text of a step while the target verifies it, so its trie knows what the step decides one step
later. So does this one. It finds all matches anew at each step, and drafts no token 0 to fill the budget.

Beside the trie the engine may read a corpus, whose automaton (sglang_automaton.py) has a share of the budget.

The trie lies in arrays that grow with what they hold. COUNT of its root is how many nodes are in use below it, and
CHAIN the first free one, from which CHAIN leads to the others. Children are in the order of their use: AFTER is the
sibling that was used just before.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from numba import njit
from pydantic import Field

from aded.core.drafter import Drafter, Step, Teacher
from aded.core.tree import DraftTree, with_child
from aded.errors import BadInput, naming
from aded.files.datastores.array_file import opened
from aded.files.datastores.suffix_file import open_suffixes
from aded.identity import tokenizer_fingerprint
from aded.settings import Budget, Count, FilePath, LearningScope, Positive
from baselines.engines.sglang_automaton import frequent_from_corpus, latest_from_corpus, pop, push
from baselines.lru_trie import (
    AFTER,
    CHAIN,
    CHILD,
    COUNT,
    NEWER,
    OLDER,
    PARENT,
    TOKEN,
    Trie,
    child_of,
    enter_bucket,
    leave_bucket,
    node_of,
    use,
)

BEFORE = 8
"""A further column: the sibling used just after."""
SMALLEST = 1 << 12
"""Nodes for which a trie has room at first. A full one is copied to one of twice the size, up to the capacity."""


def empty_trie() -> Trie:
    return Trie(np.zeros((1, 9), np.int32), np.zeros(1, np.int32))


def with_room(trie: Trie, least: int, capacity: int) -> Trie:
    """The trie, if it has `least` free nodes or is as large as may be, or a larger copy. capacity: with the root"""
    old = trie.nodes
    used = int(old[0, COUNT]) + 1
    if len(old) >= min(capacity, used + least):
        return trie
    size = min(capacity, max(SMALLEST, 2 * len(old), used + least))
    nodes = np.zeros((size, 9), np.int32)
    nodes[: len(old)] = old
    free = np.arange(len(old), size)
    nodes[free, CHAIN] = free + 1
    nodes[-1, CHAIN] = old[0, CHAIN]
    nodes[0, CHAIN] = len(old)
    larger = Trie(nodes, np.zeros(1 << size.bit_length(), np.int32))
    fill_buckets(larger)
    return larger


@njit(cache=True)
def fill_buckets(trie: Trie) -> None:
    """Put all nodes in use into the empty buckets."""
    node = trie.nodes[0, OLDER]
    while node > 0:
        enter_bucket(trie, node)
        node = trie.nodes[node, OLDER]


@njit(cache=True)
def _add(trie: Trie, parent: int, token: int) -> int:
    """A new child, which is in no list of siblings and not in the order of use yet."""
    nodes = trie.nodes
    node = nodes[0, CHAIN]
    nodes[0, CHAIN] = nodes[node, CHAIN]
    nodes[0, COUNT] += 1
    nodes[node] = 0
    nodes[node, TOKEN], nodes[node, PARENT] = token, parent
    nodes[node, NEWER] = nodes[node, OLDER] = node
    enter_bucket(trie, node)
    return node


@njit(cache=True)
def _part_from_siblings(nodes: np.ndarray, node: int) -> None:
    before, after = nodes[node, BEFORE], nodes[node, AFTER]
    if before > 0:
        nodes[before, AFTER] = after
    else:
        nodes[nodes[node, PARENT], CHILD] = after
    if after > 0:
        nodes[after, BEFORE] = before


@njit(cache=True)
def _put_first(nodes: np.ndarray, node: int) -> None:
    """Make a node, which is in no list of siblings, its parent's latest child."""
    parent = nodes[node, PARENT]
    first = nodes[parent, CHILD]
    nodes[node, BEFORE], nodes[node, AFTER] = 0, first
    if first > 0:
        nodes[first, BEFORE] = node
    nodes[parent, CHILD] = node


@njit(cache=True)
def _evict(trie: Trie) -> None:
    """Free the node that was used longest ago. It has no children, since parents are used after them."""
    nodes = trie.nodes
    node = nodes[0, NEWER]
    older, newer = nodes[node, OLDER], nodes[node, NEWER]
    nodes[older, NEWER], nodes[newer, OLDER] = newer, older
    _part_from_siblings(nodes, node)
    leave_bucket(trie, node)
    nodes[node, CHAIN], nodes[0, CHAIN] = nodes[0, CHAIN], node
    nodes[0, COUNT] -= 1


@njit(cache=True)
def insert_suffixes(trie: Trie, text: np.ndarray, capacity: int) -> None:
    """Insert all suffixes of a text, int64 [m], the longest first. The nodes used longest ago make room for them.

    As in the engine, there is room for a suffix before it is inserted, however much of it is known.
    """
    nodes = trie.nodes
    for start in range(len(text)):
        while nodes[0, COUNT] + len(text) - start >= capacity:
            _evict(trie)
        node = 0
        for token in text[start:]:
            child = child_of(trie, node, token)
            if child > 0:
                _part_from_siblings(nodes, child)
            else:
                child = _add(trie, node, token)
            _put_first(nodes, child)
            nodes[child, COUNT] += 1
            node = child
        use(nodes, node)


@njit(cache=True)
def matches(trie: Trie, context: np.ndarray, depth: int) -> list[tuple[int, int]]:
    """(node, tokens) of all suffixes of the context that the trie holds with something below them, longest first."""
    found = [(0, 0) for _ in range(0)]
    for span in range(min(depth, len(context)), 0, -1):
        node = node_of(trie, context[len(context) - span :])
        if node > 0 and trie.nodes[node, CHILD] > 0:
            found.append((node, span))
    return found


@njit(cache=True)
def frequent_children(nodes: np.ndarray, parent: int, most: int) -> list[tuple[int, int, int]]:
    """(-insertions, token, node) of the children inserted most often, at most `most`, sorted."""
    found = [(0, 0, 0) for _ in range(0)]
    child = nodes[parent, CHILD]
    while child > 0:
        entry = (-nodes[child, COUNT], nodes[child, TOKEN], child)
        if len(found) < most or entry < found[-1]:
            found.append(entry)
            found.sort()
            del found[most:]
        child = nodes[child, AFTER]
    return found


CORPUS = "method.external_corpus_path"
Entry = tuple[float, int, int]
"""Of the heap: probability, node of the trie, its parent in the draft tree."""


@njit(cache=True)
def latest_tree(
    trie: Trie, context: np.ndarray, depth: int, breadths: tuple[int, int], budget: int
) -> tuple[np.ndarray, np.ndarray]:
    """(tokens, parents), int64 [n]: BFS. breadths: of a node at the depth - 1, least, and of the root, most."""
    tokens, parents = np.empty(budget + 1, np.int64), np.empty(budget + 1, np.int64)
    tokens[0], parents[0], n = context[-1], -1, 1
    least, most = breadths
    slope = (most - least) / (depth - 1)
    for match, span in matches(trie, context, depth):
        queue = [(0, match, (depth - 1 - span) * slope + least)]
        at = 0
        while at < len(queue) and n <= budget:
            parent, node, breadth = queue[at]
            at += 1
            child, left = trie.nodes[node, CHILD], max(1, int(breadth))
            while child > 0 and left > 0 and n <= budget:
                drafted, n = with_child(tokens, parents, n, parent, trie.nodes[child, TOKEN])
                queue.append((drafted, child, breadth - slope))
                child, left = trie.nodes[child, AFTER], left - 1
    return tokens[:n], parents[:n]


@njit(cache=True)
def _push_children(heap: list[Entry], trie: Trie, node: int, probability: float, most: int, drafted: int) -> None:
    """The most frequent children of a node share its probability by their insertions."""
    children = frequent_children(trie.nodes, node, most)
    total = 0.0
    for count, _, _ in children:
        total -= count
    for count, _, child in children:
        push(heap, (-count / total * probability, child, drafted))


@njit(cache=True)
def frequent_tree(
    trie: Trie, context: np.ndarray, depth: int, breadth: int, budget: int
) -> tuple[np.ndarray, np.ndarray]:
    """(tokens, parents), int64 [n]: PROB. The matches have probability 1, and at most `breadth` children count."""
    tokens, parents = np.empty(budget + 1, np.int64), np.empty(budget + 1, np.int64)
    tokens[0], parents[0], n = context[-1], -1, 1
    heap = [(0.0, 0, 0) for _ in range(0)]
    for match, _ in matches(trie, context, depth):
        _push_children(heap, trie, match, 1.0, breadth, 0)
        while len(heap) > 0 and n <= budget:
            probability, node, parent = pop(heap)
            drafted, n = with_child(tokens, parents, n, parent, trie.nodes[node, TOKEN])
            _push_children(heap, trie, node, probability, breadth, drafted)
    return tokens[:n], parents[:n]


@njit(cache=True)
def joined(
    tokens: np.ndarray, parents: np.ndarray, others: np.ndarray, parents_of_others: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(tokens, parents), int64 [n]: of both trees; equal paths are one."""
    n, places = len(tokens), np.zeros(len(others), np.int64)
    room = np.empty(len(others), np.int64)
    tokens, parents = np.append(tokens, room), np.append(parents, room)
    for i in range(1, len(others)):
        places[i], n = with_child(tokens, parents, n, places[parents_of_others[i]], others[i])
    return tokens[:n], parents[:n]


class SglangNgram(Drafter):
    """Drafts the latest or the most frequent continuations.

    budget: most drafted nodes per step; the engine counts the root too
    match_type: BFS, the latest, or PROB, the most frequent
    max_trie_depth: tokens of the longest path, of match and draft together
    min_bfs_breadth: least next tokens of a node
    max_bfs_breadth: most next tokens of a node
    capacity: most nodes of the trie; those that were used longest ago give way
    external_corpus_path: the suffix file of a corpus, as the engine's external corpus; None: none
    external_sam_budget: nodes of the budget that are drafted from the corpus, and from it alone
    adaptation: how long the trie is kept: prompt (cleared at each prompt) or session (kept across questions, as in
        the engine)
    """

    learned_from = frozenset()

    def __init__(
        self,
        *,
        budget: Budget = 11,
        match_type: Literal["BFS", "PROB"] = "BFS",
        max_trie_depth: Annotated[int, Field(ge=2, le=1 << 10)] = 18,
        min_bfs_breadth: Count = 1,
        max_bfs_breadth: Count = 10,
        capacity: Positive = 10_000_000,
        adaptation: LearningScope = "session",
        external_corpus_path: FilePath | None = None,
        external_sam_budget: Budget = 0,
    ) -> None:
        if min_bfs_breadth > max_bfs_breadth:
            raise BadInput(
                "method.min_bfs_breadth",
                f"{min_bfs_breadth} must not be more than method.max_bfs_breadth, {max_bfs_breadth}",
            )
        if capacity <= max_trie_depth:
            raise BadInput("method.capacity", f"{capacity} must be more than method.max_trie_depth, {max_trie_depth}")
        if (external_corpus_path is None) != (external_sam_budget == 0):
            raise BadInput("method.external_sam_budget", f"and {CORPUS} must both be set, or neither of them")
        self.corpus = None if external_corpus_path is None else opened(CORPUS, external_corpus_path, open_suffixes)
        self.of_corpus = min(external_sam_budget, budget)
        corpus: frozenset[Teacher] = frozenset({"a corpus"} if self.corpus else ())
        self.learned_from = corpus
        self.budget, self.match_type, self.adaptation = budget, match_type, adaptation
        self.max_trie_depth, self.capacity = max_trie_depth, capacity
        self.min_bfs_breadth, self.max_bfs_breadth = min_bfs_breadth, max_bfs_breadth
        self.reset()

    def reset(self) -> None:
        self.trie = empty_trie()
        self._tail = self._waiting = np.empty(0, np.int64)

    def begin(self, prompt_ids: np.ndarray, seed: int = 0) -> None:
        if self.adaptation == "prompt":
            self.reset()
        self._tail = prompt_ids[-self.max_trie_depth :]

    def observe(self, step: Step) -> None:
        self._insert_waiting()
        self._tail = self._waiting = np.append(self._tail, step.new_tokens)[-self.max_trie_depth :]

    def end(self) -> None:
        self._insert_waiting()

    def _insert_waiting(self) -> None:
        """Insert the text that the latest draft was made for."""
        n = len(self._waiting)
        self.trie = with_room(self.trie, n * (n + 1) // 2, self.capacity)
        insert_suffixes(self.trie, self._waiting, self.capacity)
        self._waiting = self._waiting[:0]

    def draft(self, context: np.ndarray) -> DraftTree:
        tail, depth, most = context[-self.max_trie_depth :], self.max_trie_depth, self.max_bfs_breadth
        breadths, budget = (self.min_bfs_breadth, most), self.budget - self.of_corpus
        if self.match_type == "BFS":
            tree = latest_tree(self.trie, tail, depth, breadths, budget)
        else:
            tree = frequent_tree(self.trie, tail, depth, most, budget)
        if self.corpus is None:
            return DraftTree(*tree)
        file, budget = self.corpus, self.of_corpus
        if self.match_type == "BFS":
            other = latest_from_corpus(file.corpus, tail, file.separator, depth, breadths, budget)
        else:
            other = frequent_from_corpus(file.corpus, tail, file.separator, depth, most, budget)
        file.check_blocks()
        return DraftTree(*joined(*tree, *other))

    def check_tokenizer(self, tokenizer: Any) -> None:
        if self.corpus is not None:
            with naming(CORPUS):
                self.corpus.check_tokenizer(tokenizer_fingerprint(tokenizer))

    def describe(self) -> dict[str, str]:
        return {} if self.corpus is None else self.corpus.describe()
