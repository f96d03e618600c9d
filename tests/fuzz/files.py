"""Damages files of every kind and reads them."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

from fuzz.kind import Kind
from fuzz.mutations import mutated
from fuzz.outcome import outcome


def fuzz_kind(kind: Kind, folder: Path, count: int, seed: int = 0) -> tuple[Counter[str], list[str]]:
    """(how many were refused, and read right; the faults). A damaged file depends on (kind, seed, number) alone."""
    folder.mkdir(parents=True, exist_ok=True)
    names = kind.make(folder)
    good = {name: (folder / name).read_bytes() for name in names}
    found, faults = Counter[str](), []
    assert outcome(lambda: kind.read(folder), (), lambda _: True) == "right"
    for number in range(count):
        rng = random.Random(f"{kind.name} {seed} {number}")
        name = rng.choice(names)
        (folder / name).write_bytes(mutated(rng, good[name]))
        result = outcome(lambda: kind.read(folder), kind.refusals, lambda value: kind.right(folder, value))
        if result not in ("refused", "right"):
            faults.append(f"{kind.name}, seed {seed}, number {number}: {result}")
            (folder / f"fault-{number}").write_bytes((folder / name).read_bytes())
        found[result.partition(":")[0]] += 1
        (folder / name).write_bytes(good[name])
    return found, faults
