"""A run's answers in FastChat's layout, for its judge: `aded export fastchat RUN_FOLDER`.

In FastChat's folder fastchat/llm_judge, `python gen_judgment.py --model-list MODEL_ID` and `show_result.py` read the
file as it is. The judge imports packages that FastChat's requirements lack: pip install -e '.[judge]'.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from os.path import expanduser
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aded.errors import BadInput
from aded.files.atomic import check_outputs, write_outputs
from aded.files.models.embedded_model import NAMES
from aded.files.models.tokenizer import answer_text, load_tokenizer
from aded.identity import sha256
from aded.records.finished_runs import FinishedRun, read_finished
from aded.records.rows import Row
from aded.records.run_directory import RECORD
from aded.settings import PlainName, checked

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

OUT = "data/mt_bench/model_answer"
Line = dict[str, Any]
Form = Callable[[Sequence[Row], Line], Line]
"""A question's rows and its line in FastChat's layout -> the line in another program's. May raise ValueError."""


def as_fastchat(turns: Sequence[Row], line: Line) -> Line:
    """The line as it is."""
    return line


def export(
    folder: Path,
    out: str = OUT,
    model_id: str | None = None,
    tokenizer: str | None = None,
    form: Form = as_fastchat,
) -> Path:
    """Write the file and return its path. Raises BadInput, also when the run is not finished or its record damaged.

    out: the file, after which the model is named, or a folder for the file MODEL_ID.jsonl.
    model_id: the model's name in the file; None: the names of the run's model and method.
    tokenizer: a Hub id, a folder or `embedded`; None: that of the run's model, where it has a name of our own.
    form: whose layout.
    """
    run = read_finished(folder, "RUN_FOLDER")
    path = Path(expanduser(out))
    if path.suffix == ".jsonl":
        if model_id not in (None, path.stem):
            raise BadInput("model_id", f"FastChat names the model by the file: {path.stem}, not {model_id}")
        model_id = path.stem
    else:
        model_id = model_id or f"{Path(run.summary.model).name}-{run.summary.method}"
        path /= f"{checked(model_id, PlainName, 'model_id')}.jsonl"
    check_outputs([("out", path)], [("RUN_FOLDER", folder / name) for name in RECORD])
    loaded = _load_tokenizer(tokenizer, run)
    stop_strings = run.config.get("benchmark.stop_strings") or ()
    finished = (folder / "summary.json").stat().st_mtime
    names = {"model_id": model_id, "run_id": run.summary.run_id}
    try:
        lines = [
            form(turns, _answer(turns, loaded, stop_strings, **names, tstamp=finished))
            for turns in _by_question(run.rows)
        ]
    except ValueError as error:
        raise BadInput("RUN_FOLDER", f"{folder}: {error}") from None
    write_outputs(path.parent, {path.name: "".join(json.dumps(line) + "\n" for line in lines).encode()}, "out")
    return path


def _by_question(rows: Sequence[Row]) -> list[list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.question_id, []).append(row)
    return list(found.values())


def _load_tokenizer(name: str | None, run: FinishedRun) -> PreTrainedTokenizerBase:
    """The named tokenizer; without a name the run's, where it is of a model by a name of our own.

    A run may be somebody else's, and what it names any file here, or on the Hub.
    """
    if name is None:
        name = str(run.config.get("model.tokenizer") or run.config.get("model.path"))
        if name not in NAMES:
            raise BadInput("tokenizer", f"name it; the run names {name}, which is read only where you say so")
    return load_tokenizer(name)


def _answer(
    turns: Sequence[Row],
    tokenizer: PreTrainedTokenizerBase,
    stop_strings: Sequence[str],
    *,
    model_id: str,
    run_id: str,
    tstamp: float,
) -> dict[str, Any]:
    """The line of one question. Its id is a number if it looks like one: FastChat joins by question ids.

    The choice also contains counts by Spec-Bench's names, one entry per turn: decoding_steps, new_tokens (of these
    steps, without prefill's) and wall_time (seconds with prefill; null for recorded answers), and the accept_lengths
    of all steps of all turns.
    """
    question = turns[0].question_id
    texts = [answer_text(tokenizer, row.token_ids, stop_strings) for row in turns]
    return {
        "question_id": int(question)
        if question.isascii() and question.isdecimal() and len(question) < 19
        else question,
        "answer_id": sha256(f"{run_id} {question}")[:22],
        "model_id": model_id,
        "category": turns[0].category,
        "choices": [
            {
                "index": 0,
                "turns": [text.strip() for text in texts],
                "decoding_steps": [row.steps for row in turns],
                "new_tokens": [row.new_tokens for row in turns],
                "wall_time": [_seconds(row) for row in turns],
                "accept_lengths": [length for row in turns for length in row.accept_lengths],
            }
        ],
        "tstamp": tstamp,
    }


def _seconds(row: Row) -> float | None:
    if row.decode_seconds is None or row.prefill_seconds is None:
        return None
    return row.prefill_seconds + row.decode_seconds
