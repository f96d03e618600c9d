"""Questions and recorded answers of other projects, as FastChat's JSON lines.

Each conversion takes the raw files, in the order of the source's yaml, and returns the contents of the results.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from aded.errors import BadInput
from aded.files.json_lines import json_lines, json_value, read_text

SOURCE_KEY = "source"


def unchanged(raw: Sequence[Path]) -> list[bytes]:
    """The files as they are published."""
    return [path.read_bytes() for path in raw]


def fastchat_questions(raw: Sequence[Path]) -> list[bytes]:
    """FastChat's question.jsonl with its characters as UTF-8, where the original escapes some of them."""
    return [lines(row for _, row in json_lines(raw[0], SOURCE_KEY))]


def fastchat_answers(raw: Sequence[Path], *, model: str) -> list[bytes]:
    """FastChat's model_answer: what a replay reads, and nothing of a drafter's measurements.

    model: the name in place of the one that holds the drafter's settings.
    """
    kept = []
    for _, row in json_lines(raw[0], SOURCE_KEY):
        choices = [{"index": choice["index"], "turns": choice["turns"]} for choice in row["choices"]]
        kept.append(answer_row(row["question_id"], row["answer_id"], model, choices, row["tstamp"]))
    return [lines(kept)]


def alpaca_questions(raw: Sequence[Path]) -> list[bytes]:
    """The instructions of a model_outputs.json of AlpacaEval at odd positions; a question's id is its position."""
    return [
        lines(
            {"question_id": number, "category": row["dataset"], "turns": [row["instruction"]]}
            for number, row in at_odd_positions(raw[0])
        )
    ]


def alpaca_answers(raw: Sequence[Path], *, model: str, run: str) -> list[bytes]:
    """The outputs of a model_outputs.json of AlpacaEval at odd positions.

    model: its name in the rows; run: the run's name in AlpacaEval.
    """
    return [
        lines(
            answer_row(number, f"{run}-{number}", model, one_turn(row["output"]))
            for number, row in at_odd_positions(raw[0])
        )
    ]


def zero_eval(raw: Sequence[Path], *, benchmark: str, model: str, limit: int | None = None) -> list[bytes]:
    """[questions, answers] of a result file of ZeroEval. A prompt is what the model read, its template applied.

    limit: rows to take, from the first; None: all.
    """
    rows = json_array(raw[0])[:limit]
    prompts, answers = [row["model_input"] for row in rows], [row["output"][0] for row in rows]
    return numbered(benchmark, model, "math", prompts, answers)


def sky_thought(raw: Sequence[Path], *, benchmark: str, model: str) -> list[bytes]:
    """[questions, answers] of an evaluation file of SkyThought. A question is the problem's text alone."""
    rows = [row for _, row in json_lines(raw[0], SOURCE_KEY)]
    return numbered(
        benchmark, model, "reasoning", [row["question"] for row in rows], [row["code"][0] for row in rows]
    )


def numbered(
    benchmark: str, model: str, category: str, prompts: Sequence[str], answers: Sequence[str]
) -> list[bytes]:
    """[questions, answers] of one turn each, with ids from 0."""
    talks = enumerate(zip(prompts, answers, strict=True))
    return single_turns(benchmark, model, [(number, category, *talk) for number, talk in talks])


def single_turns(benchmark: str, model: str, talks: Sequence[tuple[int | str, str, str, str]]) -> list[bytes]:
    """[questions, answers] of one turn each. talks: (id, category, prompt, answer)."""
    return [
        lines({"question_id": name, "category": category, "turns": [prompt]} for name, category, prompt, _ in talks),
        lines(answer_row(name, f"{benchmark}-{name}", model, one_turn(answer)) for name, _, _, answer in talks),
    ]


def at_odd_positions(path: Path) -> list[tuple[int, dict[str, Any]]]:
    return list(islice(enumerate(json_array(path)), 1, None, 2))


def json_array(path: Path) -> list[dict[str, Any]]:
    """The objects of a JSON array. Raises BadInput."""
    value = json_value(read_text(path, SOURCE_KEY), SOURCE_KEY, str(path))
    if not isinstance(value, list):
        raise BadInput(SOURCE_KEY, f"{path} is no JSON array")
    return value


def answer_row(
    question: int | str, answer: str, model: str, choices: Sequence[dict[str, Any]], time: float = 0
) -> dict[str, Any]:
    """A line of FastChat's model_answer. time: of the recording, in seconds since 1970; 0: unknown."""
    return {"question_id": question, "answer_id": answer, "model_id": model, "choices": choices, "tstamp": time}


def one_turn(text: str) -> list[dict[str, Any]]:
    return [{"index": 0, "turns": [text]}]


def lines(rows: Iterable[dict[str, Any]]) -> bytes:
    """JSON lines in UTF-8."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
