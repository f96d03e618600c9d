"""The kinds of input files: a small one of each, how it is read, and what it says by another parser.

A checksum protects datastore files: a damaged one must never open. Of all others, what is read must be what the
damaged file says, by a parser that shares no code with the reader.
"""

import json
import math
from collections.abc import Callable, Sequence
from itertools import product, starmap
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lookup_files import random_network, write_lookup
from made_up_run import row, times, write_run
from tiny import VOCABULARY, tiny_tokenizer
from xxhash import xxh3_128_digest

from aded.files.answer_file import read_answers
from aded.files.cost_table import read_cost_table
from aded.files.datastores.array_file import CHECKSUM
from aded.files.datastores.blocks import WORD
from aded.files.datastores.lookup_file import open_lookup
from aded.files.datastores.ngram_file import open_ngrams
from aded.files.datastores.suffix_file import open_suffixes
from aded.files.models.tokenizer import load_tokenizer
from aded.records.finished_runs import read_run
from aded.records.rows import to_json
from baselines.heads.medusa_heads import MedusaHeads, load_heads, save_heads
from baselines.tokens.rest import Rest
from datastore.ngrams import count_ngrams, write_ngrams
from datastore.suffix_array import with_separators, write_suffixes
from fuzz.corpora import CORPORA
from fuzz.kind import TEXTS, Kind
from llm_judge.questions import read_questions

DOCUMENTS = [np.array([5, 6, 7, 5, 6, 8, 5]), np.array([9, 9, 9, 5, 6])]
HEADER = {"tokenizer": "t" * 64, "vocabulary": str(VOCABULARY)}
HIDDEN = 8
DTYPES = {"BF16": torch.bfloat16, "F16": torch.float16, "F32": torch.float32, "I32": torch.int32}


def _parsed(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line.strip()]


def _lines(rows: Sequence[object]) -> Callable[[Path], list[str]]:
    """Writes a file of JSON lines."""

    def make(folder: Path) -> list[str]:
        (folder / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return ["a.jsonl"]

    return make


# Questions and answers.
QUESTIONS = [
    {"question_id": 81 + n, "category": "math", "turns": [text or "b", "and?"], "reference": [1]}
    for n, text in enumerate(TEXTS)
]
FASTCHAT = [
    {"question_id": 81 + n, "model_id": "m", "choices": [{"index": 0, "turns": [text, "b"]}], "tstamp": 1.5}
    for n, text in enumerate(TEXTS)
]
SAMPLES = [{"task_id": f"HumanEval/{n}", "completion": text} for n, text in enumerate(TEXTS)]
ROWS = [json.loads(to_json(row(n, turn, [2, 1]))) for n in (1, 2) for turn in (0, 1)]


def _is_text(*values: object) -> bool:
    return all(isinstance(value, str) and value.encode() is not None for value in values)


def _is_id(value: object) -> bool:
    return type(value) is int or (_is_text(value) and value != "")


def _questions_right(folder: Path, found: Any) -> bool:
    lines = _parsed(folder / "a.jsonl")
    said = [(str(line["question_id"]), line.get("category", ""), tuple(line["turns"])) for line in lines]
    good = all(
        _is_id(line["question_id"]) and isinstance(line["turns"], list) and turns and all(turns)
        for line, (_, _, turns) in zip(lines, said, strict=True)
    )
    texts = all(_is_text(category, *turns) for _, category, turns in said)
    once = len({identity for identity, _, _ in said}) == len(said)
    return good and texts and once and [(one.id, one.category, one.turns) for one in found] == said


def _replaced(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _answers_right(folder: Path, found: Any) -> bool:
    said: dict[str, list[Any]] = {}
    for line in _parsed(folder / "a.jsonl"):
        if "choices" in line:
            key, turns = line["question_id"], line["choices"][0]["turns"]
            turns = [_replaced(turn) for turn in turns] if isinstance(turns, list) else None
        elif "completion" in line:
            key, turns = line["task_id"], [_replaced(line["completion"])]
        else:
            ids = line["token_ids"]
            if not all(type(one) is int for one in [*ids, line["turn"], line["prompt_tokens"]]):
                return False
            key, turns = line["question_id"], [(tuple(ids), line["stop_reason"] == "eos", line["prompt_tokens"])]
        key = _replaced(key) if isinstance(key, str) else key
        if not _is_id(key) or not turns:
            return False
        said.setdefault(str(key), []).extend(turns)
    read = {
        key: [(one.token_ids, one.ended, one.prompt_tokens) if one.text is None else one.text for one in turns]
        for key, turns in found.items()
    }
    return read == said


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
def _file(write: Callable[[Path], object]) -> Callable[[Path], list[str]]:
    def make(folder: Path) -> list[str]:
        write(folder / "f")
        return ["f"]

    return make


_ngrams = _file(lambda path: write_ngrams(path, count_ngrams(DOCUMENTS, 3, VOCABULARY), HEADER))
_suffixes = _file(lambda path: write_suffixes(path, with_separators(DOCUMENTS, VOCABULARY), HEADER))
_lookup = _file(lambda path: write_lookup(path, random_network(VOCABULARY)))


def _header(folder: Path) -> list[str]:
    """The header of an n-gram file; the reader gets it with the right checksum."""
    _ngrams(folder)
    data = (folder / "f").read_bytes()
    size = int.from_bytes(data[:8], "little")
    (folder / "header").write_bytes(data[8 : 8 + size])
    (folder / "body").write_bytes(data[8 + size : -CHECKSUM])
    return ["header"]


def _read_header(folder: Path) -> Any:
    header = (folder / "header").read_bytes()
    data = len(header).to_bytes(8, "little") + header + (folder / "body").read_bytes()
    sums = data[-WORD:]  # of its only block
    (folder / "f").write_bytes(data + xxh3_128_digest(data[: 8 + len(header)] + sums))
    file = open_ngrams(folder / "f")
    for order in range(2, file.order + 1):
        list(starmap(file.successors, product(range(file.vocabulary), repeat=order - 1)))
    file.verify()
    return file


def _header_right(folder: Path, found: Any) -> bool:
    said = json.loads((folder / "header").read_bytes())["__metadata__"]
    return {key: found.header[key] for key in said} == said


def _never(folder: Path, found: Any) -> bool:
    return False


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


def _heads(folder: Path) -> list[str]:
    torch.manual_seed(0)
    heads = MedusaHeads(2, 1, HIDDEN, tokens=torch.tensor([3, 5, 7]))
    torch.nn.init.normal_(heads.get_parameter("stacks.0.0.linear.weight"))
    save_heads(heads, folder / "heads.safetensors", {"a": "b"})
    return ["heads.safetensors"]


def _heads_right(folder: Path, found: Any) -> bool:
    data = (folder / "heads.safetensors").read_bytes()
    size = int.from_bytes(data[:8], "little")
    entries = json.loads(data[8 : 8 + size])
    state = found.state_dict()
    for name, entry in entries.items():
        if name == "__metadata__":
            continue
        start, end = entry["data_offsets"]
        said = torch.frombuffer(bytearray(data[8 + size + start : 8 + size + end]), dtype=DTYPES[entry["dtype"]])
        said = said.reshape(entry["shape"])
        read = found.tokens if name == "tokens" else state[f"stacks.{name}"]
        if not torch.equal(read.float(), said.float()) or not said.float().isfinite().all():
            return False
    return True


def _published(folder: Path) -> list[str]:
    heads = MedusaHeads(2, 1, HIDDEN, VOCABULARY)
    state = {name.removeprefix("stacks."): value for name, value in heads.state_dict().items()}
    torch.save(state, folder / "medusa_lm_head.pt")
    return ["medusa_lm_head.pt"]


def _finite(folder: Path, found: Any) -> bool:
    return all(value.isfinite().all() for value in found.state_dict().values())


# Tokenizers.
def _tokenizer(folder: Path) -> list[str]:
    tiny_tokenizer().save_pretrained(folder / "tok")
    return ["tok/tokenizer.json", "tok/tokenizer_config.json"]


def _tokenises(folder: Path, found: Any) -> bool:
    ids = found("the cat", add_special_tokens=False)["input_ids"]
    return all(type(one) is int and one >= 0 for one in ids) and isinstance(found.decode(ids), str)


def _read_answers(folder: Path) -> Any:
    return read_answers(folder / "a.jsonl")


def _read_heads(folder: Path) -> Any:
    return load_heads(str(folder), HIDDEN, VOCABULARY)


def _draft(folder: Path) -> Any:
    return Rest(open_suffixes(folder / "f")).draft(np.array([5, 6]))


KINDS = [
    Kind("questions", _lines(QUESTIONS), lambda folder: read_questions(str(folder / "a.jsonl")), _questions_right),
    Kind("FastChat's answers", _lines(FASTCHAT), _read_answers, _answers_right),
    Kind("samples", _lines(SAMPLES), _read_answers, _answers_right),
    Kind("rows as answers", _lines(ROWS), _read_answers, _answers_right),
    Kind("run", _run, lambda folder: read_run(folder / "run"), _run_right, (OSError, ValueError)),
    Kind("n-grams", _ngrams, lambda folder: open_ngrams(folder / "f").verify(), _never),
    Kind("suffixes", _suffixes, _draft, _never),
    Kind("look-up model", _lookup, lambda folder: open_lookup(folder / "f"), _never),
    Kind("header with a right checksum", _header, _read_header, _header_right),
    Kind("cost table", _cost, lambda folder: read_cost_table(folder / "cost.json", None, 5), _cost_right),
    Kind("heads", _heads, _read_heads, _heads_right),
    Kind("published heads", _published, _read_heads, _finite),
    Kind("tokenizer", _tokenizer, lambda folder: load_tokenizer(str(folder / "tok"), folder), _tokenises),
    *CORPORA,
]
