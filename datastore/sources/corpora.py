"""Corpora: chat answers of many models, none of them a target here (WildBench, Arena-Hard and AlpacaEval), and Python
source files out of wheels, which are read as archives only.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

from aded.errors import BadInput
from aded.files.json_lines import json_lines
from datastore.sources.answers import SOURCE_KEY, json_array, lines

Row = dict[str, Any]


def chat_corpus(raw: Sequence[Path]) -> list[bytes]:
    """Conversations in ShareGPT's form, shuffled.

    raw: AlpacaEval's questions first, as any model_outputs.json with them; then the models' files. Where a path holds
    `score.v2` it is WildBench's, `model_answer` Arena-Hard's, any other AlpacaEval's.

    Of AlpacaEval come the instructions at even positions. Those at odd positions are questions of a benchmark here:
    what asks one of them is dropped, since some files have another order.
    """
    asked = {row["instruction"] for row in json_array(raw[0])[1::2]}
    rows = [row for path in raw[1:] for row in _reader(path)(path)]
    # The order is part of the result: the small corpus of Table 2 is its first rows.
    random.Random(0).shuffle(rows)
    return [
        lines(
            {"id": f"{row['source']}-{number}", **row}
            for number, row in enumerate(rows)
            if row["conversations"][0]["value"] not in asked
        )
    ]


def _reader(path: Path) -> Callable[[Path], Iterator[Row]]:
    if "score.v2" in path.parts:
        return _wild_bench
    return _arena_hard if "model_answer" in path.parts else _alpaca_eval


def _wild_bench(path: Path) -> Iterator[Row]:
    """Answers alone: the file holds no questions."""
    for row in json_array(path):
        if answer := row["model_output"]:
            yield _row("wildbench", path.stem, ("gpt", answer.strip()))


def _arena_hard(path: Path) -> Iterator[Row]:
    for _, row in json_lines(path, SOURCE_KEY):
        question, answer = (message["content"] for message in row["messages"])
        yield _row("arena-hard", path.stem, ("human", question), ("gpt", answer["answer"]))


def _alpaca_eval(path: Path) -> Iterator[Row]:
    for row in json_array(path)[::2]:
        if answer := row["output"]:
            yield _row("alpaca_eval", path.parent.name, ("human", row["instruction"]), ("gpt", answer.strip()))


def _row(source: str, model: str, *messages: tuple[str, str]) -> Row:
    talk = [{"from": speaker, "value": text} for speaker, text in messages]
    return {"source": source, "model": model, "conversations": talk}


def python_corpus(raw: Sequence[Path]) -> list[bytes]:
    """A row per source file, in the wheels' order. raw: the wheels. Raises BadInput."""
    return [lines(row for wheel in raw for row in _source_files(wheel))]


def _source_files(wheel: Path) -> Iterator[dict[str, str]]:
    """Those that hold text. Raises BadInput for a file that is no wheel."""
    try:
        with ZipFile(wheel) as archive:
            for name in sorted(archive.namelist()):
                if name.endswith(".py") and (text := archive.read(name).decode(errors="ignore").strip()):
                    yield {"package": wheel.name.split("-")[0], "path": name, "text": text}
    except BadZipFile as error:
        raise BadInput(SOURCE_KEY, f"{wheel} is no wheel ({error})") from None
