"""A corpus of Python files out of wheels: each file is a document, and nothing of a wheel is run."""

from __future__ import annotations

import json
from pathlib import Path
from zipfile import ZipFile

import pytest

from aded.errors import BadInput
from datastore.corpora.corpus import Corpus
from datastore.corpora.dataset_corpus import DatasetCorpus
from datastore.sources.python_corpus import python_corpus


def wheel(path: Path, **files: str) -> Path:
    with ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name.replace("__", "."), text)
    return path


def test_each_source_file_is_a_document(tmp_path: Path) -> None:
    first = wheel(tmp_path / "one-1.0-py3-none-any.whl", b__py="raise SystemExit\n", a__py="x = 1", data__txt="no")
    second = wheel(tmp_path / "two-2.0-py3-none-any.whl", empty__py=" \n", c__py="y = 'ä'")
    (content,) = python_corpus([first, second])
    rows = [json.loads(line) for line in content.decode().splitlines()]
    assert [tuple(row.values()) for row in rows] == [
        ("one", "a.py", "x = 1"),
        ("one", "b.py", "raise SystemExit"),
        ("two", "c.py", "y = 'ä'"),
    ]
    file = tmp_path / "python.jsonl"
    file.write_bytes(content)
    corpus: Corpus = DatasetCorpus("python", path=str(file))
    assert list(corpus.documents()) == ["x = 1", "raise SystemExit", "y = 'ä'"]


def test_what_is_no_wheel_is_refused(tmp_path: Path) -> None:
    (tmp_path / "broken.whl").write_bytes(b"PK")
    with pytest.raises(BadInput, match="is no wheel"):
        python_corpus([tmp_path / "broken.whl"])
