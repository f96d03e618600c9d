"""The back-off drafter: what it learns, how much memory it takes, how large its trees are, what others add."""

from typing import Any, Literal

import numpy as np
import pytest
import torch
from small_ngrams import write_small_ngrams
from tiny import paths_of

from aded.core.decode import decode
from aded.core.drafter import Step
from aded.core.sampler import Recorded
from aded.core.step_cost import StepCost, TreeSizer
from aded.core.tree import DraftTree
from aded.drafters.backoff.candidates import MOST_EXTERNAL
from aded.drafters.backoff.contexts import empty_table
from aded.drafters.backoff.drafter import BackoffDrafter
from aded.drafters.mixing import mixed, new_mixing
from aded.errors import BadInput
from aded.files.datastores.ngram_file import NgramFile, open_ngrams
from aded.targets.weightless import WeightlessTarget

TOKENS = 50
"""Tokens of texts; external candidates have larger ones too."""
VOCABULARY = 5000
CONTEXTS = {"corpus": 4, "target": 3, "session": 5, "prompt": 6}
PLAIN: dict[str, Any] = {"copy": False, "skip_grams": False, "unigrams": False}
WEIGHTS = new_mixing().weights


@pytest.fixture(scope="module")
def datastore(tmp_path_factory: pytest.TempPathFactory) -> NgramFile:
    """After 0 comes 1, after 1 comes 2, and so on to 9; after 70 comes 71."""
    path = tmp_path_factory.mktemp("backoff") / "tiny.ngrams"
    return open_ngrams(write_small_ngrams(path, [np.tile(np.arange(10), 30), np.tile([70, 71], 30)], VOCABULARY))


def drafter(datastore: NgramFile, **settings: Any) -> BackoffDrafter:
    return BackoffDrafter(datastore, **{"contexts": CONTEXTS, "budget": 16, **settings})


def accepted(drafter: BackoffDrafter, prompt: np.ndarray, answer: np.ndarray) -> list[int]:
    """The accept length of each step that drafts, when the target answers `answer`."""
    recorded = Recorded(answer.tolist())
    return decode(WeightlessTarget(), drafter, prompt, recorded, max_new_tokens=len(answer)).accept_lengths


def probabilities_of(tree: DraftTree) -> np.ndarray:
    assert tree.probabilities is not None
    return tree.probabilities


def test_probabilities_fall_along_a_path_and_siblings_share_their_parent(datastore: NgramFile) -> None:
    mine = drafter(datastore)
    text = np.random.default_rng(1).integers(4, size=300)
    mine.begin(text[:200])
    for n in range(201, 300):
        tree = mine.draft(text[:n])
        probabilities = probabilities_of(tree)
        assert probabilities[0] == 1
        assert (np.diff(probabilities) <= 1e-12).all(), "most probable first"
        children = np.zeros(len(probabilities))
        np.add.at(children, tree.parents[1:], probabilities[1:])
        assert (children <= probabilities * (1 + 1e-9)).all()


def test_corpus_and_copies_draft_and_without_any_source_nothing_is_drafted(datastore: NgramFile) -> None:
    mine = drafter(datastore, adaptation="off")
    assert min(accepted(mine, np.array([3, 4]), np.arange(5, 25) % 10)[:-1]) > 2
    span = np.append(np.random.default_rng(2).integers(10, TOKENS, size=60), 48)
    assert max(accepted(drafter(datastore), span, np.tile(span, 3))) >= 10, "a copied span is a long chain"
    none = drafter(datastore, copy=False, unigrams=False, contexts={})
    assert set(accepted(none, span, np.tile(span, 3))[:-1]) == {1}


def test_how_many_prompts_were_forgotten_changes_no_draft(datastore: NgramFile) -> None:
    """Tables so full that contexts drive each other out of their buckets."""
    answer = np.random.default_rng(0).integers(TOKENS, size=300)
    old, new = (drafter(datastore, adaptation="prompt") for _ in range(2))
    for made in (old, new):
        made.experts = made.experts._replace(prompt=empty_table(64))
        made._read_nothing()
    for _ in range(20):
        old.begin(np.arange(5))
    assert accepted(old, np.arange(9), np.tile(answer, 2)) == accepted(new, np.arange(9), np.tile(answer, 2))


def test_of_equal_copies_the_latest_is_gone_on_with(datastore: NgramFile) -> None:
    mine, span = drafter(datastore, contexts={}, unigrams=False, budget=1), np.arange(20, 30)
    text = np.concatenate([[1], span, [40, 2], span, [41, 3], span])
    mine.begin(text)
    assert mine.draft(text).tokens.tolist() == [29, 41]


@pytest.mark.parametrize("adaptation", ["prompt", "session"])
def test_another_prompt_and_a_fork_know_nothing_of_this_one(datastore: NgramFile, adaptation: str) -> None:
    mine, new = (drafter(datastore, adaptation=adaptation) for _ in range(2))
    mine.begin(np.arange(9))
    for made in (mine, new):
        made.begin(np.arange(3, 12))
    assert mine.experts.unigrams.prompt.tolist() == new.experts.unigrams.prompt.tolist()
    experts, other = mine.experts, mine.fork().experts
    assert (other.target.tags is experts.target.tags) == (adaptation == "session")
    assert not np.shares_memory(other.prompt.tags, experts.prompt.tags)


def test_each_node_names_the_sources_that_knew_it(datastore: NgramFile) -> None:
    mine, prompt = drafter(datastore, contexts={"prompt": 6}), np.array([*range(20, 32), 1, 2, *range(20, 30)])
    assert mine.node_parts(DraftTree.root(3)) == [""], "nothing is drafted yet"
    mine.begin(prompt)
    tree = mine.draft(prompt)
    assert mine.node_parts(tree)[tree.tokens.tolist().index(30)] == "prompt 6, copy"
    only_corpus = drafter(datastore, contexts={"corpus": 4}, **PLAIN)
    only_corpus.begin(np.arange(4))
    for tree in (only_corpus.draft(np.arange(4)), only_corpus.draft(np.arange(4)).up_to_depth(2)):
        assert only_corpus.node_parts(tree)[:2] == ["", "corpus 4"]
        assert len(only_corpus.node_parts(tree)) == len(tree)


def test_the_targets_distributions_are_drafted_also_those_at_rejected_nodes(datastore: NgramFile) -> None:
    def step(tree: DraftTree, *best: int) -> Step:
        logits = torch.full((len(best), VOCABULARY), -9.0)
        logits[range(len(best)), best] = 9.0
        return Step(tree, [0], best[0], logits)

    rejected, alone = (drafter(datastore, contexts={"target": 3}, copy=False) for _ in range(2))
    for mine in (rejected, alone):
        mine.begin(np.array([20, 21]))
        mine.draft(np.array([20, 21, 30]))
    # Node 1 is rejected; the target's choice after it is stored all the same.
    rejected.observe(step(DraftTree(np.array([30, 40]), np.array([-1, 0])), 31, 32))
    rejected.draft(np.array([20, 21, 30, 31]))
    assert rejected.draft(np.array([20, 21, 30, 31, 40])).tokens[:2].tolist() == [40, 32]
    # After steps without a draft, the last one is read behind its own text.
    for root in (30, 31, 32):
        alone.observe(step(DraftTree.root(root), root + 1))
    alone.draft(np.array([20, 21, 30, 31, 32, 33]))
    tree = alone.draft(np.array([20, 21, 30, 31, 32, 33, 30, 31, 32]))
    assert tree.tokens[:2].tolist() == [32, 33]
    assert alone.node_parts(tree)[1] == "target 3"


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
    assert tuple(range(32, 40)) in paths_of(mine.draft(np.array([45, 30, 31])))
    mine.observe(Step(DraftTree.root(31), [0], 32))
    mine.begin(text[:2])  # the answer before it was given up
    mine.end()
    assert mine.context.tolist() == text[:2].tolist()


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
    mine = drafter(datastore, contexts={"prompt": 6}, **PLAIN)
    text = np.random.default_rng(7).integers(TOKENS, size=20_000)
    mine.begin(text)
    context, known = text, 0
    for start in range(0, 1000, 10):
        context = np.concatenate([context, text[start : start + 6]])
        known += int(text[start + 6]) == mine.draft(context).tokens[1]
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
        some, probabilities = (probabilities_of(mine.draft(text[:n])) for mine in (early, whole))
        assert some.tolist() == probabilities[: len(some)].tolist()
        assert len(some) >= cost.best_size(probabilities, size.rate)
        shorter += len(some) < len(probabilities)
    assert shorter > 0


def test_the_next_turn_reads_only_the_new_tokens(datastore: NgramFile) -> None:
    text = np.random.default_rng(6).integers(10, TOKENS, size=90)
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


@pytest.mark.parametrize(("contexts", "key"), [({"corpus": 5}, r"\.corpus: 5 must"), ({"copy": 1}, ": copy is none")])
def test_wrong_contexts_are_named(datastore: NgramFile, contexts: dict[str, int], key: str) -> None:
    with pytest.raises(BadInput, match=rf"^method\.contexts{key}"):
        drafter(datastore, contexts=contexts)


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
        of_chain, of_tree, node = probabilities_of(chain), probabilities_of(tree), 0
        for depth in range(1, len(chain)):
            children = of_tree[tree.parents == node]
            child = tree.child(node, int(chain.tokens[depth]))
            if child is None:
                break  # too improbable for the tree
            node = child
            assert of_tree[node] == children.max() == of_chain[depth]
            compared += 1
    assert compared > 200


def test_a_chain_stops_where_a_further_token_does_not_pay(datastore: NgramFile) -> None:
    mine = drafter(datastore, shape="chain", budget=8)
    mine.begin(np.arange(20) % 10)
    probabilities = probabilities_of(mine.draft(np.arange(21) % 10))
    assert len(probabilities) == 9
    # Each further node costs what a draft twice as probable as the chain's fourth yields, at one token per second.
    price = 1.001 * float(probabilities[4]) / TreeSizer.LEEWAY
    mine.tree_sizer = TreeSizer(StepCost(1.0 + price * np.arange(9)))
    assert mine.draft(np.arange(21) % 10).drafted == 3


def test_siblings_share_what_answers_teach_and_not_their_prompts(datastore: NgramFile) -> None:
    span = np.random.default_rng(3).permutation(np.arange(10, TOKENS))
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


CONTEXT = np.array([3, 4])


def behind_4(datastore: NgramFile, **settings: Any) -> BackoffDrafter:
    made = drafter(datastore, **{"contexts": {"corpus": 4}, "unigrams": False, "budget": 64, **settings})
    made.begin(CONTEXT)
    return made


def beside(
    drafter: BackoffDrafter, tokens: list[int], parents: list[int], probabilities: list[float]
) -> tuple[DraftTree, np.ndarray]:
    others = DraftTree(np.array([4, *tokens]), np.array([-1, *parents]), np.array([1.0, *probabilities]))
    found = drafter.draft_with_candidates(CONTEXT, others, WEIGHTS)
    assert found is not None
    return found


def node_at(tree: DraftTree, *tokens: int) -> int:
    return 1 + paths_of(tree).index(tokens)


def test_below_an_external_candidate_the_search_goes_on(datastore: NgramFile) -> None:
    tree, own = beside(behind_4(datastore, depth=4), [70, 40], [0, 1], [0.5, 0.4])
    for path, its_own in ([5], True), ([70], False), ([70, 71], True), ([70, 40], False):
        assert (own[node_at(tree, *path)] > 0) == its_own


def test_probabilities_are_mixed_where_both_draft_and_stand_where_one_does(datastore: NgramFile) -> None:
    alone = behind_4(datastore, budget=16).draft(CONTEXT)
    tree, own = beside(behind_4(datastore), [5, 40], [0, 0], [0.5, 0.3])
    single = alone.given_parent[node_at(alone, 5)]
    assert own[node_at(tree, 5)] == single
    assert tree.given_parent[node_at(tree, 5)] == pytest.approx(mixed(WEIGHTS, single, 0.5))
    assert tree.given_parent[node_at(tree, 40)] == pytest.approx(mixed(WEIGHTS, 0.0, 0.3))
    assert tree.given_parent[node_at(tree, 5, 6)] == pytest.approx(alone.given_parent[node_at(alone, 5, 6)])


def test_external_candidates_are_weighed_against_the_budget_of_one_draft(datastore: NgramFile) -> None:
    mine, fresh = (behind_4(datastore, budget=3, depth=2) for _ in range(2))
    tree, _ = beside(mine, [40, 41], [0, 0], [0.9, 1e-6])
    assert tree.child(0, 40) is not None
    assert tree.child(0, 41) is None
    assert tree.drafted == 3
    assert mine.draft(CONTEXT).tokens.tolist() == fresh.draft(CONTEXT).tokens.tolist()
    chain = behind_4(datastore, shape="chain")
    assert chain.draft_with_candidates(CONTEXT, tree, WEIGHTS) is None, "a chain does without them"


def test_of_too_many_external_candidates_the_first_are_weighed(datastore: NgramFile) -> None:
    """Also more siblings than one mixture has candidates."""
    ranks = np.arange(MOST_EXTERNAL + 100)
    probabilities = (0.9 / (1 + ranks)).tolist()
    tree, own = beside(behind_4(datastore), (100 + ranks).tolist(), [0] * len(ranks), probabilities)
    assert tree.child(0, 100) is not None
    assert tree.drafted == 64
    assert len(own) == len(tree)
