from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from datastore.corpora.corpus import Corpus
from datastore.corpora.dataset_corpus import DatasetCorpus
from datastore.sources.chat_corpus import chat_corpus


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return path


def alpaca(folder: Path, model: str, *instructions: str) -> Path:
    rows = [{"instruction": text, "output": f" {model} on {text} " if text else ""} for text in instructions]
    return written(folder / "results" / model / "model_outputs.json", json.dumps(rows))


def test_answers_of_three_benchmarks_without_the_questions_that_are_measured(tmp_path: Path) -> None:
    wild = [{"model_output": " a wild answer "}, {"model_output": ""}, {"model_output": None}]
    hard = {"messages": [{"content": "hard?"}, {"content": {"answer": " yes "}}]}
    raw = [
        alpaca(tmp_path, "asks", "even 0", "odd 1", "even 2", "odd 3"),
        written(tmp_path / "score.v2" / "judge" / "wild.json", json.dumps(wild)),
        written(tmp_path / "model_answer" / "hard.jsonl", json.dumps(hard) + "\n"),
        alpaca(tmp_path, "orderly", "even 0", "odd 1", "even 2"),
        alpaca(tmp_path, "another-order", "odd 1", "even 0", "even 2", "odd 3", ""),
    ]
    (content,) = chat_corpus(raw)
    rows = [json.loads(line) for line in content.decode().splitlines()]
    found = Counter(
        (row["source"], row["model"], *(message["value"] for message in row["conversations"])) for row in rows
    )
    assert found == Counter(
        [
            ("wildbench", "wild", "a wild answer"),
            ("arena-hard", "hard", "hard?", " yes "),
            ("alpaca_eval", "orderly", "even 0", "orderly on even 0"),
            ("alpaca_eval", "orderly", "even 2", "orderly on even 2"),
            ("alpaca_eval", "another-order", "even 2", "another-order on even 2"),
        ]
    )
    assert [row["id"].rpartition("-")[0] for row in rows] == [row["source"] for row in rows]
    assert chat_corpus(raw) == [content]
    file = tmp_path / "chat.jsonl"
    file.write_bytes(content)
    corpus: Corpus = DatasetCorpus("chat", path=str(file))
    assert sum("wild answer" in text for text in corpus.documents()) == 1
