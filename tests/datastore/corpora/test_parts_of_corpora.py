"""All parts of a corpus together are the corpus: each row once, and what is skipped counted once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from datasets import IterableDataset
from hypothesis import given
from hypothesis import strategies as st

from datastore.corpora.corpus import Corpus
from datastore.corpora.dataset_corpus import DatasetCorpus, TextCorpus

ROWS = [{"text": f"row {number}"} if number % 5 else {"data": ["a", 3, f"turn {number}"]} for number in range(17)]


def taken(corpus: Corpus) -> tuple[Counter[str], Counter[str], set[int]]:
    return Counter(corpus.documents()), corpus.skipped, set(corpus.prompts().tolist())


def check(corpus: Corpus, parts: int) -> None:
    """As whole and in parts, twice: a part leaves no trace in the corpus."""
    documents, skipped, prompts = taken(corpus)
    for _ in range(2):
        found = [taken(corpus.part(number, parts)) for number in range(parts)]
        assert sum((each for each, _, _ in found), Counter()) == documents
        assert sum((each for _, each, _ in found), Counter()) == skipped
        assert set().union(*(each for _, _, each in found)) == prompts


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpora")
    lines = [json.dumps(row) for row in ROWS]
    (folder / "lines.jsonl").write_text("\n".join([*lines[:7], "{broken", *lines[7:], "7"]))
    (folder / "array.json").write_text(json.dumps(ROWS) + " x")
    (folder / "text.txt").write_text("\n\n".join(["one", " ", "two", "three", "\ud800"]), errors="surrogatepass")
    pd.DataFrame({"text": [f"row {number}" for number in range(9)]}).to_parquet(folder / "rows.parquet")
    return folder


@given(st.integers(1, 20), st.sampled_from(["lines.jsonl", "array.json"]), st.integers(0, 18), st.integers(1, 20))
def test_rows_of_a_local_file(files: Path, parts: int, name: str, skip: int, limit: int) -> None:
    check(DatasetCorpus("rows", path=str(files / name)), parts)
    check(DatasetCorpus("rows", path=str(files / name), skip=skip, limit=limit), parts)


@pytest.mark.parametrize("parts", [1, 2, 4, 7])
def test_texts_and_parquet(files: Path, parts: int) -> None:
    check(TextCorpus("texts", path=str(files / "text.txt")), parts)
    check(DatasetCorpus("rows", path=str(files / "rows.parquet")), parts)


@pytest.mark.parametrize("parts", [2, 3, 6])
@pytest.mark.parametrize("keys", [{}, {"skip": 2, "limit": 9}])
def test_a_dataset_of_the_hub(parts: int, keys: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    def rows(files: list[int]) -> Iterator[object]:
        for file in files:
            read.append(file)
            yield from ({"text": f"row {number} of {file}"} for number in range(3))

    def load(*_: object, **__: object) -> IterableDataset:
        return IterableDataset.from_generator(rows, gen_kwargs={"files": list(range(6))})

    monkeypatch.setattr("datasets.load_dataset", load)
    corpus = DatasetCorpus("hub", dataset="acme/chat", **keys)  # type: ignore[arg-type]
    check(corpus, parts)
    read.clear()
    first = list(corpus.part(0, parts).documents())
    if not keys:
        assert read == list(range(0, 6, parts)), "the first part reads its own files alone"
        assert len(first) == 18 // parts
