"""A run broken off anywhere, started again, leaves the rows of an uninterrupted one, times apart."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from shell import Shell
from small_ngrams import write_small_ngrams
from tiny import tiny_tokenizer

VOCABULARY = 128
TIMES = ("timings", "draft_seconds", "verify_seconds", "decode_seconds", "prefill_seconds")
QUESTIONS = 5


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Path:
    """A tiny model, its n-grams, questions of two turns on few words, and recorded answers to them."""
    place = tmp_path_factory.mktemp("place")
    shutil.copytree(folder, place, dirs_exist_ok=True)
    draw = random.Random(0)
    texts = [" ".join(draw.choices(["cat", "rat", "mat", "hat", "the", "on"], k=25)) for _ in range(2 * QUESTIONS)]
    write_small_ngrams(place / "tiny.ngrams", texts[:3], VOCABULARY, tokenizer=tiny_tokenizer())
    questions = [{"question_id": n, "category": "cats", "turns": ["a cat?", "a rat?"]} for n in range(QUESTIONS)]
    answers = [
        {"question_id": n, "choices": [{"turns": [f"{text} " for text in texts[2 * n : 2 * n + 2]]}]}
        for n in range(QUESTIONS)
    ]
    for name, rows in (("questions", questions), ("answers", answers)):
        (place / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return place


def overrides_of(place: Path, target: str, method: str) -> list[str]:
    models = {
        "model": [f"model={place}", "model.dtype=float32", "pairing=off", "benchmark.max_new_tokens=24"],
        "recorded": ["model=recorded", f"model.answers={place / 'answers.jsonl'}", f"model.tokenizer={place}"],
    }
    template = ["model/template=chat"] if target == "recorded" else []
    benchmark = ["benchmark=alpaca", f"benchmark.question_file={place / 'questions.jsonl'}"]
    return [*models[target], *template, *benchmark, f"datastore.path={place / 'tiny.ngrams'}", *method.split()]


def timeless(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in row.items() if key not in TIMES} for row in rows]


@pytest.mark.parametrize(
    ("target", "method"),
    [
        ("recorded", "method=aded method.adaptation=session method.gain=0.5 method.budget=3"),
        ("recorded", "method=aded method.adaptation=prompt method.budget=3"),
        ("recorded", "method=aded_best_first"),
        ("recorded", "method=aded_backoff"),
        (
            "model",
            "method=aded method.adaptation=session method.gain=0.5 method.budget=3 method.cost=none decoding=nucleus",
        ),
        ("model", "method=aded_backoff method.cost=none"),
        ("model", "method=token_recycling method.cost=none"),
        ("model", "method=sglang_ngram method.cost=none"),
        ("model", "method=trt_suffix_automaton method.adaptation=session method.cost=none"),
    ],
)
def test_rows_cut_anywhere_become_those_of_an_uninterrupted_run(
    shell: Shell, place: Path, target: str, method: str
) -> None:
    run = overrides_of(place, target, method)
    code, *output = shell(*run)
    assert code == 0
    assert "finished questions again" not in "".join(output), "there are none"
    whole, summary, file = shell.rows(), shell.summary(), shell.out / "rows.jsonl"
    written = file.read_bytes()
    draw = random.Random(method)
    for cut in [0, len(written), *(draw.randrange(len(written)) for _ in range(3))]:
        file.write_bytes(written[:cut])
        (shell.out / "summary.json").unlink()
        assert shell(*run)[0] == 0
        again = shell.rows()
        assert timeless(again) == timeless(whole)
        kept = written[:cut].count(b"\n") // 2 * 2
        assert again[:kept] == whole[:kept], "questions answered in all turns are not answered again"
        assert {key: shell.summary()[key] for key in ("mean_accepted_tokens", "run_id")} == {
            key: summary[key] for key in ("mean_accepted_tokens", "run_id")
        }


def test_what_a_session_learned_matters_here(shell: Shell, place: Path) -> None:
    """The test above could not fail if the last answer's drafts were the same with and without those before."""
    run = overrides_of(place, "recorded", "method=aded method.adaptation=session method.gain=0.5 method.budget=3")
    assert shell(*run)[0] == 0
    whole = shell.rows()
    last = [row for row in whole if row["question_id"] == str(QUESTIONS - 1)]
    (place / "last.jsonl").write_text((place / "questions.jsonl").read_text().splitlines()[-1] + "\n")
    alone = [word for word in run if not word.startswith("benchmark.question_file")]
    shell.out = shell.out.parent / "alone"
    assert shell(*alone, f"benchmark.question_file={place / 'last.jsonl'}")[0] == 0
    assert [row["accept_lengths"] for row in shell.rows()] != [row["accept_lengths"] for row in last]
