"""The back-off search with candidates of other drafters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from small_ngrams import write_small_ngrams
from tiny import paths_of

from aded.core.tree import DraftTree
from aded.drafters.backoff.drafter import BackoffDrafter
from aded.drafters.backoff.external_candidates import MOST_EXTERNAL
from aded.drafters.mixing import mixed, new_mixing
from aded.files.datastores.ngram_file import NgramFile, open_ngrams

VOCABULARY = 5000


@pytest.fixture(scope="module")
def datastore(tmp_path_factory: pytest.TempPathFactory) -> NgramFile:
    """After 0 comes 1, after 1 comes 2, and so on to 9; after 30 comes 31."""
    path = tmp_path_factory.mktemp("external") / "tiny.ngrams"
    return open_ngrams(write_small_ngrams(path, [np.tile(np.arange(10), 30), np.tile([30, 31], 30)], VOCABULARY))


def drafter(datastore: NgramFile, **settings: Any) -> BackoffDrafter:
    plain = {"contexts": {"corpus": 4}, "unigrams": False, "budget": 16}
    made = BackoffDrafter(datastore, **{**plain, **settings})
    made.begin(np.array([3, 4]))
    return made


def others(tokens: list[int], parents: list[int], probabilities: list[float]) -> DraftTree:
    return DraftTree(np.array([4, *tokens]), np.array([-1, *parents]), np.array([1.0, *probabilities]))


def node_at(tree: DraftTree, *tokens: int) -> int:
    return 1 + paths_of(tree).index(tokens)


CONTEXT = np.array([3, 4])
WEIGHTS = new_mixing().weights


def beside(drafter: BackoffDrafter, others: DraftTree) -> tuple[DraftTree, np.ndarray]:
    found = drafter.draft_with_candidates(CONTEXT, others, WEIGHTS)
    assert found is not None
    return found


def test_below_an_external_candidate_the_search_goes_on(datastore: NgramFile) -> None:
    tree, own = beside(drafter(datastore, budget=64, depth=4), others([30, 40], [0, 1], [0.5, 0.4]))
    for path, its_own in ([5], True), ([30], False), ([30, 31], True), ([30, 40], False):
        assert (own[node_at(tree, *path)] > 0) == its_own


def test_probabilities_are_mixed_where_both_draft_and_stand_where_one_does(datastore: NgramFile) -> None:
    alone = drafter(datastore).draft(CONTEXT)
    tree, own = beside(drafter(datastore, budget=64), others([5, 40], [0, 0], [0.5, 0.3]))
    single = alone.given_parent[node_at(alone, 5)]
    assert own[node_at(tree, 5)] == single
    assert tree.given_parent[node_at(tree, 5)] == pytest.approx(mixed(WEIGHTS, single, 0.5))
    assert tree.given_parent[node_at(tree, 40)] == pytest.approx(mixed(WEIGHTS, 0.0, 0.3))
    assert tree.given_parent[node_at(tree, 5, 6)] == pytest.approx(alone.given_parent[node_at(alone, 5, 6)])


def test_external_candidates_are_weighed_against_the_budget(datastore: NgramFile) -> None:
    tree, _ = beside(drafter(datastore, budget=3, depth=2), others([40, 41], [0, 0], [0.9, 1e-6]))
    assert tree.child(0, 40) is not None
    assert tree.child(0, 41) is None
    assert tree.drafted == 3


def test_external_candidates_last_for_one_draft(datastore: NgramFile) -> None:
    mine = drafter(datastore)
    beside(mine, others([40], [0], [0.9]))
    again, fresh = mine.draft(CONTEXT), drafter(datastore).draft(CONTEXT)
    assert again.tokens.tolist() == fresh.tokens.tolist()


def test_of_too_many_external_candidates_the_first_are_weighed(datastore: NgramFile) -> None:
    """Also more siblings than one mixture has candidates."""
    count = MOST_EXTERNAL + 100
    tokens = (100 + np.arange(count)).tolist()
    external = others(tokens, [0] * count, (0.9 / (1 + np.arange(count))).tolist())
    tree, own = beside(drafter(datastore, budget=64), external)
    assert tree.child(0, 100) is not None
    assert tree.drafted == 64
    assert len(own) == len(tree)


def test_a_chain_does_without_external_candidates(datastore: NgramFile) -> None:
    assert drafter(datastore, shape="chain").draft_with_candidates(CONTEXT, others([40], [0], [0.9]), WEIGHTS) is None
