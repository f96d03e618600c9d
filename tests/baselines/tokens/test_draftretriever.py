import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tiny import paths_of

from aded.files.datastores.ngram_file import NgramFile
from baselines.tokens.draftretriever import DraftRetriever, index_fields
from datastore.ngrams import count_ngrams

draftretriever = pytest.importorskip("draftretriever", reason="the baseline is not installed")
VOCABULARY = 40
DOCUMENT = [10, 11, 12, 13, 10, 11, 12, 14, 10, 11, 12, 13, 15, 16, 17, 18]


def datastore(documents: list[list[int]]) -> NgramFile:
    counts = count_ngrams([np.array(ids) for ids in documents], 3, VOCABULARY)
    fingerprint = f"{hash(str(documents)) & (2**64 - 1):016x}"
    return replace(counts, header={**counts.header, "fingerprint": fingerprint})


def pairs_of(index: bytes) -> dict[tuple[int, int], dict[int, float]]:
    """The successors of each pair in the package's index."""
    fields = np.frombuffer(index, np.uint32)
    found, at = {}, 2
    for _ in range(int(fields[:2].view(np.uint64)[0])):
        a, b, size = int(fields[at]), int(fields[at + 1]), int(fields[at + 2 : at + 4].view(np.uint64)[0])
        row = fields[at + 4 : at + 4 + 2 * size].reshape(-1, 2)
        found[a, b] = dict(zip(row[:, 0].tolist(), row[:, 1].view(np.float32).tolist(), strict=True))
        at += 4 + 2 * size
    assert at == len(fields)
    return found


@pytest.fixture
def drafter(tmp_path: Path) -> Iterator[DraftRetriever]:
    made = DraftRetriever(datastore([DOCUMENT]), cache=str(tmp_path))
    yield made
    made.close()


def test_the_index_equals_the_packages_own(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    documents = [(rng.zipf(1.5, size=400) % VOCABULARY).tolist() for _ in range(5)] + [[1], []]
    writer = draftretriever.Writer(str(tmp_path / "theirs"), vocab_size=VOCABULARY)
    for ids in documents:
        writer.add_entry(ids)
    writer.finalize()
    ours = pairs_of(index_fields(datastore(documents)).tobytes())
    theirs = pairs_of((tmp_path / "theirs").read_bytes())
    assert ours == theirs
    assert len(ours) > 100


def test_drafts_are_paths_of_the_corpus_and_an_unknown_context_has_none(drafter: DraftRetriever) -> None:
    drafter.begin(np.array([10]))
    tree = drafter.draft(np.array([20, 10, 11]))
    longest = {(12, 13, 10, 11), (12, 13, 15, 16), (12, 14, 10, 11)}
    assert set(paths_of(tree)) == {path[:end] for path in longest for end in range(1, 5)}
    for context in ([5], [5, 6], [30, 11]):
        assert drafter.draft(np.array(context)).tokens.tolist() == context[-1:]


@pytest.mark.parametrize(("scope", "kept"), [("session", True), ("prompt", False)])
def test_what_it_learns_is_kept_for_its_scope(tmp_path: Path, scope: str, kept: bool) -> None:
    made = DraftRetriever(datastore([DOCUMENT]), cache=str(tmp_path), adaptation=scope)  # type: ignore[arg-type]
    here = np.array([20, 21])
    assert 22 in made.draft(np.array([20, 21, 22, 23, 20, 21])).tokens, "it adapts before it searches"
    assert 22 in made.draft(here).tokens
    made.begin(here)
    assert (22 in made.draft(here).tokens) == kept
    made.reset()
    assert made.draft(here).drafted == 0
    made.close()


def test_the_process_ends_with_the_drafter(drafter: DraftRetriever) -> None:
    drafter.draft(np.array([10, 11]))
    assert drafter._child is not None
    child = drafter._child.pid
    drafter.close()
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
