"""The kinds of input files: a small one of each, how it is read, and what it says by another parser.

A checksum protects datastore files: a damaged one must never open. Of all others, what is read must be what the
damaged file says, by a parser that shares no code with the reader.
"""

import gzip
import io
import json
import lzma
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from made_up_run import row, times, write_run
from small_ngrams import write_small_ngrams
from tiny import VOCABULARY

from aded.errors import BadInput
from aded.files.answer_file import read_answers
from aded.files.cost_table import read_cost_table
from aded.files.datastores.ngram_file import open_ngrams
from aded.records.finished_runs import read_run
from aded.records.rows import to_json
from datastore.corpora.dataset_corpus import DatasetCorpus, TextCorpus

TEXTS = ["the cat sat on the mat", "a naïve 東京 😀 rat", "x\n\ny", "", "def f(x):\n    return x"]


@dataclass(frozen=True)
class Kind:
    """One kind of input."""

    name: str
    make: Callable[[Path], list[str]]
    """Writes good files into a folder; returns the names of those to damage."""
    read: Callable[[Path], Any]
    right: Callable[[Path, Any], bool]
    """Is what was read what the files of the folder say?"""
    refusals: tuple[type[Exception], ...] = (BadInput,)


KEYS = ("text", "content", "data", "conversations", "conversation", "messages")
ROWS = [{"text": text} for text in TEXTS] + [{"conversations": [{"from": "human", "value": text} for text in TEXTS]}]
FORMS = {
    "jsonl": "".join(json.dumps(row) + "\n" for row in ROWS),
    "json": json.dumps(ROWS, indent=1),
    "txt": "\n\n".join(TEXTS),
}


PACK: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.compress, ".xz": lzma.compress}
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
    parts: list[Any] = []
    for one in listed:
        said = one if not isinstance(one, dict) else one.get("content") if one.get("value") is None else one["value"]
        parts.append(said)
    return [part for part in parts if _usable(part)]


FILES = ("c.jsonl", "c.jsonl.gz", "c.jsonl.xz", "c.json", "c.txt", "c.txt.xz")
CORPORA = [Kind(f"corpus {name}", _corpus(name), _documents(name), _documents_right(name)) for name in FILES]


DOCUMENTS = [np.array([5, 6, 7, 5, 6, 8, 5]), np.array([9, 9, 9, 5, 6])]


def _parsed(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line.strip()]


def _lines(rows: Sequence[object]) -> Callable[[Path], list[str]]:
    """Writes a file of JSON lines."""

    def make(folder: Path) -> list[str]:
        (folder / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return ["a.jsonl"]

    return make


# Answers.
FASTCHAT = [
    {"question_id": 81 + n, "model_id": "m", "choices": [{"index": 0, "turns": [text, "b"]}], "tstamp": 1.5}
    for n, text in enumerate(TEXTS)
]
SAMPLES = [{"task_id": f"HumanEval/{n}", "completion": text} for n, text in enumerate(TEXTS)]


def _is_text(*values: object) -> bool:
    return all(isinstance(value, str) and value.encode() is not None for value in values)


def _is_id(value: object) -> bool:
    return type(value) is int or (_is_text(value) and value != "")


def _replaced(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _answers_right(folder: Path, found: Any) -> bool:
    said: dict[str, list[Any]] = {}
    for line in _parsed(folder / "a.jsonl"):
        if "choices" in line:
            key, turns = line["question_id"], line["choices"][0]["turns"]
            turns = [_replaced(turn) for turn in turns] if isinstance(turns, list) else None
        else:
            key, turns = line["task_id"], [_replaced(line["completion"])]
        key = _replaced(key) if isinstance(key, str) else key
        if not _is_id(key) or not turns:
            return False
        said.setdefault(str(key), []).extend(turns)
    return {key: [one.text for one in turns] for key, turns in found.items()} == said


# The records of a run.
def _run(folder: Path) -> list[str]:
    write_run(folder / "run", [row(n, turn, [2, 1], **times(1.0, 2.0, 3)) for n in (1, 2) for turn in (0, 1)])
    return ["run/rows.jsonl", "run/summary.json", "run/environment.json", "run/config.yaml"]


def _run_right(folder: Path, found: Any) -> bool:
    said = [_floats(line) for line in (folder / "run" / "rows.jsonl").read_text().split("\n") if line]
    # Of keys that are missing and have a default, the default is read.
    for name, value in (("summary", found.summary), ("environment", found.environment)):
        read = _floats(to_json(value))
        if read != read | _floats((folder / "run" / f"{name}.json").read_text()):
            return False
    return [_floats(to_json(one)) for one in found.rows] == said and len(said) > 0


def _floats(text: str) -> Any:
    """A JSON value whose whole numbers are floats, since 2 is right where 2.0 is."""
    return json.loads(text, parse_int=float)


# Datastores.
def _ngrams(folder: Path) -> list[str]:
    write_small_ngrams(folder / "f", DOCUMENTS, VOCABULARY, 3)
    return ["f"]


# Numbers.
def _cost(folder: Path) -> list[str]:
    rows = {str(context): {"1": 10.0 + context, "3": 20.0, "4": 18.0, "7": 30.5} for context in (128, 512)}
    table = {"engines": [{"engine": "eager", "ms_by_context": rows}], "shape": None}
    (folder / "cost.json").write_text(json.dumps(table, indent=1))
    return ["cost.json"]


def _cost_right(folder: Path, found: Any) -> bool:
    engines = json.loads((folder / "cost.json").read_text())["engines"]
    tables = {one["engine"]: one["ms_by_context"] for one in engines}
    table = {int(context): row for context, row in list(tables.values())[-1].items()}
    row = {int(n): ms for n, ms in table[min(table, key=lambda context: abs(context - 256))].items()}
    sizes = sorted(row)
    levels = np.maximum.accumulate([row[n] / 1e3 for n in sizes])
    good = all(type(ms) in (int, float) and 0 < ms < math.inf for ms in row.values())
    return good and np.allclose(found.seconds, np.interp(np.arange(1, 7), sizes, levels), rtol=1e-12)


def _read_answers(folder: Path) -> Any:
    return read_answers(folder / "a.jsonl")


KINDS = [
    Kind("FastChat's answers", _lines(FASTCHAT), _read_answers, _answers_right),
    Kind("samples", _lines(SAMPLES), _read_answers, _answers_right),
    Kind("run", _run, lambda folder: read_run(folder / "run"), _run_right, (OSError, ValueError)),
    Kind("n-grams", _ngrams, lambda folder: open_ngrams(folder / "f").verify(), lambda *_: False),
    Kind("cost table", _cost, lambda folder: read_cost_table(folder / "cost.json", None, 5), _cost_right),
    *CORPORA,
]
