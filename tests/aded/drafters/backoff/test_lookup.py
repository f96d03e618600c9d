"""The look-up model: compiled code against its formula and the network that learned it; what a drafter has of it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lookup_files import random_network, write_lookup
from small_ngrams import write_small_ngrams, write_small_suffixes

from aded.core.step_cost import StepCost, TreeSizer
from aded.drafters.backoff.candidates import LOOKUP
from aded.drafters.backoff.drafter import BackoffDrafter
from aded.drafters.backoff.experts import FROM_NATURAL_LOG
from aded.drafters.backoff.lookup import LEAST, score_of
from aded.errors import BadInput
from aded.files.datastores.array_file import write_arrays
from aded.files.datastores.lookup_file import ADD, FORMAT, HIDDEN, KEEP, PAST, VERSION, LookupModel, open_lookup
from aded.files.datastores.ngram_file import NgramFile, open_ngrams
from aded.targets.weightless import WeightlessTarget

VOCABULARY = 70
TEXT = np.array([31, 33, 32, 30])


@pytest.fixture(scope="module")
def datastore(tmp_path_factory: pytest.TempPathFactory) -> NgramFile:
    path = tmp_path_factory.mktemp("lookup") / "tiny.ngrams"
    return open_ngrams(write_small_ngrams(path, [np.tile(np.arange(10), 30)], VOCABULARY))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_lookup(tmp_path / "l", random_network(VOCABULARY), first=7)


@pytest.fixture
def sure_of_44(tmp_path: Path) -> str:
    """The look-up file of a model that finds one token likely after any other."""
    network = random_network(VOCABULARY)
    with torch.no_grad():
        network.bias.fill_(-12)
        network.bias[0] = -0.1
    return str(write_lookup(tmp_path / "sure", network, first=44))


def drafter(datastore: NgramFile, **settings: Any) -> BackoffDrafter:
    return BackoffDrafter(
        datastore, **{"contexts": {"corpus": 4, "session": 5, "prompt": 6}, "budget": 16, **settings}
    )


def after(datastore: NgramFile, path: Path, text: list[int]) -> tuple[BackoffDrafter, np.ndarray]:
    """A drafter that has scored what follows a text, and the scores of all rows."""
    mine = drafter(datastore, lookup=str(path), contexts={}, budget=1)
    mine.begin(np.array(text))
    mine.draft(np.array(text))
    lookup = mine.experts.lookup
    return mine, np.array([score_of(lookup, row) for row in range(len(lookup.model.bias))])


def numbers(bits: np.ndarray) -> np.ndarray:
    """Of bfloat16, float64."""
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def by_formula(model: LookupModel, text: list[int]) -> np.ndarray:
    """float64 [R]: the scores after a text, as the module's docstring has them."""
    tables, rows = numbers(model.tables), [int(model.rows[token]) for token in text]
    separator = int(model.rows[-1])
    memory = tables[separator, ADD]
    for row in rows:
        memory = tables[row, KEEP] * memory + tables[row, ADD]
    last = ([separator] * PAST + rows)[: -PAST - 1 : -1]
    first = np.maximum(0, model.b + sum(tables[row, i] for i, row in enumerate(last)) + model.c * memory)
    second = np.maximum(0, first @ model.w1 + model.b1)
    hidden = np.concatenate([first, second])
    y = hidden @ model.w2 + model.b2
    y = (y - y.mean()) / np.sqrt(y.var() + 1e-5)
    scores: np.ndarray = numbers(model.output) @ y + model.bias + hidden @ model.level
    return scores


def test_compiled_scores_are_those_of_the_formula(datastore: NgramFile, path: Path) -> None:
    model = open_lookup(path).model
    for text in ([3], list(range(20)), [5, 5, 69, 0] * 9):
        expected = by_formula(model, text)
        mine, scores = after(datastore, path, text)
        lookup, candidates = mine.experts.lookup, mine.scratch.candidates
        assert lookup.frequent.tolist() == [*range(7, 70), 0], "whole tiles, in the order of rows"
        np.testing.assert_allclose(scores, np.clip(expected, LEAST, 0), atol=1e-4)
        np.testing.assert_allclose(lookup.scores, expected[: len(lookup.scores)], atol=1e-4)
        rows = model.rows[candidates.tokens[: candidates.sizes[0]]]
        features = candidates.feature_experts[: candidates.sizes[1]] == LOOKUP
        logarithms = candidates.feature_values[: candidates.sizes[1]][features, 0] / FROM_NATURAL_LOG
        np.testing.assert_allclose(logarithms, np.clip(expected[rows], LEAST, 0), atol=1e-4)
        assert len(logarithms) > 5


def test_they_are_those_of_the_network_that_learned_it(datastore: NgramFile, tmp_path: Path) -> None:
    network = random_network(VOCABULARY)
    text = np.random.default_rng(0).integers(VOCABULARY, size=40).tolist()
    rows = torch.tensor([[VOCABULARY] * PAST + text])
    with torch.no_grad():
        y, level, _ = network(rows, torch.zeros(1, HIDDEN))
        expected = y[0, -1] @ network.embedding.T + network.bias + level[0, -1]
    _, scores = after(datastore, write_lookup(tmp_path / "l", network), text)
    np.testing.assert_allclose(scores, expected.numpy().clip(LEAST, 0), atol=0.05)
    # Weights that are no numbers make scores that are.
    network = random_network(VOCABULARY)
    with torch.no_grad():
        network.w2.fill_(torch.nan)
    mine, scores = after(datastore, write_lookup(tmp_path / "l", network), [1, 2])
    assert (scores == LEAST).all()
    assert np.isfinite(mine.scratch.candidates.evidence[LOOKUP]).all()


def test_a_damaged_or_foreign_file_is_refused(datastore: NgramFile, path: Path, tmp_path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(BadInput, match="is damaged"):
        open_lookup(path)
    write_small_suffixes(tmp_path / "s", [np.arange(9)], 9)
    with pytest.raises(BadInput, match="is a suffix file, and a look-up file is needed"):
        open_lookup(tmp_path / "s")
    network = random_network(VOCABULARY)
    header = {"format": FORMAT, "version": VERSION, "tokenizer": "t", "vocabulary": str(VOCABULARY)}
    for rows in (np.zeros(VOCABULARY + 1, np.int32), np.arange(1, VOCABULARY + 2, dtype=np.int32)):
        write_arrays(path, header, {"rows": rows, **network.tables()})  # frequent tokens share a row
        with pytest.raises(BadInput, match="its arrays do not fit together"):
            open_lookup(path)
    write_lookup(path, network, tokenizer="another")
    with pytest.raises(BadInput, match=r"^method\.lookup: .* was built with the tokenizer another"):
        drafter(datastore, lookup=str(path))


def test_it_proposes_what_it_is_sure_of_where_a_step_takes_long_enough(datastore: NgramFile, sure_of_44: str) -> None:
    plain = drafter(datastore)
    plain.begin(TEXT[:3])
    without = plain.draft(TEXT)
    assert without.child(0, 44) is None, "nobody else has ever seen it"
    for milliseconds, asked in ((None, True), (100, True), (1, False)):
        mine = drafter(datastore, lookup=sure_of_44)
        if milliseconds is not None:
            mine.tree_sizer = TreeSizer(StepCost(np.full(17, milliseconds / 1e3)))
        mine.setup(WeightlessTarget())
        mine.begin(TEXT[:3])
        tree = mine.draft(TEXT)
        assert (tree.child(0, 44) == 1) == asked, "the most probable node"
        assert len(mine.describe().get("lookup", "")) == 32 * asked
    assert tree.tokens.tolist() == without.tokens[: len(tree)].tolist()


def test_two_answers_at_once_are_as_one_after_the_other(datastore: NgramFile, path: Path, tmp_path: Path) -> None:
    texts = np.random.default_rng(1).integers(20, size=(2, 60))
    retrieval = write_small_suffixes(tmp_path / "s", [texts[0]], VOCABULARY)
    settings: dict[str, Any] = {"lookup": str(path), "retrieval": str(retrieval), "adaptation": "prompt"}
    alone, first = (drafter(datastore, contexts={"nearest": 4, "prompt": 6}, **settings) for _ in range(2))
    both = first, first.fork()
    for text, mine, other in zip(texts, both, both[::-1], strict=True):
        for one, read in ((alone, text), (mine, text), (other, texts[1])):
            one.begin(read[:30])
        for n in range(31, 60):
            other.draft(texts[1][:n])
            expected, found = alone.draft(text[:n]), mine.draft(text[:n])
            np.testing.assert_array_equal(found.tokens, expected.tokens)
            np.testing.assert_array_equal(found.probabilities, expected.probabilities)


def test_a_conversation_that_goes_on_is_remembered_as_one_text(datastore: NgramFile, path: Path) -> None:
    text = np.random.default_rng(1).integers(20, size=40)
    whole, turns = (drafter(datastore, lookup=str(path), contexts={}) for _ in range(2))
    whole.begin(text)
    for one in (text[:10], text[:25], text):
        turns.begin(one)
        turns.draft(one)
    np.testing.assert_array_equal(turns.scratch.memories[0], whole.scratch.memories[0])
