"""The datastore of a run: a given file, or one built once in the cache."""

from __future__ import annotations

from pathlib import Path

import pytest
from texts import TEXTS, Texts
from tiny import tiny_tokenizer
from transformers import PreTrainedTokenizerFast

from aded.errors import BadInput
from datastore.builder import build
from datastore.open import open_or_build


def test_a_datastore_file_is_built_once_per_tokenizer(tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    corpus, keys = Texts(*TEXTS), {"path": None, "order": 3, "cache": str(tmp_path), "kind": "ngrams"}
    first = open_or_build(tokenizer, corpus=corpus, **keys)  # type: ignore[arg-type]
    again = open_or_build(tokenizer, corpus=corpus, **keys)  # type: ignore[arg-type]
    assert first.path == again.path
    assert corpus.reads == 1
    others = [
        open_or_build(tiny_tokenizer(["é"]), corpus=corpus, **keys),  # type: ignore[arg-type]
        open_or_build(tokenizer, corpus=Texts("another"), **keys),  # type: ignore[arg-type]
        open_or_build(tokenizer, corpus=corpus, **keys | {"order": 2}),  # type: ignore[arg-type]
        open_or_build(tokenizer, corpus=corpus, **keys | {"kind": "suffixes"}),  # type: ignore[arg-type]
    ]
    assert len({first.path, *(other.path for other in others)}) == 5
    whole = first.path.read_bytes()
    first.path.write_bytes(whole[:-50])  # a damaged one is built again
    open_or_build(tokenizer, corpus=corpus, **keys)  # type: ignore[arg-type]
    assert first.path.read_bytes() == whole


def test_a_file_of_another_tokenizer_is_refused(tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    build(Texts(*TEXTS), tokenizer, out=tmp_path / "x")
    with pytest.raises(BadInput, match="build a datastore with the model's own tokenizer"):
        open_or_build(
            tiny_tokenizer(["é"]),
            path=str(tmp_path / "x"),
            corpus=Texts("a"),
            order=3,
            cache=str(tmp_path),
            kind="ngrams",
        )
