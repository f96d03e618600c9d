"""Trees cut by cost: to the nodes worth most, whatever the drafter, and without a change of any answer."""

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny import tiny_model, trees

import aded
from aded.core.decode import decode
from aded.core.drafter import Drafter
from aded.core.sampler import Decoding, Recorded
from aded.core.step_cost import StepCost, TreeSizer
from aded.core.tree import DraftTree
from aded.drafters.sized import SizedDrafter
from aded.errors import BadInput
from aded.targets.eager import EagerTarget
from aded.targets.weightless import WeightlessTarget

LINEAR = StepCost(1 + 0.05 * np.arange(65))
VOCABULARY = 50


def drafted(tokens: list[int], parents: list[int], probabilities: list[float] | None = None) -> DraftTree:
    reached = None if probabilities is None else np.array(probabilities)
    return DraftTree(np.array(tokens), np.array(parents), reached)


class Drafts(Drafter):
    """What a function says."""

    def __init__(self, make: Callable[[int], DraftTree]) -> None:
        self.make, self.drafts = make, 0

    def draft(self, context: np.ndarray) -> DraftTree:
        self.drafts += 1
        return self.make(int(context[-1]))


def sized(drafter: Drafter, cost: StepCost = LINEAR) -> SizedDrafter:
    made = SizedDrafter(drafter, "measured")
    made.size_trees_by(TreeSizer(cost))
    return made


def replayed(drafter: Drafter, text: np.ndarray, prompt: int = 4) -> list[int]:
    """Nodes of the verified trees, the root included."""
    recorded = Recorded(text[prompt:].tolist())
    answer = decode(WeightlessTarget(), drafter, text[:prompt], recorded, max_new_tokens=len(text) - prompt)
    return [nodes + 1 for nodes in answer.drafted_nodes]


@given(trees(most=8), st.data(), st.floats(0.01, 0.5))
def test_no_other_part_of_a_tree_is_worth_more(tree: DraftTree, data: st.DataObject, node: float) -> None:
    shares = data.draw(st.lists(st.floats(0.01, 0.99), min_size=tree.drafted, max_size=tree.drafted))
    reached = np.ones(len(tree))
    for i, share in enumerate(shares, 1):
        reached[i] = reached[tree.parents[i]] * share
    whole = DraftTree(tree.tokens, tree.parents, reached)
    mine = sized(Drafts(lambda _: whole), StepCost(1 + node * np.arange(65)))
    cut = mine.draft(tree.tokens[:1])
    places = whole.find(cut)
    assert (places >= 0).all()
    assert cut.probabilities is not None
    node *= TreeSizer.MARGIN
    worth = cut.probabilities[1:].sum() - node * cut.drafted
    # What it takes for true are its drafter's probabilities, as interpolated between knots.
    table = mine._acceptance
    true = np.ones(len(tree))
    for i, share in enumerate(table.given_parent(whole, table.cells_of(whole))[1:], 1):
        true[i] = true[tree.parents[i]] * share
    for size in range(len(tree)):
        for nodes in combinations(range(1, len(tree)), size):
            if all(tree.parents[one] in (0, *nodes) for one in nodes):
                assert true[list(nodes)].sum() - node * size <= worth + 1e-9


class Timid(Drafter):
    """Drafts the text that recurs, says 0.6 of what is sure, and stops where its own word for it does not pay."""

    tree_sizer: TreeSizer | None = None

    def draft(self, context: np.ndarray) -> DraftTree:
        assert self.tree_sizer is not None
        pays = self.tree_sizer.least_probabilities[0] <= 0.6
        tokens = [int(context[-1]), *([int(context[-1] + 1) % 7] if pays else [])]
        return drafted(tokens, [-1, 0][: len(tokens)], [1.0, 0.6][: len(tokens)])


def test_a_drafter_that_thinks_too_little_of_its_drafts_is_found_out() -> None:
    """A node costs 0.8 of a step, which 0.6 is not worth and its true probability is."""
    sizes = replayed(sized(Timid(), StepCost(np.array([1.0, 1.8]))), np.arange(200) % 7)
    assert set(sizes[-50:-1]) == {2}
    # Drafts that never come true are given up, and come back.
    mine = sized(Drafts(lambda last: drafted([last, 1, 2], [-1, 0, 1], [1, 0.9, 0.8])))
    sizes = replayed(mine, np.array([0] * 300 + [1, 2, 0] * 300))
    assert sizes[0] == 3
    assert set(sizes[100:280]) == {1}
    assert set(sizes[-100:]) == {3}, "what is not verified is learned from too"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """What drafts are timed by; they alone move it on."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr("aded.drafters.sized.perf_counter", lambda: clock.now)
    return clock


def test_a_drafter_that_takes_longer_than_it_gains_is_asked_seldom(
    clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers stay the same, and so do the trees of an answer that is decoded again."""
    target, prompt = EagerTarget(tiny_model()), np.arange(6)

    def slow(last: int) -> DraftTree:
        clock.now += 0.02
        return drafted([last, 1, 2], [-1, 0, 1], [1, 0.5, 0.2])

    inner = Drafts(slow)
    mine = SizedDrafter(inner, "measured")
    monkeypatch.setattr("aded.drafters.sized.measure", lambda *_: StepCost(0.01 * (1 + 0.02 * np.arange(65))))
    mine.setup(target)
    for decoding in (Decoding(), Decoding(0.9, 0.9, 1)):
        wanted = decode(target, aded.drafter("autoregressive"), prompt, decoding.sampler(), max_new_tokens=60)
        found = []
        for _ in range(2):
            mine.reset()
            found.append([decode(target, mine, prompt, decoding.sampler(), max_new_tokens=60) for _ in range(2)])
        assert all(answer.token_ids == wanted.token_ids for answers in found for answer in answers)
        first, again = ([answer.drafted_nodes for answer in answers] for answers in found)
        assert first == again or decoding == Decoding(), "times are learned in the first answers alone"
    assert inner.drafts < 120, "of 480 steps"


def test_a_table_of_costs_sizes_the_trees_of_a_replay(tmp_path: Path) -> None:
    whole = SizedDrafter(Drafts(lambda last: DraftTree.chain(last, [1, 2, 3])), "measured")
    whole.setup(WeightlessTarget())
    assert whole.draft(np.zeros(1, np.int64)).drafted == 3, "no model decodes, so nothing is measured"

    def tree_of(milliseconds: dict[str, float], **settings: Any) -> DraftTree:
        path = tmp_path / "cost.json"
        path.write_text(json.dumps({"engines": [{"engine": "any", "ms_by_context": {"256": milliseconds}}]}))
        mine = aded.drafter("prompt_lookup", cost=str(path), **settings)
        mine.setup(WeightlessTarget())
        text = np.array([5, 6, 7, 8, 5, 6])
        mine.begin(text[:5])
        return mine.draft(text)

    assert tree_of({"1": 9.0, "11": 9.0}).tokens.tolist() == [6, 7, 8, 5, 6]
    assert tree_of({"1": 9.0, "11": 99.0}).tokens.tolist() == [6]
    assert tree_of({"1": 9.0, "5": 9.0}, budget=4).drafted == 4
    with pytest.raises(BadInput, match=r"^method\.cost: .* must reach from 1 to 11 nodes"):
        tree_of({"1": 9.0, "5": 9.0})
    with pytest.raises(BadInput, match=r"^method\.cost: 'guessed' must be measured, none or the file"):
        aded.drafter("prompt_lookup", cost="guessed")


def test_requests_learn_from_each_others_drafts() -> None:
    """What one drafter's text refused, another that learns with it drafts no more."""
    refused = Drafts(lambda last: DraftTree.chain(last, [VOCABULARY]))
    leader, alone = sized(refused), sized(refused)
    replayed(leader, np.arange(40) % VOCABULARY)
    follower = SizedDrafter(refused, "measured")
    follower.learn_with(leader)
    text = np.arange(10) % VOCABULARY
    assert sum(replayed(follower, text)) < sum(replayed(alone, text))


def test_who_sizes_trees_remembers_answers() -> None:
    """What drafts were worth, whatever the drafter itself keeps."""
    plain = aded.drafter("prompt_lookup", cost="none").unsized
    made = SizedDrafter(plain, "measured")
    assert not made.remembers_answers
    made.size_trees_by(TreeSizer(LINEAR))
    assert made.remembers_answers


def test_a_tree_that_was_drawn_is_whole() -> None:
    """Leaving out some of it would change what is accepted by rejection, and so the answers' distribution."""
    steep = StepCost(1 + 0.9 * np.arange(65))
    cut = drafted([0, 5, 6, 7], [-1, 0, 0, 1], [1, 0.2, 0.1, 0.05])
    drawn = replace(cut, drawn=dict.fromkeys((0, 1), np.full(VOCABULARY, 1 / VOCABULARY)))
    assert sized(Drafts(lambda _: cut), steep).draft(np.array([0])).drafted == 0
    assert sized(Drafts(lambda _: drawn), steep).draft(np.array([0])) is drawn


def test_the_first_draft_which_compiles_is_not_timed(clock: SimpleNamespace) -> None:
    def slow_at_first(token: int) -> DraftTree:
        clock.now += 0.2 if drafter.drafts == 1 else 0.001
        return DraftTree.chain(token, [1, 2])

    drafter = Drafts(slow_at_first)
    made = SizedDrafter(drafter, "measured")
    made.setup(EagerTarget(tiny_model()))
    made.begin(context := np.arange(4))
    for _ in range(2):
        made.draft(context)
    assert drafter.drafts == 2
    assert made.tree_sizer is not None
    assert made.tree_sizer.draft_seconds == pytest.approx(0.001)


def test_where_no_node_pays_it_says_so() -> None:
    dear = sized(Drafts(lambda token: drafted([token, 1], [-1, 0], [1.0, 0.5])), StepCost(1 + 9.0 * np.arange(65)))
    silent = sized(Drafts(lambda token: DraftTree.root(token)))
    for drafter in (dear, silent):
        assert set(replayed(drafter, np.zeros(9, np.int64))) == {1}
    assert (dear.why_no_draft or "").startswith("no drafted node was worth its time")
    assert silent.why_no_draft is None


def test_what_is_no_tree_is_named_by_its_class() -> None:
    with pytest.raises(BadInput, match=r"Drafts.draft returned list; .*DraftTree"):
        replayed(sized(Drafts(lambda last: [last])), np.arange(9))  # type: ignore[arg-type, return-value]
