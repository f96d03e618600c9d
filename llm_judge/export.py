"""A run's answers in FastChat's layout, for its judge:

    python -m llm_judge.export RUN_FOLDER [out=data/mt_bench/model_answer] [model_id=NAME] [tokenizer=NAME_OR_DIR]

out: a .jsonl file, whose name is the model's for FastChat, or a folder to put MODEL_ID.jsonl in. In FastChat's
fastchat/llm_judge folder, `python gen_judgment.py --model-list MODEL_ID` and `show_result.py` then read it
unchanged. The judge imports more packages than FastChat's requirements name: pip install -e '.[judge]'.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from transformers import AutoTokenizer, PreTrainedTokenizerBase
from yaml import YAMLError

from aded.bench.metrics import ROW_KEYS, Row
from aded.command_line import exit_with_error
from aded.errors import BadInput
from aded.files.embedded_model import embedded_model
from aded.files.hub import pretrained
from aded.files.json_lines import json_lines
from aded.files.tokenizer import cut_at
from aded.targets.load import EMBEDDED

OUT = "data/mt_bench/model_answer"
KEYS = ("out", "model_id", "tokenizer")


def export(folder: Path, out: str = OUT, model_id: str | None = None, tokenizer: str | None = None) -> Path:
    """Write the file; return its path. Raises BadInput where the run is not finished or its record is not whole."""
    summary, config = _record(folder)
    rows = _whole_rows(folder / "rows.jsonl", summary)
    path = Path(out).expanduser()
    if path.suffix == ".jsonl":
        if model_id not in (None, path.stem):
            raise BadInput("model_id", f"FastChat names the model by the file: {path.stem}, not {model_id}")
        model_id = path.stem
    else:
        model_id = model_id or f"{Path(str(summary['model'])).name}-{summary['method']}"
        path /= f"{model_id}.jsonl"
    words = _tokenizer(tokenizer, config)
    stop_strings = OmegaConf.select(config, "benchmark.stop_strings") or ()
    ended = (folder / "summary.json").stat().st_mtime
    lines = [
        _answer(turns, words, stop_strings, model_id=model_id, run_id=str(summary["run_id"]), tstamp=ended)
        for turns in _by_question(rows)
    ]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch = path.with_name(f".{path.name}.partial")
        scratch.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        os.replace(scratch, path)
    except OSError as error:
        raise BadInput("out", f"{path} cannot be written ({error.strerror})") from None
    return path


def _record(folder: Path) -> tuple[dict[str, Any], Any]:
    try:
        summary, config = json.loads((folder / "summary.json").read_text()), OmegaConf.load(folder / "config.yaml")
    except (OSError, ValueError, YAMLError, OmegaConfBaseException) as error:
        raise BadInput("RUN_FOLDER", f"{folder} is no finished run ({error})") from None
    if not isinstance(summary, dict) or not {"run_id", "turns", "model", "method"} <= summary.keys():
        raise BadInput("RUN_FOLDER", f"{folder / 'summary.json'} is no summary of a run")
    return summary, config


def _whole_rows(path: Path, summary: dict[str, Any]) -> list[Row]:
    rows: list[Row] = []
    for where, row in json_lines(path, "RUN_FOLDER"):
        if missing := sorted(ROW_KEYS.keys() - row.keys()):
            raise BadInput("RUN_FOLDER", f"{where} is no row of a run: it lacks {', '.join(missing)}")
        rows.append(row)
    if len(rows) != summary["turns"]:
        raise BadInput("RUN_FOLDER", f"{path} holds {len(rows)} rows of {summary['turns']}; run it again")
    return rows


def _by_question(rows: Sequence[Row]) -> list[list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["question_id"], []).append(row)
    return list(found.values())


def _tokenizer(name: str | None, config: Any) -> PreTrainedTokenizerBase:
    """The one named, or that of the run's model."""
    name = name or OmegaConf.select(config, "model.tokenizer") or OmegaConf.select(config, "model.path")
    if name is None:
        raise BadInput("tokenizer", "the run's config names none; give a Hub id or a folder")
    if name == EMBEDDED:
        name = str(embedded_model(Path(OmegaConf.select(config, "paths.cache")).expanduser()))
    return pretrained(AutoTokenizer, str(name), key="tokenizer")


def _answer(
    turns: Sequence[Row],
    tokenizer: PreTrainedTokenizerBase,
    stop_strings: Sequence[str],
    *,
    model_id: str,
    run_id: str,
    tstamp: float,
) -> dict[str, Any]:
    """The line of one question. FastChat joins by its question ids, which are numbers where they look like one.

    The counts lie in the choice, one entry a turn, as Spec-Bench has them: decoding_steps, new_tokens, wall_time
    (seconds, prefill included; null for recorded answers), and accept_lengths of all steps of all turns.
    """
    question = str(turns[0]["question_id"])
    texts = [str(tokenizer.decode(row["token_ids"], skip_special_tokens=True)) for row in turns]
    return {
        "question_id": int(question) if question.isdecimal() else question,
        "answer_id": hashlib.sha256(f"{run_id} {question}".encode()).hexdigest()[:22],
        "model_id": model_id,
        "category": turns[0]["category"],
        "choices": [
            {
                "index": 0,
                "turns": [cut_at(text, stop_strings).strip() for text in texts],
                "decoding_steps": [row["steps"] for row in turns],
                "new_tokens": [row["new_tokens"] for row in turns],
                "wall_time": [_seconds(row) for row in turns],
                "accept_lengths": [length for row in turns for length in row["accept_lengths"]],
            }
        ],
        "tstamp": tstamp,
    }


def _seconds(row: Row) -> float | None:
    return None if row["decode_seconds"] is None else row["prefill_seconds"] + row["decode_seconds"]


def main() -> None:
    folders = [word for word in sys.argv[1:] if "=" not in word]
    given = dict(word.split("=", 1) for word in sys.argv[1:] if "=" in word)
    try:
        if len(folders) != 1:
            raise BadInput("RUN_FOLDER", "name one finished run: python -m llm_judge.export RUN_FOLDER out=FOLDER")
        if unknown := sorted(given.keys() - set(KEYS)):
            raise BadInput(unknown[0], f"no such key; there are {', '.join(KEYS)}")
        path = export(Path(folders[0]), **given)
    except BadInput as error:
        exit_with_error(error)
    print(f"answers: {path}")


if __name__ == "__main__":
    main()
