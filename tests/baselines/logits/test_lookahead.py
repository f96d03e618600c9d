from collections.abc import Callable

import numpy as np
import pytest
import torch
from tiny import path_to

from aded.core.drafter import Step
from aded.core.sampler import accepted_path
from aded.core.tree import DraftTree
from baselines.logits.lookahead import Lookahead, Pool, window_nodes

VOCABULARY = 32
PROMPT = np.array([3, 1, 4, 1, 5])
Follow = Callable[[list[int]], int]


def step_of(follow: Follow, context: list[int], tree: DraftTree) -> Step:
    """The step of a target that continues tokens by `follow`, over a tree below context[-1]."""
    logits = torch.zeros(len(tree), VOCABULARY)
    for node in range(len(tree)):
        logits[node, follow(context + tree.tokens[path_to(tree, node)[1:]].tolist())] = 1
    path, token = accepted_path(tree, logits.argmax(dim=-1).tolist().__getitem__)
    return Step(tree, path, token, logits)


def run(drafter: Lookahead, follow: Follow, steps: int) -> tuple[list[int], list[int]]:
    """(context, accept lengths) of some steps."""
    context, accepted = PROMPT.tolist(), []
    drafter.begin(PROMPT)
    step = step_of(follow, context, DraftTree.root(context[-1]))
    context += step.new_tokens
    drafter.observe(step)
    for _ in range(steps):
        step = step_of(follow, context, drafter.draft(np.array(context)))
        drafter.observe(step)
        context += step.new_tokens
        accepted.append(len(step.new_tokens))
    return context, accepted


def hashed(tokens: list[int]) -> int:
    """A next token that depends on the last three, and on their order."""
    a, b, c = [0, 0, 0, *tokens][-3:]
    return (7 * a + 11 * b * b + 13 * c * c * c + 5) % VOCABULARY


def published_window(
    follow: Follow, context: list[int], roots: list[int], level: int, window: int
) -> list[list[int]]:
    """The two-dimensional window of the original, row by row, after the steps whose roots are given.

    `past[0]` is the chain; token i of row l > 0 is below token i - 1 of the chain, or below the root.
    """
    size = window + level - 3
    past = [np.resize(PROMPT[-size:], size).tolist()]
    for root in roots:
        before = context[: context.index(root)]
        chain = past[0]
        if len(past) == 1:
            new = [follow([*before, root, *chain[: i + 1]]) for i in range(len(chain))]
            past = [chain[1:], new]
            continue
        new = [follow([*before, root, *chain[:i], *(row[i] for row in past[1:])]) for i in range(len(past[1]))]
        full = len(past) == level - 1
        past = [past[1][1:], *past[2:], new] if full else [row[1:] for row in [*past, new]]
    return past


@pytest.mark.parametrize(("level", "window"), [(3, 1), (3, 4), (4, 3), (5, 6)])
def test_the_window_equals_the_published_one(level: int, window: int) -> None:
    """Compared at each root, with a target that counts, so that every context has a next token of its own."""

    def follow(tokens: list[int]) -> int:
        return tokens[-1] + 1 if tokens[-1] >= 6 else 6 + (sum(tokens) % 3)

    drafter = Lookahead(level=level, window=window, guesses=1)
    for steps in range(1, 9):
        context, accepted = run(drafter, follow, steps)
        if context[-1] >= VOCABULARY - 1:
            break
        ends = np.cumsum([len(PROMPT) + 1, *accepted])[:-1] - 1
        expected = published_window(follow, context, [context[end] for end in ends], level, window)
        assert drafter.chain == expected[0]
        assert [list(row) for row in zip(*drafter.columns, strict=True)] == expected[1:]


def test_a_text_where_each_token_fixes_the_next_is_drafted() -> None:
    """Every n-gram of the pool is right, so a root in the pool accepts a whole n-gram."""
    order = np.random.default_rng(1).permutation(VOCABULARY)
    _, accepted = run(Lookahead(level=5, window=15), lambda tokens: int(order[tokens[-1]]), 60)
    assert set(accepted) == {1, 5}
    assert accepted[-8:] == [5] * 8


@pytest.mark.parametrize("depth", [0, 1, 3, 5])
def test_columns_that_are_cut_leave_the_window(depth: int) -> None:
    """The loop cuts the tree; the columns that remain are as without the cut."""
    whole, cut = Lookahead(level=4, window=5, guesses=2), Lookahead(level=4, window=5, guesses=2)
    context, _ = run(whole, hashed, 6)
    run(cut, hashed, 6)
    whole.observe(step_of(hashed, context, whole.draft(np.array(context))))
    cut.observe(step_of(hashed, context, cut.draft(np.array(context)).up_to_depth(depth)))
    left = len(cut.columns)
    assert left == max(0, depth - 1)
    assert cut.columns == whole.columns[:left]
    assert cut.chain == whole.chain[: max(0, left - 1)]


def test_the_pool_keeps_the_latest_and_the_window_takes_59_nodes() -> None:
    assert window_nodes(5, 15) == 14 + 15 * 3
    pool = Pool(2)
    for continuation in [(1, 2), (3, 4), (1, 2), (5, 6)]:
        pool.add(0, continuation)
    assert pool.after(0) == [(5, 6), (1, 2)]
    assert pool.after(9) == []
