"""Lines of files of recorded answers, for tests of what reads them."""

import json
from pathlib import Path


def written(path: Path, *lines: object) -> Path:
    file = path / "answers.jsonl"
    file.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return file


def fastchat(question: object, *turns: object) -> dict[str, object]:
    return {"question_id": question, "model_id": "m", "choices": [{"index": 0, "turns": list(turns)}]}


def row(question: str, turn: int, ids: list[int], reason: str = "eos") -> dict[str, object]:
    return {"question_id": question, "turn": turn, "token_ids": ids, "stop_reason": reason, "prompt_tokens": 9}
