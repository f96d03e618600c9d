"""The back-off drafter with a look-up model: what it proposes, where it is asked, what it remembers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lookup_files import random_network, write_lookup
from small_ngrams import write_small_ngrams

from aded.core.step_cost import StepCost, TreeSizer
from aded.drafters.backoff.drafter import BackoffDrafter
from aded.errors import BadInput
from aded.files.datastores.ngram_file import NgramFile, open_ngrams
from aded.targets.weightless import WeightlessTarget

VOCABULARY = 50


@pytest.fixture(scope="module")
def datastore(tmp_path_factory: pytest.TempPathFactory) -> NgramFile:
    path = tmp_path_factory.mktemp("lookup") / "tiny.ngrams"
    return open_ngrams(write_small_ngrams(path, [np.tile(np.arange(10), 30)], VOCABULARY))


def drafter(datastore: NgramFile, **settings: Any) -> BackoffDrafter:
    settings = {"contexts": {"corpus": 4, "session": 5, "prompt": 6}, "budget": 16, **settings}
    return BackoffDrafter(datastore, **settings)


def sure_of(path: Path, token: int, tokenizer: str = "t") -> str:
    """The look-up file of a model that finds one token likely after any other."""
    network = random_network(VOCABULARY)
    with torch.no_grad():
        network.bias.fill_(-12)
        network.bias[0] = -0.1
    return str(write_lookup(path, network, first=token, tokenizer=tokenizer))


def test_a_lookup_model_proposes_what_it_is_sure_of(datastore: NgramFile, tmp_path: Path) -> None:
    path = sure_of(tmp_path / "l", 44)
    text = np.array([31, 33, 32, 30])
    trees = []
    for settings in ({}, {"lookup": path}):
        mine = drafter(datastore, **settings)
        mine.begin(text[:3])
        trees.append(mine.draft(text))
    without, tree = trees
    assert without.child(0, 44) is None
    first = tree.child(0, 44)
    assert first is not None, "nobody else has ever seen it"
    assert tree.probabilities is not None
    assert tree.probabilities[first] == max(tree.probabilities[1:])
    assert len(mine.describe()["lookup"]) == 32


def test_it_is_asked_where_a_step_takes_long_enough(datastore: NgramFile, tmp_path: Path) -> None:
    path = sure_of(tmp_path / "l", 44)
    text = np.array([31, 33, 32, 30])
    plain = drafter(datastore)
    for milliseconds, asked in ((100, True), (1, False)):
        mine = drafter(datastore, lookup=path)
        mine.tree_sizer = TreeSizer(StepCost(np.full(17, milliseconds / 1e3)))
        mine.setup(WeightlessTarget())
        for one in (mine, plain):
            one.begin(text[:3])
        tree = mine.draft(text)
        assert (tree.child(0, 44) is not None) == asked
        assert ("lookup" in mine.describe()) == asked
    np.testing.assert_array_equal(tree.tokens, plain.draft(text).tokens[: len(tree)])


def test_a_sibling_remembers_its_own_text(datastore: NgramFile, tmp_path: Path) -> None:
    path = str(write_lookup(tmp_path / "l", random_network(VOCABULARY)))
    text, other_text = np.random.default_rng(1).integers(20, size=(2, 60))
    alone, first = (drafter(datastore, lookup=path, adaptation="prompt") for _ in range(2))
    second = first.fork()
    for one, read in ((alone, text), (first, text), (second, other_text)):
        one.begin(read[:30])
    for n in range(31, 60):
        expected, found = alone.draft(text[:n]), first.draft(text[:n])
        second.draft(other_text[:n])
        np.testing.assert_array_equal(found.tokens, expected.tokens)
        np.testing.assert_array_equal(found.probabilities, expected.probabilities)


def test_a_conversation_that_goes_on_is_remembered_as_one_text(datastore: NgramFile, tmp_path: Path) -> None:
    path = str(write_lookup(tmp_path / "l", random_network(VOCABULARY)))
    text = np.random.default_rng(1).integers(20, size=40)
    whole, turns = (drafter(datastore, lookup=path, adaptation="session", contexts={}) for _ in range(2))
    whole.begin(text)
    for one in (text[:10], text[:25], text):
        turns.begin(one)
        turns.draft(one)
    np.testing.assert_array_equal(turns.scratch.memories[0], whole.scratch.memories[0])


def test_a_lookup_model_for_another_tokenizer_is_refused(datastore: NgramFile, tmp_path: Path) -> None:
    path = sure_of(tmp_path / "l", 44, "another")
    with pytest.raises(BadInput, match=r"^method\.lookup: .* was built with the tokenizer another"):
        drafter(datastore, lookup=path)
