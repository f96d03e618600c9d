"""Files of corpora, also compressed: what is read of a damaged one, and what it says by other parsers."""

import gzip
import io
import json
import lzma
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from datastore.corpora.dataset_corpus import DatasetCorpus, TextCorpus
from fuzz.kind import TEXTS, Kind

KEYS = ("text", "content", "data", "conversations", "conversation", "messages")
ROWS = [{"text": text} for text in TEXTS] + [{"conversations": [{"from": "human", "value": text} for text in TEXTS]}]
FORMS = {
    "jsonl": "".join(json.dumps(row) + "\n" for row in ROWS),
    "json": json.dumps(ROWS, indent=1),
    "txt": "\n\n".join(TEXTS),
}


PACK: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".xz": lzma.compress,
}
UNPACK: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.decompress, ".xz": lzma.decompress}


def _corpus(name: str) -> Callable[[Path], list[str]]:
    def make(folder: Path) -> list[str]:
        text = FORMS[name.split(".")[1]].encode()
        (folder / name).write_bytes(PACK.get(Path(name).suffix, bytes)(text))
        return [name]

    return make


def _documents(name: str) -> Callable[[Path], Any]:
    def read(folder: Path) -> Any:
        path = str(folder / name)
        corpus = TextCorpus("text", path=path) if ".txt" in name else DatasetCorpus("rows", path=path)
        return list(corpus.documents()), corpus.skipped

    return read


def _usable(value: object) -> bool:
    return isinstance(value, str) and value.strip() != "" and not any("\ud800" <= one <= "\udfff" for one in value)


def _documents_right(name: str) -> Callable[[Path, Any], bool]:
    def right(folder: Path, found: Any) -> bool:
        documents, skipped = found
        data = UNPACK.get(Path(name).suffix, bytes)((folder / name).read_bytes())
        text = io.TextIOWrapper(io.BytesIO(data), "utf-8", "surrogateescape").read()
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


FILES = ("c.jsonl", "c.jsonl.gz", "c.jsonl.xz", "c.json", "c.txt", "c.txt.xz")
CORPORA = [Kind(f"corpus {name}", _corpus(name), _documents(name), _documents_right(name)) for name in FILES]
