"""Searches for the most probable paths, by the scorer, until the budget is spent or drafts no longer pay.

`search` makes a tree, best first; `search_chain` one path, for targets that verify no trees.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from aded.compiled import INLINED, UNCOUNTED
from aded.drafters.backoff.candidates import CORPUS, LENGTHS, SOURCES, TARGET
from aded.drafters.backoff.corpus import follow_token, locate
from aded.drafters.backoff.experts import COPIES, Experts, ask
from aded.drafters.backoff.history import MAX_MATCH, longest_match, token_at
from aded.drafters.backoff.scorer import Scorer, score
from aded.drafters.backoff.scratch import MAX_WAITING, BackoffScratch
from aded.drafters.backoff.suggestions import add_suggested
from aded.drafters.backoff.transformer.predictions import read_child
from aded.drafters.heap import pop, push

ROOT: int = np.int64(0)  # type: ignore[assignment]
"""Of numpy's type: numba would compile a function once per plain number passed to it."""
Scorers = tuple[Scorer, Scorer]
"""For nodes that the transformer has not read, and for those that it has."""


@njit(**UNCOUNTED)
def start(experts: Experts, scratch: BackoffScratch, context: np.ndarray) -> None:
    """Make the last token of `context`, int64 [m >= 1], the root. The history ends with the same token."""
    length = min(LENGTHS, len(context))
    scratch.tokens[0], scratch.parents[0], scratch.depths[0], scratch.recent_lengths[0] = context[-1], -1, 0, length
    scratch.probabilities[0] = 1.0
    for i in range(length):
        scratch.recent[0, LENGTHS - length + i] = context[len(context) - length + i]
    for source in range(SOURCES):
        scratch.longest[0, source] = experts.longest[source]
    locate(experts.corpus, experts.vocabulary[0], context, scratch.indices[0])
    scratch.matches[0, 0], scratch.matches[0, 1] = -1, 0
    if experts.switches[COPIES]:
        longest_match(experts.history, scratch.matches[0])


@njit(**INLINED)
def move_root(experts: Experts, scratch: BackoffScratch, token: int) -> None:
    """Move the root on to the next decided token, which the history ends with now."""
    _set_token(experts, scratch, ROOT, token, ROOT)
    scratch.matches[0, 1] = min(scratch.matches[0, 1], MAX_MATCH)
    if scratch.matches[0, 0] < 0 and experts.switches[COPIES]:
        longest_match(experts.history, scratch.matches[0])


@njit(**INLINED)
def _set_token(experts: Experts, scratch: BackoffScratch, parent: int, token: int, node: int) -> None:
    """Set the node's token, and its contexts and match, which follow from its parent's. The two may be one node."""
    longest = scratch.longest[node, CORPUS]
    follow_token(
        experts.corpus, experts.vocabulary[0], scratch.indices[parent], token, longest, scratch.indices[node]
    )
    scratch.tokens[node] = token
    scratch.recent_lengths[node] = min(LENGTHS, scratch.recent_lengths[parent] + 1)
    for i in range(LENGTHS - 1):
        scratch.recent[node, i] = scratch.recent[parent, i + 1]
    scratch.recent[node, LENGTHS - 1] = token
    position = scratch.matches[parent, 0]
    in_history = position >= 0 and position + 1 < experts.history.length[0]
    matches = in_history and token_at(experts.history, position) == token
    scratch.matches[node, 0] = position + 1 if matches else -1
    scratch.matches[node, 1] = scratch.matches[parent, 1] + 1


@njit(**INLINED)
def _add_node(experts: Experts, scratch: BackoffScratch, node: int, draft: int, probability: float) -> None:
    """Make a draft a node of the tree.

    A source can only have a context one token longer if the parent's context had the token as a successor there. The
    target's table is an exception: it also stores rejected nodes.
    """
    parent, token = scratch.draft_parents[draft], scratch.draft_tokens[draft]
    for source in range(SOURCES):
        known = scratch.known_lengths[draft, source]
        scratch.known_by[node, source] = known
        scratch.longest[node, source] = min(experts.longest[source], known + 1)
    scratch.longest[node, TARGET] = experts.longest[TARGET]
    scratch.parents[node], scratch.depths[node] = parent, scratch.depths[parent] + 1
    scratch.probabilities[node] = probability
    scratch.suggested[node], scratch.own[node] = scratch.draft_suggested[draft], scratch.draft_own[draft]
    scratch.was_read[node] = read_child(experts.predictions, scratch.was_read[parent], token)
    _set_token(experts, scratch, parent, token, node)


@njit(**INLINED)
def find_root(experts: Experts, scratch: BackoffScratch) -> None:
    """Has the transformer read the root?"""
    scratch.was_read[ROOT] = 0 if experts.predictions.nodes[0] > 0 else -1


@njit(**INLINED)
def predict(experts: Experts, scorers: Scorers, scratch: BackoffScratch, node: int) -> int:
    """Write what may follow a node to scratch.candidates; return how many tokens that are."""
    recent = scratch.recent[node, LENGTHS - scratch.recent_lengths[node] :]
    longest, indices, match = scratch.longest[node], scratch.indices[node], scratch.matches[node]
    was_read = scratch.was_read[node]
    ask(experts, recent, longest, indices, match, scratch.probabilities[node], was_read, scratch.candidates)
    if was_read >= 0:
        score(scorers[1], scratch.candidates)
    else:
        score(scorers[0], scratch.candidates)
    return scratch.candidates.sizes[0]


@njit(**INLINED)
def _candidates_at(experts: Experts, scorers: Scorers, scratch: BackoffScratch, node: int) -> int:
    """`predict`, and mix in what is suggested."""
    candidates, suggested = scratch.candidates, scratch.suggested[node]
    found = predict(experts, scorers, scratch, node)
    candidates.suggested[:] = -1
    for i in range(found):
        candidates.own[i] = candidates.probabilities[i]
    return found if suggested < 0 else add_suggested(scratch.suggestions, suggested, candidates, found)


@njit(cache=True, inline="always")
def _bucket(probability: float) -> int:
    """Bucket of a probability from 2^-12 to 1, eight per factor of 2, read off the number's exponent."""
    return max(0, (int(np.float32(probability).view(np.int32)) >> 20) - (115 << 3))


@njit(cache=True, inline="always")
def _smallest_of(bucket: int) -> float:
    """The smallest probability in a bucket."""
    return np.float64(np.int32((bucket + (115 << 3)) << 20).view(np.float32))


@njit(**UNCOUNTED)
def search(
    experts: Experts,
    scorers: Scorers,
    scratch: BackoffScratch,
    budget: int,
    depth: int,
    least_probabilities: np.ndarray,
) -> int:
    """Fill the nodes below the root, the most probable first; return how many there are, the root included.

    A draft stays out of the heap if more probable drafts already fill the budget, or if its probability is far below
    the budget's average share.

    depth: most tokens on one path
    least_probabilities: float64 [budget + 1], at n nodes, stop if every remaining draft is less probable than
        least_probabilities[n - 1]
    """
    waiting_at = scratch.waiting_at
    waiting_at[:] = 0
    n, waiting, drafts, at = ROOT + 1, 0, 0, ROOT
    scratch.suggested[ROOT] = 0 if scratch.suggestions.nodes[0] > 0 else -1
    find_root(experts, scratch)
    # Drafts below the bucket `cutoff` are never taken; `above` drafts wait in that bucket and higher ones.
    cutoff, above = max(0, _bucket(0.1 / (budget + 1))), 0
    while True:
        useful = _smallest_of(cutoff)
        if scratch.depths[at] < depth and scratch.probabilities[at] > useful:
            found = _candidates_at(experts, scorers, scratch, at)
            for i in range(found):
                probability = scratch.probabilities[at] * scratch.candidates.probabilities[i]
                bucket = _bucket(probability)
                if bucket >= cutoff and drafts < MAX_WAITING:
                    scratch.draft_parents[drafts] = at
                    scratch.draft_tokens[drafts] = scratch.candidates.tokens[i]
                    for source in range(SOURCES):
                        scratch.known_lengths[drafts, source] = scratch.candidates.known_lengths[i, source]
                    scratch.draft_suggested[drafts] = scratch.candidates.suggested[i]
                    scratch.draft_own[drafts] = scratch.candidates.own[i]
                    push(scratch.heap, waiting, probability, drafts)
                    drafts += 1
                    waiting += 1
                    above += 1
                    waiting_at[bucket] += 1
            while above - waiting_at[cutoff] >= budget + 1 - n:
                above -= waiting_at[cutoff]
                cutoff += 1
        if waiting == 0 or n > budget:
            return n
        probability = -scratch.heap[0, 0]
        if probability < least_probabilities[n - 1]:
            return n
        draft = pop(scratch.heap, waiting)
        waiting -= 1
        bucket = _bucket(probability)
        if bucket >= cutoff:
            waiting_at[bucket] -= 1
            above -= 1
        _add_node(experts, scratch, n, draft, probability)
        at = n
        n += 1
        if n > budget:
            return n


@njit(**UNCOUNTED)
def search_chain(
    experts: Experts,
    scorers: Scorers,
    scratch: BackoffScratch,
    budget: int,
    depth: int,
    least_probabilities: np.ndarray,
) -> int:
    """`search` for a tree without branches: below each node its most probable token alone."""
    n, candidates = ROOT + 1, scratch.candidates
    find_root(experts, scratch)
    while n <= min(budget, depth):
        found = predict(experts, scorers, scratch, n - 1)
        if found == 0:
            return n
        best = np.argmax(candidates.probabilities[:found])
        probability = scratch.probabilities[n - 1] * candidates.probabilities[best]
        if probability < least_probabilities[n - 1]:
            return n
        scratch.draft_parents[0], scratch.draft_tokens[0] = n - 1, candidates.tokens[best]
        for source in range(SOURCES):
            scratch.known_lengths[0, source] = candidates.known_lengths[best, source]
        _add_node(experts, scratch, n, 0, probability)
        n += 1
    return n
