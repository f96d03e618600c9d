"""The bench of batched decoding: every method answers as autoregressive decoding does, beside a prediction."""

from __future__ import annotations

import json

from command import Command

from scripts.bench import batch

SMALL = ["batches=[2]", "requests=3", "new_tokens=6", "rounds=1", "nodes=[1,4]", "budget=3", "benchmark.limit=2"]


def test_all_methods_answer_alike_and_stand_beside_a_prediction(command: Command) -> None:
    called = command(batch.main, "methods=[autoregressive,prompt_lookup]", "fixed=[1]", *SMALL)
    rows = json.loads(called.out.splitlines()[-1])["rows"]
    assert [(row["method"], row["trees"], row["batch"], row["identical"]) for row in rows] == [
        ("autoregressive", "-", 2, 3),
        ("prompt_lookup", "sized", 2, 3),
        ("prompt_lookup", "1", 2, 3),
    ]
    assert all(row["tokens_per_second"] > 0 and row["predicted"] > 0 for row in rows)
    assert rows[0]["mean_accepted_tokens"] == rows[0]["speedup"] == 1.0


def test_what_cannot_be_compared_is_refused(command: Command) -> None:
    assert "methods" in command.refusal(batch.main, "methods=[prompt_lookup]")
    assert "nodes" in command.refusal(batch.main, "nodes=[1,2]", "budget=7")
