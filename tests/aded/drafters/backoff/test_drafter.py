"""The back-off drafter: what it learns, how much memory it uses, how large its trees are."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest
import torch
from small_ngrams import write_small_ngrams
from tiny import paths_of

from aded.core.drafter import Step
from aded.core.step_cost import StepCost, TreeSizer
from aded.core.tree import DraftTree
from aded.drafters.backoff.contexts.context_table import empty_table
from aded.drafters.backoff.drafter import BackoffDrafter
from aded.errors import BadInput
from aded.files.datastores.ngram_file import NgramFile, open_ngrams

VOCABULARY = 50
CONTEXTS = {"corpus": 4, "target": 3, "session": 5, "prompt": 6}


@pytest.fixture(scope="module")
def datastore(tmp_path_factory: pytest.TempPathFactory) -> NgramFile:
    path = tmp_path_factory.mktemp("backoff") / "tiny.ngrams"
    return open_ngrams(write_small_ngrams(path, [np.tile(np.arange(10), 30)], VOCABULARY))


def drafter(datastore: NgramFile, **settings: Any) -> BackoffDrafter:
    settings = {"contexts": CONTEXTS, "budget": 16, **settings}
    return BackoffDrafter(datastore, **settings)


def accepted(drafter: BackoffDrafter, prompt: np.ndarray, answer: np.ndarray) -> list[int]:
    """The accept length of each step when the target answers `answer`."""
    text, n, lengths = np.concatenate([prompt, answer]), len(prompt) + 1, []
    drafter.begin(prompt)
    while n < len(text):
        tree = drafter.draft(text[:n])
        path, length = [0], 0
        while n + length < len(text):
            length += 1
            child = tree.child(path[-1], int(text[n + length - 1]))
            if child is None:
                break
            path.append(child)
        drafter.observe(Step(tree, path, int(text[n + length - 1])))
        lengths.append(length)
        n += length
    return lengths


def test_probabilities_fall_along_a_path_and_siblings_share_their_parent(datastore: NgramFile) -> None:
    mine = drafter(datastore)
    text = np.random.default_rng(1).integers(4, size=300)
    mine.begin(text[:200])
    for n in range(201, 300):
        tree = mine.draft(text[:n])
        probabilities = tree.probabilities
        assert probabilities is not None
        assert probabilities[0] == 1
        assert (np.diff(probabilities) <= 1e-12).all(), "most probable first"
        children = np.zeros(len(probabilities))
        np.add.at(children, tree.parents[1:], probabilities[1:])
        assert (children <= probabilities * (1 + 1e-9)).all()


def test_the_corpus_alone_drafts_its_ngrams(datastore: NgramFile) -> None:
    mine = drafter(datastore, adaptation="off")
    assert min(accepted(mine, np.array([3, 4]), np.arange(5, 25) % 10)[:-1]) > 2


def test_how_many_prompts_were_forgotten_changes_no_draft(datastore: NgramFile) -> None:
    """Tables so full that contexts drive each other out of their buckets."""
    answer = np.random.default_rng(0).integers(VOCABULARY, size=300)
    old, new = (drafter(datastore, adaptation="prompt") for _ in range(2))
    for made in (old, new):
        made.experts = made.experts._replace(prompt=empty_table(64))
        made._read_nothing()
    for _ in range(20):
        old.begin(np.arange(5))
    assert accepted(old, np.arange(9), np.tile(answer, 2)) == accepted(new, np.arange(9), np.tile(answer, 2))


def test_a_copied_span_is_drafted_as_a_long_chain(datastore: NgramFile) -> None:
    span = np.random.default_rng(2).integers(10, VOCABULARY, size=60)
    lengths = accepted(drafter(datastore), np.concatenate([span, [48]]), np.tile(np.append(span, 48), 3))
    assert max(lengths) >= 10
    short = accepted(
        drafter(datastore, copy=False, unigrams=False, contexts={}),
        np.concatenate([span, [48]]),
        np.tile(np.append(span, 48), 3),
    )
    assert set(short[:-1]) == {1}, "without any source nothing is drafted"


def test_each_node_names_the_sources_that_knew_it(datastore: NgramFile) -> None:
    mine = drafter(datastore, contexts={"prompt": 6})
    assert mine.node_parts(DraftTree.root(3)) == [""], "nothing is drafted yet"
    span = list(range(20, 32))
    prompt = np.array([*span, 1, 2, *span[:10]])
    mine.begin(prompt)
    tree = mine.draft(prompt)
    assert mine.node_parts(tree)[tree.tokens.tolist().index(span[10])] == "prompt 6, copy"
    only_corpus = drafter(datastore, contexts={"corpus": 4}, copy=False, skip_grams=False, unigrams=False)
    only_corpus.begin(np.array([0, 1, 2, 3]))
    tree = only_corpus.draft(np.array([0, 1, 2, 3]))
    assert only_corpus.node_parts(tree)[1] == "corpus 4"
    upper = tree.up_to_depth(2)
    assert len(only_corpus.node_parts(upper)) == len(upper)


def test_the_targets_distributions_at_rejected_nodes_are_drafted(datastore: NgramFile) -> None:
    mine = drafter(datastore, contexts={"target": 3}, copy=False, adaptation="session")
    logits = torch.full((2, VOCABULARY), -9.0)
    logits[0, 31], logits[1, 32] = 9.0, 9.0
    mine.begin(np.array([20, 21]))
    mine.draft(np.array([20, 21, 30]))
    # Node 1 is rejected; the target's choice after it is stored all the same.
    mine.observe(Step(DraftTree(np.array([30, 40]), np.array([-1, 0])), [0], 31, logits))
    mine.draft(np.array([20, 21, 30, 31]))
    tree = mine.draft(np.array([20, 21, 30, 31, 40]))
    assert tree.tokens[:2].tolist() == [40, 32]


def test_after_steps_without_a_draft_the_last_one_is_read_behind_its_own_text(datastore: NgramFile) -> None:
    mine = drafter(datastore, contexts={"target": 3}, copy=False, adaptation="session")

    def step(root: int, best: int) -> Step:
        logits = torch.full((1, VOCABULARY), -9.0)
        logits[0, best] = 9.0
        return Step(DraftTree.root(root), [0], best, logits)

    mine.begin(np.array([20, 21]))
    mine.draft(np.array([20, 21, 30]))
    for root in (30, 31, 32):
        mine.observe(step(root, root + 1))
    mine.draft(np.array([20, 21, 30, 31, 32, 33]))
    tree = mine.draft(np.array([20, 21, 30, 31, 32, 33, 30, 31, 32]))
    assert tree.tokens[:2].tolist() == [32, 33]
    assert mine.node_parts(tree)[1] == "target 3"


def test_an_answer_is_learned_to_its_end(datastore: NgramFile) -> None:
    """The last step's tokens, and those of steps without a draft, are behind the latest draft."""
    mine, text = drafter(datastore, adaptation="session"), np.arange(10, 40)
    mine.begin(text[:2])
    mine.observe(Step(DraftTree.root(11), [0], 12))
    mine.draft(text[:3])
    for token in text[2:-1]:
        mine.observe(Step(DraftTree.root(int(token)), [0], int(token) + 1))
    mine.end()
    mine.begin(np.array([45, 30]))
    mine.observe(Step(DraftTree.root(30), [0], 31))
    tree = mine.draft(np.array([45, 30, 31]))
    assert tuple(range(32, 40)) in paths_of(tree)


@pytest.mark.parametrize("shape", ["tree", "chain"])
def test_nothing_is_drafted_below_eos(datastore: NgramFile, shape: Literal["tree", "chain"]) -> None:
    mine, text = drafter(datastore, shape=shape), np.array([*range(20, 30)] * 4)
    useful = []
    for ends, drafted_on in ((set[int](), True), ({25, 41}, False), (set[int](), True)):
        mine.end_at(ends)
        mine.begin(text)
        tree = mine.draft(np.append(text, 20))
        assert 25 in tree.tokens
        assert (25 in tree.tokens[tree.parents[1:]]) == drafted_on
        useful.append(tree.up_to_tokens({25}).drafted)
    assert useful[0] == useful[2] <= useful[1]
    assert shape == "chain" or useful[0] < useful[1], "the budget is spent elsewhere"


def test_a_long_prompt_is_remembered_from_its_beginning(datastore: NgramFile) -> None:
    """Of 20,000 tokens, which have 120,000 contexts."""
    mine = drafter(datastore, contexts={"prompt": 6}, copy=False, skip_grams=False, unigrams=False)
    text = np.random.default_rng(7).integers(VOCABULARY, size=20_000)
    mine.begin(text)
    context, known = text, 0
    for start in range(0, 1000, 10):
        context = np.concatenate([context, text[start : start + 6]])
        tree = mine.draft(context)
        known += int(text[start + 6]) == tree.tokens[1]
    assert known >= 95


def test_stopping_the_search_early_changes_no_tree(datastore: NgramFile) -> None:
    """With a tree size the search leaves out only nodes that no cut would keep."""
    cost, text = StepCost(1 + 0.05 * np.arange(17)), np.random.default_rng(5).integers(20, size=1500)
    early, whole = drafter(datastore), drafter(datastore)
    size = early.tree_sizer = TreeSizer(cost)
    shorter = 0
    for mine in (early, whole):
        mine.begin(text[:10])
    for n in range(11, 1500):
        tree, probabilities = early.draft(text[:n]), whole.draft(text[:n]).probabilities
        assert probabilities is not None
        assert tree.probabilities is not None
        assert tree.probabilities.tolist() == probabilities[: len(tree)].tolist()
        assert len(tree) >= cost.best_size(probabilities, size.rate)
        shorter += len(tree) < len(probabilities)
    assert shorter > 0


def test_the_next_turn_reads_only_the_new_tokens(datastore: NgramFile) -> None:
    text = np.random.default_rng(6).integers(10, VOCABULARY, size=90)
    mine, new = drafter(datastore), drafter(datastore)
    mine.begin(text[:30])
    for n in range(31, 61):
        mine.draft(text[:n])
    read = int(mine.experts.history.length[0])
    mine.begin(text[:80])
    assert (read, int(mine.experts.history.length[0])) == (60, 80)
    new.begin(text[:80])
    context = np.concatenate([text[:80], text[40:42]])
    assert mine.draft(context).tokens[1] == new.draft(context).tokens[1] == text[42]
    mine.begin(text[:20])
    assert int(mine.experts.history.length[0]) == 102, "another prompt is read whole"


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"contexts": {"corpus": 5}}, "method.contexts.corpus: 5 must lie between 0 and 4"),
        ({"contexts": {"copy": 1}}, "method.contexts: copy is none of corpus, target, session, prompt, nearest"),
    ],
)
def test_bad_settings_are_named(datastore: NgramFile, settings: dict[str, Any], line: str) -> None:
    with pytest.raises(BadInput) as error:
        drafter(datastore, **settings)
    assert str(error.value) == line


def test_a_chain_has_the_most_probable_child_of_each_node(datastore: NgramFile) -> None:
    """A tree whose budget is never spent has every child of the chain's nodes."""
    text = np.random.default_rng(1).integers(4, size=300)
    chains, trees = drafter(datastore, shape="chain", budget=5), drafter(datastore, budget=256)
    for one in (chains, trees):
        one.begin(text[:200])
    compared = 0
    for n in range(201, 300):
        chain, tree = chains.draft(text[:n]), trees.draft(text[:n])
        assert chain.parents.tolist() == list(range(-1, len(chain) - 1))
        assert chain.probabilities is not None
        assert tree.probabilities is not None
        node = 0
        for depth in range(1, len(chain)):
            children = tree.probabilities[tree.parents == node]
            child = tree.child(node, int(chain.tokens[depth]))
            if child is None:
                break  # too improbable for the tree
            node = child
            assert tree.probabilities[node] == children.max() == chain.probabilities[depth]
            compared += 1
    assert compared > 200


def test_a_chain_stops_where_a_further_token_does_not_pay(datastore: NgramFile) -> None:
    mine = drafter(datastore, shape="chain", budget=8)
    mine.begin(np.arange(20) % 10)
    probabilities = mine.draft(np.arange(21) % 10).probabilities
    assert probabilities is not None
    assert len(probabilities) == 9
    # Each further node costs what a draft twice as probable as the chain's fourth yields, at one token per second.
    price = 1.001 * float(probabilities[4]) / TreeSizer.LEEWAY
    mine.tree_sizer = TreeSizer(StepCost(1.0 + price * np.arange(9)))
    assert mine.draft(np.arange(21) % 10).drafted == 3


def test_siblings_share_what_answers_teach_and_not_their_prompts(datastore: NgramFile) -> None:
    span = np.random.default_rng(3).permutation(np.arange(10, VOCABULARY))
    first = drafter(datastore, copy=False, contexts={"session": 5, "prompt": 6})
    second = first.fork()
    first.begin(span)
    second.begin(np.array([1, 2, 3]))
    assert second.draft(np.array([1, 2, 3, *span[:5]])).tokens[1] == span[5], "learned from the other's prompt"
    apart = drafter(datastore, adaptation="prompt", copy=False, contexts={"prompt": 6})
    other = apart.fork()
    apart.begin(span)
    other.begin(np.array([1, 2, 3]))
    assert span[5] not in other.draft(np.array([1, 2, 3, *span[:5]])).tokens
    assert apart.draft(np.array([*span, *span[:5]])).tokens[1] == span[5], "the other's begin left it alone"
    assert second.experts.corpus is first.experts.corpus
