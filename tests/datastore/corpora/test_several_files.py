"""A corpus of a folder or a glob is that of its files one after another."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest
from test_parts_of_corpora import check

from datastore.corpora.dataset_corpus import DatasetCorpus, TextCorpus


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "src" / "inner").mkdir(parents=True)
    (tmp_path / "src" / "b.py").write_text("b = 1\n\nb = 2")
    (tmp_path / "src" / "a.py").write_text("a = 1")
    (tmp_path / "src" / "inner" / "c.py.gz").write_bytes(gzip.compress(b"c = 1"))
    (tmp_path / "src" / "inner" / "d.pyc").write_bytes(b"\x6f\x0d\0\0\n\ntext of a compiled file")
    (tmp_path / "src" / ".secret").write_text("hidden")
    rows = [{"text": f"row {number}"} for number in range(8)]
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "1.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[:3]) + "{broken\n")
    (tmp_path / "rows" / "2.json").write_text(json.dumps(rows[3:5]))
    pd.DataFrame(rows[5:]).to_parquet(tmp_path / "rows" / "3.parquet")
    return tmp_path


def test_texts_of_a_folder_or_glob(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = TextCorpus("x", path=str(folder / "src"))
    assert list(corpus.documents()) == ["a = 1", "b = 1", "b = 2", "c = 1"]
    assert corpus.skipped == Counter({"binary": 1})
    assert 0.7 < corpus.fraction <= 1
    corpus = TextCorpus("x", path=str(folder / "src" / "**" / "*.py"), separator=None)
    assert list(corpus.documents()) == ["a = 1", "b = 1\n\nb = 2"]
    assert not corpus.skipped
    monkeypatch.setenv("HOME", str(folder))
    for path in (str(folder / "src" / "inner" / "d.pyc"), "~/src/inner/d.pyc"):
        assert len(list(TextCorpus("x", path=path).documents())) == 2, "a file that is named itself is read"


def test_rows_of_a_folder_are_numbered_through(folder: Path) -> None:
    path = str(folder / "rows")
    assert list(DatasetCorpus("x", path=path).documents()) == [f"row {number}" for number in range(8)]
    chosen = DatasetCorpus("x", path=path, skip=2, limit=6)  # the fourth row is broken
    assert list(chosen.documents()) == ["row 2", "row 3", "row 4", "row 5", "row 6"]
    assert chosen.skipped == Counter({"not JSON": 1})


@pytest.mark.parametrize("parts", [1, 2, 5])
def test_parts_of_several_files_are_the_whole(folder: Path, parts: int) -> None:
    check(TextCorpus("x", path=str(folder / "src")), parts)
    check(DatasetCorpus("x", path=str(folder / "rows")), parts)
    check(DatasetCorpus("x", path=str(folder / "rows"), skip=1, limit=6), parts)


def test_the_identity_is_of_all_files(folder: Path) -> None:
    def identity(path: str = "src") -> str:
        return TextCorpus("x", path=str(folder / path)).identity

    first = identity()
    assert identity("src/**/*") == first
    (folder / "src" / ".secret").write_text("changed")
    assert identity() == first
    (folder / "src" / "inner" / "c.py.gz").write_bytes(gzip.compress(b"c = 2"))
    changed = identity()
    (folder / "src" / "new.py").write_text("new")
    assert len({first, changed, identity()}) == 3
