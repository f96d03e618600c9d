"""The draft tree: tokens and parent indices, checked once when it is built.

Node 0 is the root, the last token already decided but not yet in the KV cache. Every other node is a
drafted token. A worked example, with the root "the" and the drafts "cat sat", "cat ran" and "dog"::

    index      0    1    2    3    4
    tokens   the  cat  sat  ran  dog
    parents   -1    0    1    1    0
    depths     0    1    2    2    1

One forward over these five rows verifies all three continuations (SpecInfer, arXiv 2305.09781).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numba import njit


@njit(cache=True)
def _first_fault(tokens: np.ndarray, parents: np.ndarray) -> int:
    """Index of the first node that breaks the tree's rules, or -1."""
    if parents[0] != -1 or tokens[0] < 0:
        return 0
    for i in range(1, len(parents)):
        if parents[i] < 0 or parents[i] >= i or tokens[i] < 0:
            return i
        for j in range(1, i):
            if parents[j] == parents[i] and tokens[j] == tokens[i]:
                return i
    return -1


@njit(cache=True)
def _depths(parents: np.ndarray) -> np.ndarray:
    depths = np.zeros(len(parents), np.int64)
    for i in range(1, len(parents)):
        depths[i] = depths[parents[i]] + 1
    return depths


@njit(cache=True)
def _ancestors(parents: np.ndarray) -> np.ndarray:
    """Row i marks i and its ancestors: a copy of its parent's row, plus itself."""
    n = len(parents)
    seen = np.zeros((n, n), np.bool_)
    seen[0, 0] = True
    for i in range(1, n):
        seen[i] = seen[parents[i]]
        seen[i, i] = True
    return seen


@njit(cache=True)
def _found(tokens: np.ndarray, parents: np.ndarray, wanted: np.ndarray, wanted_parents: np.ndarray) -> np.ndarray:
    """Of each node of the tree (wanted, wanted_parents) the node of (tokens, parents) at the end of the same path."""
    found = np.full(len(wanted), -1)
    found[0] = 0
    for i in range(1, len(wanted)):
        parent = found[wanted_parents[i]]
        if parent >= 0:
            for j in range(parent + 1, len(tokens)):
                if parents[j] == parent and tokens[j] == wanted[i]:
                    found[i] = j
                    break
    return found


@njit(cache=True, inline="always")
def with_child(tokens: np.ndarray, parents: np.ndarray, n: int, parent: int, token: int) -> tuple[int, int]:
    """(node, n) of the child of `parent` with this token; a new one if there is none.

    tokens, parents: int64, of which the first n are a draft tree that is being built, with room for one more.
    """
    for i in range(parent + 1, n):
        if parents[i] == parent and tokens[i] == token:
            return i, n
    tokens[n], parents[n] = token, parent
    return n, n + 1


def _whole_numbers(values: np.ndarray | Sequence[int]) -> np.ndarray:
    found = np.asarray(values)
    if found.size and found.dtype.kind not in "iu":
        raise ValueError(f"tokens and parents must be whole numbers, not {values}")
    return found.astype(np.int64, copy=False)


@dataclass(frozen=True)
class DraftTree:
    """A tree of drafted tokens below the root.

    tokens: int64 [n]; parents: int64 [n], parents[0] = -1; probabilities: float [n] or None, the drafter's
    own probability that the walk reaches each node (the root's is 1). Lists become arrays.
    drawn: where the tokens were drawn at random, for aded.core.sampler: by node the distribution from which its
    children were drawn in their order, without replacement, float64 [vocabulary]; None: by no chance.
    Raises ValueError when a parent does not precede its child, two siblings hold the same token, a token is negative
    or no whole number, or a probability lies outside of 0 to 1.
    """

    tokens: np.ndarray
    parents: np.ndarray
    probabilities: np.ndarray | None = None
    drawn: Mapping[int, np.ndarray] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "tokens", _whole_numbers(self.tokens))
        object.__setattr__(self, "parents", _whole_numbers(self.parents))
        if not (self.probabilities is None or isinstance(self.probabilities, np.ndarray)):
            object.__setattr__(self, "probabilities", np.asarray(self.probabilities, np.float64))
        if self.tokens.ndim != 1 or self.tokens.shape != self.parents.shape or len(self.tokens) == 0:
            raise ValueError(f"tokens {self.tokens.shape} and parents {self.parents.shape} must be equal, [n >= 1]")
        if self.probabilities is not None and not _are_probabilities(self.probabilities, len(self.tokens)):
            raise ValueError(
                f"probabilities must be {len(self.tokens)} numbers from 0 to 1, the first one, the root's, 1"
            )
        fault = _first_fault(self.tokens, self.parents)
        if fault >= 0:
            raise ValueError(
                f"node {fault} (token {self.tokens[fault]}, parent {self.parents[fault]}): parents must precede "
                "their children, siblings must differ, and the root's parent is -1"
            )

    @classmethod
    def root(cls, token: int) -> DraftTree:
        """The tree of a drafter with no idea: a plain autoregressive step."""
        return cls(np.array([token], np.int64), np.array([-1], np.int64))

    @classmethod
    def chain(cls, root: int, drafted: Sequence[int]) -> DraftTree:
        """One continuation, no branches."""
        return cls(np.array([root, *drafted]), np.arange(-1, len(drafted), dtype=np.int64))

    @classmethod
    def from_sequences(cls, root: int, sequences: Iterable[Sequence[int]], budget: int) -> DraftTree:
        """Merge continuations into a trie, in their order, until `budget` drafted nodes are spent."""
        tokens, parents = [root], [-1]
        index: dict[tuple[int, int], int] = {}
        for sequence in sequences:
            node = 0
            for token in sequence:
                child = index.get((node, token))
                if child is None:
                    if len(tokens) > budget:
                        break
                    child = index[node, token] = len(tokens)
                    tokens.append(token)
                    parents.append(node)
                node = child
        return cls(np.array(tokens), np.array(parents))

    @property
    def given_parent(self) -> np.ndarray:
        """float64 [n]: the probability of each node given that its parent is reached; the root's is 1.

        Of a tree with probabilities.
        """
        assert self.probabilities is not None
        reached = self.probabilities.astype(np.float64)
        found = reached / np.maximum(reached[self.parents], np.finfo(float).tiny)
        found[0] = 1.0  # its parent, -1, is none
        return np.minimum(found, 1.0)

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def drafted(self) -> int:
        """Number of drafted nodes: all but the root."""
        return len(self.tokens) - 1

    @cached_property
    def depths(self) -> np.ndarray:
        """int64 [n]: edges between each node and the root."""
        return _depths(self.parents)

    @cached_property
    def ancestors(self) -> np.ndarray:
        """bool [n, n]: does j lie on the path from the root to i, so that node i sees node j?"""
        return _ancestors(self.parents)

    def child(self, node: int, token: int) -> int | None:
        """The child of `node` that holds `token`, or None."""
        found = np.nonzero((self.parents == node) & (self.tokens == token))[0]
        return int(found[0]) if len(found) else None

    def find(self, other: DraftTree) -> np.ndarray:
        """int64 [len(other)]: of each node of `other` the node here with the same drafted tokens above it, or -1."""
        return _found(self.tokens, self.parents, other.tokens, other.parents)

    def up_to_depth(self, depth: int) -> DraftTree:
        """The same tree without the nodes below `depth`; parents precede children, so indices only close up."""
        keep = self.depths <= depth
        if keep.all():
            return self
        return self.part(np.flatnonzero(keep), self.probabilities)

    def up_to_tokens(self, last: Collection[int]) -> DraftTree:
        """The same tree without what is below the nodes that hold one of the tokens `last`. The root's may."""
        ends = {node for node, token in enumerate(self.tokens[1:].tolist(), 1) if token in last}
        if not ends:
            return self
        kept = np.ones(len(self), bool)
        for node, parent in enumerate(self.parents[1:].tolist(), 1):
            kept[node] = kept[parent] and parent not in ends
        return self.part(np.flatnonzero(kept), self.probabilities)

    def part(self, nodes: np.ndarray, probabilities: np.ndarray | None) -> DraftTree:
        """The tree of some nodes, int64 [m], in their order: the root first, and parents before children.

        probabilities: of all nodes here, float [n].
        """
        parents, drawn = renumbered_parents(self.parents, nodes), self.drawn
        if drawn is not None:
            drawn = {index: drawn[node] for index, node in enumerate(nodes.tolist()) if node in drawn}
        return DraftTree(self.tokens[nodes], parents, None if probabilities is None else probabilities[nodes], drawn)


ROUNDING = 1e-6
"""A probability of 1 may be so much more."""


def _are_probabilities(found: np.ndarray, nodes: int) -> bool:
    return found.shape == (nodes,) and bool(found[0] == 1 and found.min() >= 0 and found.max() <= 1 + ROUNDING)


def renumbered_parents(parents: np.ndarray, nodes: np.ndarray) -> np.ndarray:
    """int64 [m]: the parents of some nodes, int64 [m], by their indices among these nodes. parents: int64 [n]"""
    new_index = np.empty(len(parents), np.int64)
    new_index[nodes] = np.arange(len(nodes))
    found = new_index[parents[nodes]]
    found[0] = -1
    return found


def most_probable(reached: np.ndarray, budget: int) -> np.ndarray:
    """int64 [m <= budget + 1]: the root and the most probable nodes, best first. reached: float64 [n].

    No set of so many nodes that holds the parents of its nodes has a larger sum of probabilities: no node is more
    probable than its parent, and of two equals the parent comes first, since it has the smaller index.
    """
    return np.argsort(-reached, kind="stable")[: budget + 1]


@njit(cache=True)
def reach(parents: np.ndarray, given_parent: np.ndarray) -> np.ndarray:
    """float64 [n]: the probability that the walk reaches each node.

    given_parent: float64 [n], the probability of each node given that its parent is reached.
    """
    reached = np.ones(len(parents))
    for i in range(1, len(parents)):
        reached[i] = reached[parents[i]] * given_parent[i]
    return reached


@njit(cache=True)
def walked(tokens: np.ndarray, parents: np.ndarray, decided: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(reachable, chosen), bool [n]: could the target choose the node, and did it?

    tokens, parents: int64 [n], of a tree; decided: int64 [m], the target's choices below the root
    """
    depths = np.zeros(len(tokens), np.int64)
    reachable, chosen = np.zeros(len(tokens), np.bool_), np.zeros(len(tokens), np.bool_)
    chosen[0] = True
    for i in range(1, len(tokens)):
        above = depths[parents[i]]
        depths[i] = above + 1
        reachable[i] = chosen[parents[i]] and above < len(decided)
        chosen[i] = reachable[i] and tokens[i] == decided[above]
    return reachable, chosen
