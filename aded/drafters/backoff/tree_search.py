"""Searches for the most probable paths, by the scorer, until the budget is spent or drafts no longer pay.

`search` makes a tree, best first; `search_chain` one path, for targets that verify no trees.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from aded.compiled import inner
from aded.drafters.backoff.candidates import (
    CORPUS,
    LENGTHS,
    SOURCES,
    TARGET,
    Candidates,
    ExternalCandidates,
    empty_external_candidates,
    mix_external,
    new_candidates,
)
from aded.drafters.backoff.contexts import LONGEST_CONTEXT, follow_token, locate
from aded.drafters.backoff.experts import Experts, collect_features
from aded.drafters.backoff.history import MAX_MATCH, longest_match, token_at
from aded.drafters.backoff.lookup import READ_FROM, remember, start_text
from aded.drafters.backoff.scorer import Scorer, score
from aded.drafters.heap import pop, push
from aded.files.datastores.lookup_file import HIDDEN, PAST

PROBABILITY_BUCKETS = 104
"""Buckets of probabilities, see `_bucket`."""
RECENT = max(LENGTHS, PAST)
"""Tokens that a node knows of its context."""
LEAST_WAITING, WAITING_PER_NODE = 2048, 16
"""Most nodes that one search puts into the heap: so many, or so many for each node of a large budget."""


NODE = np.dtype(
    [
        ("token", np.int64),
        ("parent", np.int64),
        ("depth", np.int64),
        ("probability", np.float64),
        ("recent", np.int64, RECENT),
        ("recent_length", np.int64),
        ("corpus_nodes", np.int64, LONGEST_CONTEXT),
        ("longest", np.int64, SOURCES),
        ("known_lengths", np.int64, SOURCES),
        ("match", np.int64, 2),
        ("external", np.int64),
        ("own", np.float64),
    ]
)
"""A node of the tree.

recent, recent_length: the last tokens up to the node, at the array's end, and how many they are
corpus_nodes: the corpus contexts at the node
longest: the longest context to look up in each source
known_lengths: the longest context after which each source knew the node's token, or 0
match: position in the history of the token to copy, or -1, and the match's length
external: the node of the external candidates that is the same, or -1
own: the scorer's own probability of the node given its parent, 0: only others draft it
"""
FRONTIER_NODE = np.dtype(
    [
        ("parent", np.int64),
        ("token", np.int64),
        ("known_lengths", np.int64, SOURCES),
        ("external", np.int64),
        ("own", np.float64),
    ]
)
"""A possible node, which waits in the heap. known_lengths, external, own: as of a node"""


class BackoffScratch(NamedTuple):
    """Memory of the search, used again at each step.

    nodes: NODE [budget + 1], of the tree, the root first
    memories: float32 [budget + 1, HIDDEN], the look-up model's at each node
    frontier: FRONTIER_NODE [most that wait]
    heap: float64 [most that wait, 2]
    waiting_at: int64 [PROBABILITY_BUCKETS], how many of them wait, by the bucket of their probability
    candidates: of the latest `predict`
    external: of other drafters
    ends: int64 [any], tokens that end the answer
    """

    nodes: np.ndarray
    memories: np.ndarray
    frontier: np.ndarray
    heap: np.ndarray
    waiting_at: np.ndarray
    candidates: Candidates
    external: ExternalCandidates
    ends: np.ndarray


def new_scratch(budget: int) -> BackoffScratch:
    waiting = max(LEAST_WAITING, WAITING_PER_NODE * budget)
    nodes, frontier = np.zeros(budget + 1, NODE), np.zeros(waiting, FRONTIER_NODE)
    for memory in (nodes, frontier):
        memory["external"], memory["own"] = -1, 1
    heap, waiting_at = np.zeros((waiting, 2)), np.zeros(PROBABILITY_BUCKETS, np.int64)
    memories = np.zeros((budget + 1, HIDDEN), np.float32)
    candidates, external, ends = new_candidates(), empty_external_candidates(), np.empty(0, np.int64)
    return BackoffScratch(nodes, memories, frontier, heap, waiting_at, candidates, external, ends)


ROOT: int = np.int64(0)  # type: ignore[assignment]
"""Of numpy's type: numba would compile a function once per plain number passed to it."""


@inner
def start(experts: Experts, scratch: BackoffScratch, context: np.ndarray, first: int) -> None:
    """Make the last token of `context`, int64 [m >= 1], the root. The history ends with the same token.

    first: tokens that were read before, up to the root so far; 0: a text begins
    """
    root, length = scratch.nodes[ROOT], min(RECENT, len(context))
    root.token, root.parent, root.depth, root.recent_length = context[-1], -1, 0, length
    root.probability = 1.0
    for i in range(length):
        root.recent[RECENT - length + i] = context[len(context) - length + i]
    for source in range(SOURCES):
        root.longest[source] = experts.options.longest[source]
    locate(experts.corpus, experts.options.vocabulary, context, root.corpus_nodes)
    root.match[0], root.match[1] = -1, 0
    if experts.options.copies:
        longest_match(experts.history, root.match)
    if experts.options.lookup:
        model, memory = experts.lookup.model, scratch.memories[ROOT]
        if first == 0:
            start_text(model, memory)
        for i in range(first, len(context)):
            remember(model, context[i], memory, memory)


@inner
def move_root(experts: Experts, scratch: BackoffScratch, token: int) -> None:
    """Move the root on to the next decided token, which the history ends with now."""
    root = scratch.nodes[ROOT]
    _set_token(experts, root, token, root)
    root.match[1] = min(root.match[1], MAX_MATCH)
    if root.match[0] < 0 and experts.options.copies:
        longest_match(experts.history, root.match)
    if experts.options.lookup:
        remember(experts.lookup.model, token, scratch.memories[ROOT], scratch.memories[ROOT])


@inner
def _set_token(experts: Experts, parent: np.record, token: int, node: np.record) -> None:
    """Set the node's token, and its contexts and match, which follow from its parent's. The two may be one node."""
    longest = node.longest[CORPUS]
    follow_token(experts.corpus, experts.options.vocabulary, parent.corpus_nodes, token, longest, node.corpus_nodes)
    node.token = token
    node.recent_length = min(RECENT, parent.recent_length + 1)
    for i in range(RECENT - 1):
        node.recent[i] = parent.recent[i + 1]
    node.recent[RECENT - 1] = token
    position = parent.match[0]
    in_history = position >= 0 and position + 1 < experts.history.length[0]
    matches = in_history and token_at(experts.history, position) == token
    node.match[0] = position + 1 if matches else -1
    node.match[1] = parent.match[1] + 1


@inner
def _add_node(experts: Experts, scratch: BackoffScratch, at: int, entry: np.record, probability: float) -> None:
    """Make node `at` of the tree from an entry of the frontier.

    A source can only have a context one token longer if the parent's context had the token as a successor there. The
    target's table is an exception: it also stores rejected nodes.
    """
    node, parent = scratch.nodes[at], scratch.nodes[entry.parent]
    for source in range(SOURCES):
        known = entry.known_lengths[source]
        node.known_lengths[source] = known
        node.longest[source] = min(experts.options.longest[source], known + 1)
    node.longest[TARGET] = experts.options.longest[TARGET]
    node.parent, node.depth = entry.parent, parent.depth + 1
    node.probability = probability
    node.external, node.own = entry.external, entry.own
    if experts.options.lookup and probability >= READ_FROM:
        remember(experts.lookup.model, entry.token, scratch.memories[entry.parent], scratch.memories[at])
    _set_token(experts, parent, entry.token, node)


@inner
def predict(experts: Experts, scorer: Scorer, scratch: BackoffScratch, at: int) -> int:
    """Write what may follow node `at` to the candidates; return how many tokens that are."""
    node, candidates = scratch.nodes[at], scratch.candidates
    recent, memory = node.recent[RECENT - node.recent_length :], scratch.memories[at]
    collect_features(
        experts, recent, node.longest, node.corpus_nodes, node.match, memory, node.probability, candidates
    )
    score(scorer, candidates)
    return int(candidates.sizes[0])


@inner
def _may_go_on(scratch: BackoffScratch, at: int) -> bool:
    """May a token follow node `at`, or does the answer end there?"""
    token, ends = scratch.nodes[at].token, False
    for one in scratch.ends:
        ends |= token == one
    return not ends


@inner
def _candidates_at(experts: Experts, scorer: Scorer, scratch: BackoffScratch, at: int) -> int:
    """`predict`, and mix in external candidates."""
    candidates, external = scratch.candidates, scratch.nodes[at].external
    found = predict(experts, scorer, scratch, at)
    candidates.external[:] = -1
    for i in range(found):
        candidates.own[i] = candidates.probabilities[i]
    return found if external < 0 else mix_external(scratch.external, external, candidates, found)


@inner
def _fill_entry(candidates: Candidates, i: int, parent: int, entry: np.record) -> None:
    """Write candidate i, below the node `parent`, to an entry of the frontier."""
    entry.parent, entry.token = parent, candidates.tokens[i]
    for source in range(SOURCES):
        entry.known_lengths[source] = candidates.known_lengths[i, source]
    entry.external, entry.own = candidates.external[i], candidates.own[i]


@inner
def _bucket(probability: float) -> int:
    """Bucket of a probability from 2^-12 to 1, eight per factor of 2, read off the number's exponent."""
    return max(0, (int(np.float32(probability).view(np.int32)) >> 20) - (115 << 3))


@inner
def _smallest_of(bucket: int) -> float:
    """The smallest probability in a bucket."""
    return np.float64(np.int32((bucket + (115 << 3)) << 20).view(np.float32))


@inner
def search(
    experts: Experts,
    scorer: Scorer,
    scratch: BackoffScratch,
    budget: int,
    depth: int,
    least_probabilities: np.ndarray,
) -> int:
    """Fill the nodes below the root, the most probable first; return how many there are, the root included.

    A candidate stays out of the heap if more probable ones already fill the budget, or if its probability is far
    below the budget's average share.

    depth: most tokens on one path
    least_probabilities: float64 [budget + 1], at n nodes, stop if every remaining one is less probable than
        least_probabilities[n - 1]
    """
    if budget < 1:
        return ROOT + 1
    nodes, candidates, waiting_at = scratch.nodes, scratch.candidates, scratch.waiting_at
    waiting_at[:] = 0
    n, waiting, entries, at = ROOT + 1, 0, 0, ROOT
    nodes[ROOT].external = 0 if scratch.external.nodes > 0 else -1
    # Entries below the bucket `cutoff` are never taken; `above` of them wait in that bucket and higher ones.
    cutoff, above = max(0, _bucket(0.1 / (budget + 1))), 0
    while True:
        useful = _smallest_of(cutoff)
        if nodes[at].depth < depth and nodes[at].probability > useful and _may_go_on(scratch, at):
            found = _candidates_at(experts, scorer, scratch, at)
            for i in range(found):
                probability = nodes[at].probability * candidates.probabilities[i]
                bucket = _bucket(probability)
                if bucket >= cutoff and entries < len(scratch.frontier):
                    _fill_entry(candidates, i, at, scratch.frontier[entries])
                    push(scratch.heap, waiting, probability, entries)
                    entries += 1
                    waiting += 1
                    above += 1
                    waiting_at[bucket] += 1
            while above - waiting_at[cutoff] >= budget + 1 - n:
                above -= waiting_at[cutoff]
                cutoff += 1
        if waiting == 0:
            return n
        probability = -scratch.heap[0, 0]
        if probability < least_probabilities[n - 1]:
            return n
        entry = pop(scratch.heap, waiting)
        waiting -= 1
        bucket = _bucket(probability)
        if bucket >= cutoff:
            waiting_at[bucket] -= 1
            above -= 1
        _add_node(experts, scratch, n, scratch.frontier[entry], probability)
        at = n
        n += 1
        if n > budget:
            return n


@inner
def search_chain(
    experts: Experts,
    scorer: Scorer,
    scratch: BackoffScratch,
    budget: int,
    depth: int,
    least_probabilities: np.ndarray,
) -> int:
    """`search` for a tree without branches: below each node its most probable token alone."""
    n, nodes, candidates, entry = ROOT + 1, scratch.nodes, scratch.candidates, scratch.frontier[0]
    candidates.external[:] = -1
    while n <= min(budget, depth) and _may_go_on(scratch, n - 1):
        found = predict(experts, scorer, scratch, n - 1)
        if found == 0:
            return n
        best = int(np.argmax(candidates.probabilities[:found]))
        probability = nodes[n - 1].probability * candidates.probabilities[best]
        if probability < least_probabilities[n - 1]:
            return n
        _fill_entry(candidates, best, n - 1, entry)
        _add_node(experts, scratch, n, entry, probability)
        n += 1
    return n
