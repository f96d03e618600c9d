"""Files of corpora, also compressed: what is read of a damaged one, and what it says by other parsers."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import zstandard

from datastore.corpora.dataset_corpus import DatasetCorpus, TextCorpus
from fuzz.kind import TEXTS, Kind, as_lines

KEYS = ("text", "content", "data", "conversations", "conversation", "messages")


def _corpus(form: str, name: str) -> Callable[[Path], list[str]]:
    compressed: dict[str, Callable[[bytes], bytes]] = {
        "gz": gzip.compress,
        "bz2": bz2.compress,
        "xz": lzma.compress,
        "zst": zstandard.ZstdCompressor(write_checksum=True).compress,
    }

    def make(folder: Path) -> list[str]:
        rows = [{"text": text} for text in TEXTS] + [
            {"conversations": [{"from": "human", "value": text} for text in TEXTS]}
        ]
        text = {"lines": as_lines(*rows), "array": json.dumps(rows, indent=1), "text": "\n\n".join(TEXTS)}[form]
        pack = compressed.get(name.rpartition(".")[2], bytes)
        (folder / name).write_bytes(pack(text.encode()))
        return [name]

    return make


def _documents(name: str) -> Callable[[Path], Any]:
    def read(folder: Path) -> Any:
        path = str(folder / name)
        corpus = TextCorpus("text", path=path) if ".txt" in name else DatasetCorpus("rows", path=path)
        return list(corpus.documents()), corpus.skipped

    return read


def _unpacked(path: Path) -> str:
    data = path.read_bytes()
    match path.suffix:
        case ".gz":
            data = gzip.decompress(data)
        case ".bz2":
            data = bz2.decompress(data)
        case ".xz":
            data = lzma.decompress(data)
        case ".zst":
            data = _frames(data)
    return io.TextIOWrapper(io.BytesIO(data), "utf-8", "surrogateescape").read()


def _frames(data: bytes) -> bytes:
    found = b""
    while data:
        frame = zstandard.ZstdDecompressor().decompressobj()
        found += frame.decompress(data)
        if not frame.eof:
            raise EOFError
        data = frame.unused_data
    return found


def _usable(value: object) -> bool:
    return isinstance(value, str) and value.strip() != "" and not any("\ud800" <= one <= "\udfff" for one in value)


def _documents_right(name: str) -> Callable[[Path, Any], bool]:
    def right(folder: Path, found: Any) -> bool:
        documents, skipped = found
        text = _unpacked(folder / name)
        if ".txt" in name:
            return documents == [part for part in text.split("\n\n") if _usable(part)]
        rows: list[Any] = []
        if text.lstrip().startswith("["):
            try:
                rows = json.loads(text)
            except (ValueError, RecursionError):
                return skipped.total() > 0  # what is broken is counted
        else:
            for line in text.split("\n"):
                with suppress(ValueError, RecursionError):
                    rows.append(json.loads(line))
        return documents == [part for row in rows for part in _parts(row)]

    return right


def _parts(row: Any) -> list[str]:
    """The documents of a row."""
    if not isinstance(row, dict):
        return []
    texts: Any = next((row[key] for key in KEYS if row.get(key) is not None), [])
    listed: list[Any] = texts if isinstance(texts, list) else [texts]
    parts: list[Any] = [_said(one) if isinstance(one, dict) else one for one in listed]
    return [part for part in parts if _usable(part)]


def _said(message: dict[str, Any]) -> Any:
    return message.get("content") if message.get("value") is None else message["value"]


def _parquet(folder: Path) -> list[str]:
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"text": TEXTS * 3}), folder / "c.parquet", write_page_checksum=True)
    return ["c.parquet"]


def _parquet_right(folder: Path, found: Any) -> bool:
    return all(isinstance(text, str) for text in found[0])


FILES = [
    *(("lines", f"c.jsonl{end}") for end in ("", ".gz", ".bz2", ".xz", ".zst")),
    *(("array", f"c.json{end}") for end in ("", ".gz")),
    *(("text", f"c.txt{end}") for end in ("", ".xz", ".zst")),
]
CORPORA = [
    *(Kind(f"corpus {name}", _corpus(form, name), _documents(name), _documents_right(name)) for form, name in FILES),
    Kind("corpus c.parquet", _parquet, _documents("c.parquet"), _parquet_right),
]
