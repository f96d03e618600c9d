"""A small pack, for tests of what reads one."""

from pathlib import Path
from typing import Any

from aded.files.pack import About, PackedTurn, write_pack

TURNS = [
    PackedTurn("a", 0, "cats", (1, 5, 6, 5), (6, 5, 6, 5, 6, 5, 2), "eos"),
    PackedTurn("a", 1, "cats", (1, 5, 6, 5, 6, 5, 9), (5, 6, 5, 6, 5, 6, 5, 6), "limit"),
    PackedTurn("b", 0, "", (1, 7, 8, 9, 7), (8, 9, 7, 8, 9, 7, 8, 2), "eos"),
]


def small_pack(folder: Path, turns: list[PackedTurn] | None = None, **changed: Any) -> About:
    given: dict[str, Any] = {
        "model": "tiny",
        "benchmark": "cats",
        "licence": "Apache-2.0",
        "tokenizer": "f" * 64,
        "vocabulary": 16,
        "settings": {"decoding": {"temperature": 0.0}},
        "environment": {"python": "3.11"},
        "key": "out",
    }
    return write_pack(folder, TURNS if turns is None else turns, **{**given, **changed})
