"""Rare n-grams against a plain search, ranking against BM25 by its formula, what is read of the nearest passages."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from from_python import compiled
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny import tiny_tokenizer

from aded.drafters.backoff import contexts, retrieval
from aded.drafters.backoff.candidates import NEAREST
from aded.drafters.backoff.contexts import ROW
from aded.drafters.backoff.drafter import BackoffDrafter
from aded.drafters.backoff.retrieval import (
    K1,
    MOST_PASSAGES,
    PASSAGE,
    RARE,
    REFRESH,
    SPAN,
    Library,
    Nearest,
    no_library,
    open_library,
    open_nearest,
)
from aded.errors import BadInput
from aded.files.datastores.array_file import write_arrays
from aded.files.datastores.cleaning import Check, contamination_to_header
from aded.files.datastores.ngram_file import no_ngrams, open_ngrams
from aded.files.datastores.suffix_file import FORMAT, VERSION, open_suffixes
from datastore.builder import with_separators, write_suffixes
from datastore.ngrams import count_ngrams, write_ngrams

update_bm25_scores, rank = compiled(retrieval.update_bm25_scores), compiled(retrieval.rank)
read_waiting = compiled(retrieval.read_waiting)
extend_hash, find = compiled(contexts.extend_hash), compiled(contexts.find)
rare_ngram = compiled(retrieval.rare_ngram)
VOCABULARY = 3000
HEADER = {"tokenizer": "t", "vocabulary": str(VOCABULARY)}
RANDOM = np.random.default_rng(0)
# Each document has words of its own beside those of all.
DOCUMENTS = [
    np.where(
        RANDOM.random(700) < 0.5, RANDOM.integers(20, size=700), 20 + 25 * number + RANDOM.integers(25, size=700)
    )
    for number in range(100)
]
STREAM = with_separators(DOCUMENTS, VOCABULARY)
FEW = 12
# Tokens 0 and 1 are frequent, also one after the other; all others are rare.
FREQUENT = with_separators(
    [np.where(RANDOM.random(m) < 0.9, RANDOM.integers(2, size=m), RANDOM.integers(FEW, size=m))
     for m in (16000, 1, 24000)], FEW)  # fmt: skip


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    path: Path = tmp_path_factory.mktemp("rare") / "tiny.suffixes"
    write_suffixes(path, FREQUENT, {"tokenizer": "t", "vocabulary": str(FEW)})
    return open_library(open_suffixes(path).corpus, FEW)


def occurrences(ngram: list[int]) -> list[int]:
    """Where the n-gram begins."""
    here = np.ones(len(FREQUENT) - len(ngram) + 1, bool)
    for offset, token in enumerate(ngram):
        here &= FREQUENT[offset : offset + len(here)] == token
    return np.flatnonzero(here).tolist()


@given(st.lists(st.integers(0, FEW + 3), min_size=SPAN, max_size=SPAN + 3))
def test_the_shortest_rare_ngram_is_found_with_all_its_occurrences(library: Library, text: list[int]) -> None:
    at = len(text) - SPAN
    start, end = rare_ngram(library, np.array(text), at)
    found = sorted(library.corpus.suffixes[start:end].tolist())
    every = [occurrences(text[at : at + span]) for span in range(1, SPAN + 1)] if text[at] < FEW else [[]]
    assert found == next((places for places in every if len(places) <= RARE), [])
    assert rare_ngram(no_library(), np.array(text), at) == (0, 0), "there is no corpus"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("passages") / "tiny.suffixes"
    write_suffixes(path, STREAM, HEADER)
    return path


@pytest.fixture
def nearest(path: Path) -> Nearest:
    return open_nearest(open_suffixes(path))


def score_all(nearest: Nearest, text: np.ndarray) -> None:
    for i in range(len(text)):
        update_bm25_scores(nearest, text, i)


def by_formula(nearest: Nearest, text: np.ndarray) -> np.ndarray:
    """The score of each passage."""
    scores = np.zeros(-(-len(STREAM) // PASSAGE))
    for at in range(len(text) - SPAN + 1):
        start, end = rare_ngram(nearest.library, text, at)
        passages = Counter((nearest.library.corpus.suffixes[start:end] // PASSAGE).tolist())
        idf = np.log(1 + (len(scores) - len(passages) + 0.5) / (len(passages) + 0.5))
        for passage, tf in passages.items():
            scores[passage] += idf * tf * (K1 + 1) / (tf + K1)
    return scores


def test_passages_are_ranked_by_bm25(nearest: Nearest) -> None:
    text = DOCUMENTS[40][100:160]
    score_all(nearest, text)
    expected = by_formula(nearest, text)
    np.testing.assert_allclose(nearest.scores, expected, rtol=1e-3)
    assert not nearest.times.any(), "nothing is left of the last n-gram"
    rank(nearest)
    best = np.argsort(-nearest.scores, kind="stable")[:MOST_PASSAGES]
    best = best[nearest.scores[best] > 0]
    waiting = nearest.queue[: nearest.counters[1]]
    np.testing.assert_array_equal(waiting, best)
    assert waiting[0] == (40 * 701 + 130) // PASSAGE


def test_each_passage_is_read_once_and_never_beyond_its_document(nearest: Nearest) -> None:
    score_all(nearest, DOCUMENTS[7][:40])
    rank(nearest)
    read = nearest.queue[:2].tolist()
    for _ in range(2):
        read_waiting(nearest, 2, 1)
        rank(nearest)
    followed: dict[tuple[int, ...], Counter[int]] = {}
    for passage in (STREAM[first * PASSAGE : (first + 1) * PASSAGE] for first in read):
        for i in range(1, len(passage)):
            for context in {tuple(passage[i - 1 : i]), tuple(passage[max(0, i - 2) : i])}:
                followed.setdefault(context, Counter())[passage[i]] += 1
    beyond = [context for context in followed if VOCABULARY in context]
    assert beyond, "one of the two passages goes on in another document"
    for context, after in followed.items():
        hashed = np.uint64(0)
        for token in reversed(context):
            hashed = np.uint64(extend_hash(hashed, int(token)))
        slot = find(nearest.table, hashed)
        del after[VOCABULARY]
        if context in beyond or not after:
            assert slot < 0
        elif len(after) <= ROW:
            row = zip(*nearest.table.rows[slot], strict=True)
            assert {token: weight for token, weight in row if weight} == after


def drafter(path: Path, **changes: Any) -> BackoffDrafter:
    usual = {"contexts": {"nearest": 4, "prompt": 6}, "retrieval": str(path)}
    return BackoffDrafter(no_ngrams(), **{**usual, **changes})


def test_the_drafter_continues_the_passage_that_the_prompt_is_from(path: Path) -> None:
    text = DOCUMENTS[20]
    mine = drafter(path)
    mine.begin(text[:60])
    tree = mine.draft(text[:61])
    node = tree.child(0, int(text[61]))
    assert node is not None
    assert mine.node_parts(tree)[node].startswith("nearest")
    for end in range(62, 62 + 2 * REFRESH):
        mine.draft(text[:end])
    assert mine.nearest.counters[0] < REFRESH, "ranked again"
    for other_settings in ({"adaptation": "off"}, {"retrieval": None}, {"contexts": {"prompt": 6}}):
        other = drafter(path, **other_settings)
        assert not other.experts.options.longest[NEAREST]
        assert "retrieval" not in other.describe()
    assert mine.describe()["retrieval"] == open_suffixes(path).header["fingerprint"]
    # A text that goes on keeps its scores, and another begins anew.
    text, mine = DOCUMENTS[20], drafter(path, adaptation="session")
    mine.begin(text[:50])
    for end in range(51, 80):
        mine.draft(text[:end])
    for prompt in (text[:120], DOCUMENTS[30][:90]):
        mine.begin(prompt)
        np.testing.assert_allclose(mine.nearest.scores, by_formula(mine.nearest, prompt), rtol=1e-3)


def test_questions_count_as_checked_where_both_corpora_were(path: Path, tmp_path: Path) -> None:
    checked = {**HEADER, **contamination_to_header({"mt_bench": Check(80, "0" * 16, True, {})})}
    write_suffixes(tmp_path / "checked", STREAM, checked)
    write_ngrams(tmp_path / "ngrams", count_ngrams([np.arange(9)], 5, VOCABULARY), checked)
    ngrams = open_ngrams(tmp_path / "ngrams")
    for corpus, says in ((tmp_path / "checked", "mt_bench 0 of 80"), (path, None)):
        mine = BackoffDrafter(ngrams, contexts={"nearest": 4}, retrieval=str(corpus))
        assert mine.describe().get("datastore_questions") == says
    # A wrong file is named by its key.
    with pytest.raises(BadInput, match=r"^method.retrieval: no file"):
        drafter(tmp_path / "missing")
    write_ngrams(tmp_path / "other", count_ngrams([np.arange(9)], 5, VOCABULARY), {**HEADER, "tokenizer": "another"})
    with pytest.raises(BadInput, match=r"^method.retrieval: .* was built with the tokenizer"):
        BackoffDrafter(open_ngrams(tmp_path / "other"), contexts={"nearest": 4}, retrieval=str(path))
    with pytest.raises(BadInput, match=r"^method.retrieval: .* was built with the tokenizer"):
        drafter(path).check_tokenizer(tiny_tokenizer())


@given(st.lists(st.integers(-(2**31), 2**31 - 1), min_size=40, max_size=40))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
def test_a_crafted_file_leads_nowhere(tmp_path: Path, suffixes: list[int]) -> None:
    """Its checksums are right, and its suffixes are not sorted, or no places of its text at all."""
    tokens, header = np.arange(40, dtype=np.uint16) % 7, {"format": FORMAT, "version": VERSION, **HEADER}
    write_arrays(tmp_path / "crafted", header, {"tokens": tokens, "suffixes": np.array(suffixes, np.int32)})
    nearest = open_nearest(open_suffixes(tmp_path / "crafted"))
    score_all(nearest, np.arange(60) % 7)
    rank(nearest)
    read_waiting(nearest, 4, MOST_PASSAGES)
    assert len(nearest.scores) == 1
    assert np.isfinite(nearest.scores).all()


def test_a_damaged_block_is_named_and_nothing_of_it_is_drafted(path: Path, tmp_path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "damaged").write_bytes(content)
    mine = drafter(tmp_path / "damaged")
    with pytest.raises(BadInput, match=r"^method\.retrieval: .*is damaged"):  # noqa: PT012 - one of the prompts comes upon it
        for document in DOCUMENTS:
            mine.begin(document[:60])
            mine.draft(document[:61])
