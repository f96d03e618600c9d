"""Lines of files of questions and recorded answers, for tests of what reads them."""

import json
from collections.abc import Sequence
from pathlib import Path

TEXTS = ["the cat sat on the mat", "the rat sat on the hat", "a cat and a rat and a hat", "on the mat the cat sat"]


def written(path: Path, *lines: object, name: str = "answers.jsonl") -> Path:
    file = path / name
    path.mkdir(parents=True, exist_ok=True)
    file.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return file


def fastchat(question: object, *turns: object) -> dict[str, object]:
    return {"question_id": question, "model_id": "m", "choices": [{"index": 0, "turns": list(turns)}]}


def row(question: str, turn: int, ids: list[int], reason: str = "eos") -> dict[str, object]:
    return {"question_id": question, "turn": turn, "token_ids": ids, "stop_reason": reason, "prompt_tokens": 9}


def write_replay(place: Path, answers: Sequence[Sequence[str]]) -> None:
    """Questions, and an answer to each of their turns, where `replay_of` finds them."""
    turns = [[f"what {n}?", "and then?"][: len(said)] for n, said in enumerate(answers)]
    questions = ({"question_id": n, "category": "cats", "turns": asked} for n, asked in enumerate(turns))
    written(place, *questions, name="questions.jsonl")
    written(place, *(fastchat(n, *said) for n, said in enumerate(answers)))


def replay_of(place: Path) -> list[str]:
    """The arguments of a run over recorded answers; its tokenizer is the caller's."""
    asked = ["benchmark=alpaca", f"benchmark.question_file={place / 'questions.jsonl'}"]
    return ["model=recorded", "model/template=chat", f"model.answers={place / 'answers.jsonl'}", *asked]
