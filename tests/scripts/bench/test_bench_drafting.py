"""The benchmark of drafting, on a small stream."""

from __future__ import annotations

import json

import pytest
from command import Command

from scripts.bench import drafting
from scripts.bench.drafting import ADVANCE, CONTEXT, contexts_of, synthetic_stream


def test_windows_go_on_as_decoding_does() -> None:
    stream = synthetic_stream(1000, 0)
    first, second = contexts_of(stream, 2)
    assert len(first) == CONTEXT
    assert first[ADVANCE:].tolist() == second[:-ADVANCE].tolist()


@pytest.mark.parametrize("arguments", [["pairs=10"], ["searches=0"], ["pairs=many"], ["colour=red"], ["3000"]])
def test_bad_settings_are_reported_in_one_line(arguments: list[str], command: Command) -> None:
    assert command.refusal(drafting.main, *arguments).startswith(f"{arguments[0].partition('=')[0]}: ")


@pytest.mark.thorough
def test_every_drafter_has_its_row(monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
    monkeypatch.setattr(drafting.importlib.util, "find_spec", lambda name: None)  # its process is slow to start
    monkeypatch.setattr(drafting, "WARM_UP", 4)
    numbers = json.loads(command(drafting.main, "pairs=3000", "searches=20").out.splitlines()[-1])
    ours, peers = ("aded", "best_first", "aded_backoff"), ("rest", "token_recycling", "lookahead", "medusa")
    for name in ours + peers:
        assert numbers[f"{name}_median_ms"] > 0
        assert 0 < numbers[f"{name}_drafted_nodes"] <= 256
    assert numbers["aded_backoff_drafted_nodes"] > 32, "it learns from the tokens that the windows pass over"
    assert numbers["draftretriever_median_ms"] is None
