"""A run broken off anywhere, started again, leaves the rows of an uninterrupted one, times apart."""

import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from answer_lines import replay_of, write_replay
from shell import Shell
from small_ngrams import write_small_ngrams
from tiny import tiny_tokenizer

TIMES = ("timings", "draft_seconds", "verify_seconds", "decode_seconds", "prefill_seconds")
QUESTIONS = 5
SESSION = "method=aded method.adaptation=session method.gain=0.5 method.budget=3"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Path:
    """A tiny model, its n-grams, questions of two turns on few words, and recorded answers to them."""
    place = tmp_path_factory.mktemp("place")
    shutil.copytree(folder, place, dirs_exist_ok=True)
    draw = random.Random(0)
    texts = [" ".join(draw.choices(["cat", "rat", "mat", "hat", "the", "on"], k=25)) for _ in range(2 * QUESTIONS)]
    write_small_ngrams(place / "tiny.ngrams", texts[:3], 128, tokenizer=tiny_tokenizer())
    write_replay(place, [[f"{text} " for text in texts[2 * n : 2 * n + 2]] for n in range(QUESTIONS)])
    return place


def timeless(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in row.items() if key not in TIMES} for row in rows]


@pytest.mark.parametrize(
    ("target", "method", "cuts"),
    [
        ("recorded", SESSION, 2),
        ("model", f"{SESSION} method.cost=none decoding=nucleus", 1),
        ("model", "method=token_recycling method.cost=none", 1),
        ("recorded", "method=aded_backoff", 2),
    ],
)
def test_rows_cut_anywhere_become_those_of_an_uninterrupted_run(
    shell: Shell, place: Path, target: str, method: str, cuts: int
) -> None:
    *replay, benchmark, questions = replay_of(place)
    models = {
        "model": [f"model={place}", "model.dtype=float32", "pairing=off", "benchmark.max_new_tokens=24"],
        "recorded": [*replay, f"model.tokenizer={place}"],
    }
    run = [*models[target], benchmark, questions, f"datastore.path={place / 'tiny.ngrams'}", *method.split()]
    code, *output = shell(*run)
    assert code == 0
    assert "finished questions again" not in "".join(output), "there are none"
    whole, summary, file = shell.rows(), shell.summary(), shell.out / "rows.jsonl"
    content = file.read_bytes()
    draw = random.Random(method)
    size = len(content)
    for cut in [size, *(draw.randrange(size // part, size) for part in range(2, 2 + cuts))]:
        file.write_bytes(content[:cut])
        (shell.out / "summary.json").unlink()
        assert shell(*run)[0] == 0
        again = shell.rows()
        assert timeless(again) == timeless(whole)
        kept = content[:cut].count(b"\n") // 2 * 2
        assert again[:kept] == whole[:kept], "questions answered in all turns are not answered again"
        for key in ("mean_accepted_tokens", "run_id"):
            assert shell.summary()[key] == summary[key]
