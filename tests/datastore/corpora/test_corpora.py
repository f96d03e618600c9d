import bz2
import gzip
import json
import lzma
import math
from collections import Counter
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pandas as pd
import pytest
import zstandard
from datasets import IterableDataset
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aded.config.objects import instantiate
from aded.errors import BadInput
from aded.files import compressed
from datastore.corpora import local_file
from datastore.corpora.corpus import Corpus
from datastore.corpora.dataset_corpus import DatasetCorpus, TextCorpus
from datastore.corpora.python_stdlib import PythonStdlib

ROWS: list[object] = [
    {"text": "plain"},
    {"content": "The Stack", "max_stars": 3},
    {"id": "0", "data": ["Ultra", "Chat"]},
    {"conversations": [{"from": "human", "value": "Share"}, {"from": "gpt", "value": "GPT é"}]},
]
TEXTS = ["plain", "The Stack", "Ultra", "Chat", "Share", "GPT é"]
NUMBERED = [{"text": f"row {n}"} if n % 5 else {"data": ["a", 3, f"turn {n}"]} for n in range(17)]
SOME_ROW = st.dictionaries(st.sampled_from(["text", "x"]), st.text() | st.integers())
COMPRESSED: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: zstandard.compress(data[:20]) + zstandard.compress(data[20:]),  # two frames
}


def read(path: Path, **keys: Any) -> tuple[list[str], Counter[str]]:
    corpus = DatasetCorpus("test", path=str(path), **keys)
    return list(corpus.documents()), corpus.skipped


def lines(rows: list[Any]) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


@pytest.mark.parametrize("ending", COMPRESSED)
def test_json_is_read_in_every_form(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"rows.json{ending}"
    array = json.dumps(ROWS)
    for data in (lines(ROWS), array.encode(), json.dumps(ROWS, indent=2).encode(), array.encode("utf-8-sig")):
        path.write_bytes(COMPRESSED[ending](data))
        corpus = DatasetCorpus("test", path=str(path))
        assert corpus.fraction == 0
        assert list(corpus.documents()) == TEXTS
        assert corpus.skipped == Counter()
        assert corpus.fraction == 1


def test_broken_arrays_are_counted_and_parquet_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for rest in ("] x", " {}]", ",]", ",,{}]", "", ', {"te'):
        (tmp_path / "rows.json").write_text(f'[{{"text": "a"}}{rest}')
        assert read(tmp_path / "rows.json") == (["a"], Counter({"not JSON": 1}))
    pd.DataFrame({"content": ["one", None, " ", "two"]}).to_parquet(tmp_path / "rows.parquet")
    assert read(tmp_path / "rows.parquet") == (["one", "two"], {"no text": 1, "empty": 1})
    monkeypatch.setattr(local_file, "BLOCK", 1)  # a number goes on in the next block
    (tmp_path / "rows.json").write_text('[\n123, {"text": "a"}]')
    assert read(tmp_path / "rows.json") == (["a"], Counter({"no object": 1}))


@pytest.mark.parametrize("ending", [*COMPRESSED, ".parquet"][1:])
def test_a_small_file_that_holds_a_large_one_is_refused(
    ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compressed, "ALLOWANCE", 1 << 16)
    path, rows = tmp_path / f"rows.jsonl{ending}", [{"text": "a" * 999}] * 5000
    if ending == ".parquet":
        pd.DataFrame(rows).to_parquet(path)
    else:
        path.write_bytes(COMPRESSED[ending](lines(rows)))
    with pytest.raises(BadInput, match=rf"^corpus.path: {path} cannot be read .*more than 200 times its \d+ bytes"):
        read(path)


def test_bad_rows_are_counted_and_skipped(tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    bad = [b"", b"{", b"7", b"null", b'{"id": 1}', b'{"text": null}', b'{"text": 5}', b'{"text": {"a": 1}}']
    bad += [b'{"text": "  "}', b'{"text": "\xff"}', b'{"text": "\\ud800"}', b'{"data": []}']
    bad += [b'{"conversations": [{"from": "gpt"}, 3, {"value": ""}]}']
    path.write_bytes(b"\n".join([b'{"text": "one"}', *bad, b'{"text": "two"}']))
    expected = {"not JSON": 1, "no object": 2, "no text": 3, "wrong type": 4, "empty": 2, "not UTF-8": 2}
    assert read(path) == (["one", "two"], expected)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(SOME_ROW), block=st.integers(1, 9))
def test_blocks_keep_rows(rows: list[object], block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.json").write_text(json.dumps(rows).replace("[", "[\n", 1))  # the first line is read at once
    (tmp_path / "a.jsonl").write_bytes(lines(rows))
    with monkeypatch.context() as patch:
        patch.setattr(local_file, "BLOCK", block)
        assert read(tmp_path / "a.json") == read(tmp_path / "a.jsonl")


def test_field_skip_and_limit_choose_the_texts(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(lines([{"text": "no", "answer": str(number)} for number in range(10)]))
    assert read(path, field="answer", skip=3, limit=4) == (["3", "4", "5", "6"], Counter())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text("a-="), separator=st.text("-=", min_size=1, max_size=3), block=st.integers(1, 9))
def test_blocks_split_texts_alike(text: str, separator: str, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    file = StringIO(text)
    with monkeypatch.context() as patch:
        patch.setattr(local_file, "BLOCK", block)
        assert list(local_file.split_text(file.read(block), file, separator)) == text.split(separator)


def test_the_hub_is_streamed_in_the_shards_asked_for_or_refused_with_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    class Streamed(list[object]):
        class info:  # noqa: N801 - named as in datasets
            splits = None

    load = Mock(return_value=Streamed(ROWS))
    monkeypatch.setattr("datasets.load_dataset", load)
    corpus = DatasetCorpus("s", dataset="acme/stack", files="data-{shard:05d}-of-00144.parquet", shards=(9, 11))
    assert list(corpus.documents()) == TEXTS
    shards = ["data-00009-of-00144.parquet", "data-00010-of-00144.parquet"]
    load.assert_called_once_with("acme/stack", data_files=shards, split="train", streaming=True)
    assert corpus.source == f"dataset=acme/stack, split=train, files={shards[0]} and 1 more"
    load.side_effect = FileNotFoundError("is a gated dataset on the Hub")
    with pytest.raises(BadInput, match=r"^corpus: .*acme/gated.*hf auth login.*corpus.path=FILE"):
        list(DatasetCorpus("gated", dataset="acme/gated").documents())


def test_settings_without_rows_are_refused() -> None:
    corpus = {"_target_": "datastore.corpora.dataset_corpus.DatasetCorpus", "name": "x", "dataset": "a/b"}
    files = [("files: .*braces hold {shard}", {"files": name}) for name in ("{shard.foo}", "{shard[0]}", "{other}")]
    shards = [("shards", {"files": "{shard}", "shards": shards}) for shards in ([3, 3], [-1, 3])]
    rows: list[tuple[str, dict[str, Any]]] = [("skip", {"skip": math.nan}), ("limit", {"limit": 0})]
    for key, keys in [*rows, *shards, *files, ("path: must be given", {"dataset": None})]:
        with pytest.raises(BadInput, match=rf"^corpus\.{key}"):
            instantiate(corpus | keys, "corpus")


def test_the_standard_library_is_ordered_and_has_no_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, data in {
        "b.py": b"b = 1\n",
        "a/z.py": "# coding: latin-1\n# é\n".encode("latin-1"),
        "broken.py": b"# \xff\n",
        "test/t.py": b"t = 1\n",
        "site-packages/s.py": b"s = 1\n",
        "note.txt": b"text\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
    monkeypatch.setattr("sysconfig.get_path", lambda _: str(tmp_path))
    corpus = PythonStdlib("python_stdlib")
    assert list(corpus.documents()) == ["# coding: latin-1\n# é\n", "b = 1\n"]
    assert corpus.skipped == {"not in its own encoding": 1}


def taken(corpus: Corpus) -> tuple[Counter[str], Counter[str], set[int]]:
    return Counter(corpus.documents()), corpus.skipped, set(corpus.prompts().tolist())


def check(corpus: Corpus, parts: int) -> None:
    """All parts together are the corpus, each row and skip once; twice, since a part leaves no trace."""
    documents, skipped, prompts = taken(corpus)
    for _ in range(2):
        found = [taken(corpus.part(number, parts)) for number in range(parts)]
        assert sum((each for each, _, _ in found), Counter()) == documents
        assert sum((each for _, each, _ in found), Counter()) == skipped
        assert set().union(*(each for _, _, each in found)) == prompts


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpora")
    rows, few = [json.dumps(row) for row in NUMBERED], [{"text": f"row {number}"} for number in range(8)]
    (folder / "src" / "inner").mkdir(parents=True)
    (folder / "rows").mkdir()
    for name, content in {
        "lines.jsonl": "\n".join([*rows[:7], "{broken", *rows[7:], "7"]).encode(),
        "array.json": json.dumps(NUMBERED).encode() + b" x",
        "text.txt": b"one\n\n \n\ntwo\n\nthree\n\n\xed\xa0\x80",
        "src/b.py": b"b = 1\n\nb = 2",
        "src/a.py": b"a = 1",
        "src/inner/c.py.gz": gzip.compress(b"c = 1"),
        "src/inner/d.pyc": b"\x6f\x0d\0\0\n\ntext of a compiled file",
        "src/.secret": b"hidden",
        "rows/1.jsonl": lines(few[:3]) + b"{broken\n",
        "rows/2.json": json.dumps(few[3:5]).encode(),
    }.items():
        (folder / name).write_bytes(content)
    pd.DataFrame(few[5:]).to_parquet(folder / "rows" / "3.parquet")
    return folder


@given(st.integers(1, 20), st.sampled_from(["lines.jsonl", "array.json"]), st.integers(0, 18), st.integers(1, 20))
def test_parts_of_a_local_file_are_the_whole(files: Path, parts: int, name: str, skip: int, limit: int) -> None:
    check(DatasetCorpus("rows", path=str(files / name)), parts)
    check(DatasetCorpus("rows", path=str(files / name), skip=skip, limit=limit), parts)


@pytest.mark.parametrize("parts", [1, 2, 5, 7])
def test_parts_of_texts_and_of_several_files_are_the_whole(files: Path, parts: int) -> None:
    for name in ("text.txt", "src"):
        check(TextCorpus("x", path=str(files / name)), parts)
    for name in ("rows", "rows/3.parquet"):
        check(DatasetCorpus("x", path=str(files / name)), parts)
    check(DatasetCorpus("x", path=str(files / "rows"), skip=1, limit=6), parts)


@pytest.mark.parametrize("parts", [2, 3, 6])
@pytest.mark.parametrize("keys", [{}, {"skip": 2, "limit": 9}])
def test_parts_of_the_hub_are_the_whole(parts: int, keys: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_folder_or_glob_is_its_files_one_after_another(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = TextCorpus("x", path=str(files / "src"))
    assert list(corpus.documents()) == ["a = 1", "b = 1", "b = 2", "c = 1"]
    assert corpus.skipped == Counter({"binary": 1})
    assert 0.7 < corpus.fraction <= 1
    corpus = TextCorpus("x", path=str(files / "text.txt"))
    assert list(corpus.documents()) == ["one", "two", "three"]
    assert corpus.skipped == {"empty": 1, "not UTF-8": 1}
    corpus = TextCorpus("x", path=str(files / "src" / "**" / "*.py"), separator=None)
    assert list(corpus.documents()) == ["a = 1", "b = 1\n\nb = 2"]
    assert not corpus.skipped
    monkeypatch.setenv("HOME", str(files))
    for path in (str(files / "src" / "inner" / "d.pyc"), "~/src/inner/d.pyc"):
        assert len(list(TextCorpus("x", path=path).documents())) == 2, "a file that is named itself is read"
    assert read(files / "rows")[0] == [f"row {number}" for number in range(8)]
    # Rows are numbered through; the fourth is broken.
    assert read(files / "rows", skip=2, limit=6) == ([f"row {number}" for number in range(2, 7)], {"not JSON": 1})


def test_corpora_with_other_documents_have_other_identities(tmp_path: Path) -> None:
    corpora = [DatasetCorpus("x", path="x", limit=limit, field=field) for limit in (None, 5) for field in (None, "a")]
    assert len({corpus.identity for corpus in corpora}) == 4
    assert corpora[-1].source == "path=x, field=a, limit=5, contents=x"

    def identity(name: str, text: str) -> str:
        (tmp_path / name).write_text(text)
        return TextCorpus("x", path=str(tmp_path)).identity

    first, hidden = identity("a.py", "one"), identity(".secret", "hidden")
    assert first == hidden
    assert len({first, identity("b", "two"), identity("a.py", "changed")}) == 3
