"""What a line is called: the method, and every setting in which its runs differ from others of the method."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Sequence, Set
from pathlib import Path
from typing import Any

from aded.records.finished_runs import FinishedRun

SEED = "decoding.seed"
MACHINE = "machine"


def settings_key(run: FinishedRun, without: Sequence[str] = ()) -> str:
    """A run's settings to compare by, without its seed and the keys that begin with one of `without`."""
    return json.dumps(_kept(run, (SEED, *without)), sort_keys=True, default=str)


def _kept(run: FinishedRun, without: Sequence[str]) -> dict[str, Any]:
    return {key: value for key, value in run.settings.items() if not key.startswith(tuple(without))}


def line_names(runs: Sequence[FinishedRun], without: Sequence[str] = ()) -> dict[Path, str]:
    """The line of each run, by its folder: the method, and every setting in which the method's runs differ.

    without: settings that a line does not name, by the beginnings of their keys.

    Settings of method and decoding are compared between all runs of a method, settings of the benchmark between those
    on the benchmark. All others differ from model to model anyway, so they are compared within model and benchmark.
    Runs that would have one name, though some lack a setting, name it where they have it.
    """
    settings = _Settings(runs, without)
    keys = {run.folder: settings.differing(run) for run in runs}
    alike: dict[tuple[str, ...], list[FinishedRun]] = defaultdict(list)
    for run in runs:
        alike[run.benchmark, run.model, run.method, *settings.texts(run, keys[run.folder])].append(run)
    for same in alike.values():
        common = settings.common(same)
        for run in same:
            keys[run.folder] |= settings.facts[run.folder].keys() - common
    names = {}
    for run in runs:
        texts = settings.texts(run, keys[run.folder])
        names[run.folder] = f"{run.method} ({', '.join(texts)})" if texts else run.method
    return _distinct(runs, names, settings.facts)


class _Settings:
    """What runs have in each setting, and their machines, as texts to compare."""

    def __init__(self, runs: Sequence[FinishedRun], without: Sequence[str]) -> None:
        self.facts = {run.folder: _facts(run, without) for run in runs}
        self._compared: dict[tuple[str, ...], set[str]] = defaultdict(set)
        self._beside: dict[tuple[str, ...], set[str]] = defaultdict(set)
        for run in runs:
            for key, value in self.facts[run.folder].items():
                self._compared[_compared(run, key)].add(value)
                self._beside[_beside(run, key)].add(value)

    def differing(self, run: FinishedRun) -> set[str]:
        """The keys in which it is not as all runs that it is compared with."""
        return {key for key in self.facts[run.folder] if len(self._compared[_compared(run, key)]) > 1}

    def common(self, runs: Sequence[FinishedRun]) -> set[str]:
        """The keys that all of the runs have."""
        return set.intersection(*(set(self.facts[run.folder]) for run in runs))

    def texts(self, run: FinishedRun, keys: Set[str]) -> list[str]:
        """KEY=VALUE of each key, in order, and the machine."""
        found = [
            f"{_short(key)}={_shown(key, run.settings[key], self._beside[_beside(run, key)])}"
            for key in sorted(keys - {MACHINE})
        ]
        return found + ([run.machine] if MACHINE in keys else [])


def _facts(run: FinishedRun, without: Sequence[str]) -> dict[str, str]:
    """Settings and machine as texts to compare."""
    return {key: json.dumps(value, default=str) for key, value in _kept(run, without).items()} | {
        MACHINE: run.machine
    }


def _compared(run: FinishedRun, key: str) -> tuple[str, ...]:
    """Runs with an equal result are compared in this key."""
    if key.startswith(("method.", "decoding.")):
        return run.method, key
    if key.startswith("benchmark."):
        return run.method, key, run.benchmark
    return _beside(run, key)


def _beside(run: FinishedRun, key: str) -> tuple[str, ...]:
    """The same of runs that stand beside each other in a table."""
    return run.method, key, run.benchmark, run.model


def _distinct(
    runs: Sequence[FinishedRun], names: dict[Path, str], facts: dict[Path, dict[str, str]]
) -> dict[Path, str]:
    """The names; equal names of unequal runs, as of null and "none", get a run's id."""
    ids: dict[tuple[str, ...], dict[str, str]] = defaultdict(dict)
    for run in runs:
        same = ids[run.benchmark, run.model, names[run.folder]]
        same.setdefault(json.dumps(facts[run.folder], sort_keys=True), run.summary.run_id)
    found = {}
    for run in runs:
        same = ids[run.benchmark, run.model, names[run.folder]]
        suffix = f" [{same[json.dumps(facts[run.folder], sort_keys=True)][:6]}]" if len(same) > 1 else ""
        found[run.folder] = names[run.folder] + suffix
    return found


def _short(key: str) -> str:
    """The key as a reader knows it: method.draft_maker.c1 is c1, and a draft maker's class is the draft maker."""
    if key.endswith("._target_"):
        return key.split(".")[-2]  # as method.draft_maker._target_
    return key.removeprefix("method.").removeprefix("draft_maker.")


def _shown(key: str, value: Any, here: Set[str]) -> str:
    """Of a class its name; of a fingerprint its beginning, where `here` has others, to tell the files apart."""
    text = "none" if value is None else str(value)
    if key.endswith("._target_"):
        return text.rpartition(".")[2]
    if not re.fullmatch("[0-9a-f]{32,}", text):
        return text
    return "a file" if len(here - {"null"}) == 1 else text[:12]


def by_number(name: str) -> list[tuple[float, str]]:
    """Sorts budget=8 before budget=16: the name's numbers as numbers, and the text before each."""
    found = re.findall(r"(\d+(?:\.\d+)?)|([^\d]+)", name)
    return [(float(number) if number else -1.0, text) for number, text in found]
