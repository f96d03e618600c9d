"""A method by its name and settings, for engines that decode many requests at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any, Literal, NamedTuple

import numpy as np

from aded.config.methods import KINDS, checked_method, datastore_kinds, method_config
from aded.core.drafter import Drafter, Step, drafted_tree
from aded.core.step_cost import StepCost, TreeSizer
from aded.drafters.backoff.drafter import BackoffDrafter
from aded.drafters.sized import MEASURED, NONE, SizedDrafter
from aded.errors import BadInput
from aded.files.datastores.array_file import ArrayFile
from aded.files.models.tokenizer import load_tokenizer
from aded.files.places import cache_folder
from aded.identity import tokenizer_fingerprint
from aded.settings import FilePath, Text, checked

SETTINGS_KEY = "aded"
"""Of the settings in the engine's own config."""
CHAINS = {"shape": "chain", "max_history": 1 << 16}
"""Settings of aded_backoff in an engine: chains, and a smaller history, since each request has one."""
DECAY = 0.999
"""The weight of earlier steps shrinks by this factor at each step."""
ROUNDS = 8
"""How often steps without drafts and steps with drafts are timed at first, in turn."""
WARM_UP = 2
"""The first steps, which may have to compile and to take memory, are not counted."""
SLOW = 3.0
"""A step counts as at most this many times slower than expected: the machine may have worked for others."""


class EngineMethod(NamedTuple):
    """make: makes a drafter for one more request; all of them share one datastore
    step_times: what makes drafts as long as pays, where the method can tell how probable they are
    """

    make: Callable[[], Drafter]
    step_times: StepTimes | None


def method_of(settings: Mapping[str, Any], longest: int, tokenizer: str) -> EngineMethod:
    """Raises BadInput naming the key.

    settings: `method`, by default aded_backoff, `datastore`, a file, and the settings of the method
    longest: tokens of a draft
    tokenizer: the model's, a Hub id or folder, which the datastore must be built for
    """
    given, cost = dict(settings), NONE
    name = checked(given.pop("method", "aded_backoff"), Text, f"{SETTINGS_KEY}.method")
    path = given.pop("datastore", None)
    if name == "aded_backoff":
        cost = checked(given.pop("cost", MEASURED), Literal["measured", "none"], f"{SETTINGS_KEY}.cost")
        given = {"budget": longest, **CHAINS, **given}
    elif "cost" in given:
        raise BadInput(f"{SETTINGS_KEY}.cost", f"is a setting of aded_backoff here, and not of {name}")
    config = method_config(name, {**given, "cost": NONE})
    if path is not None and not datastore_kinds(config):
        raise BadInput(f"{SETTINGS_KEY}.datastore", f"no such key: {name} reads none")
    method = checked_method(config, SETTINGS_KEY)
    opened = cache(partial(_opened, path, tokenizer))

    def make() -> Drafter:
        drafter = method.make(opened, str(cache_folder()))
        if drafter.requires:
            raise BadInput(
                f"{SETTINGS_KEY}.method",
                f"{name} reads {', '.join(sorted(drafter.requires))}, and engines hand over tokens alone",
            )
        return drafter

    first = make()
    compile_code(first)
    if not isinstance(first, BackoffDrafter):
        return EngineMethod(make, None)
    if cost == NONE:
        return EngineMethod(first.fork, None)
    times, leader = StepTimes(longest), SizedDrafter(first.fork(), cost)
    leader.size_trees_by(times.sizer)

    def sized() -> Drafter:
        drafter = SizedDrafter(first.fork(), cost)
        drafter.learn_with(leader)
        return drafter

    return EngineMethod(sized, times)


def _opened(path: object, tokenizer: str, kind: str) -> ArrayFile:
    """The datastore file of a kind. Raises BadInput where none is named, or it is of another tokenizer."""
    if path is None:
        raise BadInput(f"{SETTINGS_KEY}.datastore", "must be given: a file that aded build wrote")
    named = checked(path, FilePath, f"{SETTINGS_KEY}.datastore")
    file = KINDS[kind].open(named)
    file.check_tokenizer(tokenizer_fingerprint(load_tokenizer(tokenizer)))
    return file


def compile_code(drafter: Drafter) -> None:
    """Let a drafter draft once and forget it, so that no request waits for the compiler."""
    text = np.zeros(8, np.int64)
    drafter.begin(text[:6])
    drafter.observe(Step(drafted_tree(drafter, text[:7]), [0], 0))
    drafter.draft(text)
    drafter.end()
    drafter.reset()


class StepTimes:
    """How long drafts should be, by the times of the engine's own steps, which a drafter's `tree_sizer` is told.

    A step over more rows of tokens takes longer, on processors much longer. With seconds = fixed + row_seconds *
    rows, a drafted token pays if its probability is above the tokens per second of the engine times `row_seconds`.
    The fixed time is shared by the requests of a step. The rule is that of aded.core.step_cost; only the times come
    from here.

    longest: most tokens of a draft
    """

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._first: list[tuple[int, float]] = []
        """(rows, seconds) of the first steps, which are measured before drafts are made as long as pays."""
        self._sums = np.zeros(5)
        """Of 1, rows, seconds, rows^2 and rows * seconds."""
        self.sizer = TreeSizer(StepCost(np.ones(longest + 1)))  # longer drafts cost nothing, until steps were timed

    @property
    def measuring(self) -> bool:
        return len(self._first) < WARM_UP + 2 * ROUNDS

    def longest(self, requests: int) -> int:
        """Most tokens of each draft for the next step, which so many requests share.

        While steps are being timed, every second one has about as many rows more as one request's longest draft: that
        shows what a row takes, and costs many requests little.
        """
        if not self.measuring:
            return self._longest
        return max(1, self._longest // max(1, requests)) if len(self._first) % 2 else 0

    def learn(self, requests: int, rows: int, seconds: float) -> None:
        """A step over `rows` rows, which `requests` requests shared, took so long."""
        if self.measuring:
            self._first.append((rows, seconds))
            if self.measuring:
                return
            self._sums = line_sums(self._first[WARM_UP:])
            self.sizer.cost = self.cost(requests)
            self.sizer.restart()  # the rate so far was in steps, not in seconds
            return
        fixed, row_seconds = self._fit()
        seconds = min(seconds, SLOW * (fixed + row_seconds * rows))
        self._sums = DECAY * self._sums + sums_of(np.array([rows]), np.array([seconds]))
        self.sizer.cost = self.cost(requests)

    def cost(self, requests: int) -> StepCost:
        """Of one request's share in a step, by the length of its draft."""
        fixed, row_seconds = self._fit()
        return StepCost(fixed / requests + row_seconds * np.arange(1, self._longest + 2))

    def _fit(self) -> tuple[float, float]:
        """(fixed, row_seconds), by least squares over the steps so far."""
        weight, rows, seconds, squares, products = self._sums.tolist()
        spread = weight * squares - rows * rows
        row_seconds = max(0.0, (weight * products - rows * seconds) / spread) if spread > 0 else 0.0
        return max(0.0, seconds - row_seconds * rows) / weight, row_seconds


def sums_of(rows: np.ndarray, seconds: np.ndarray) -> np.ndarray:
    """float64 [5], what a line through these steps is fitted by."""
    return np.array([len(rows), rows.sum(), seconds.sum(), (rows * rows).sum(), (rows * seconds).sum()])


def line_sums(steps: Sequence[tuple[int, float]]) -> np.ndarray:
    """The same of the line that most steps lie near, whatever single slow ones took (Theil 1950)."""
    rows, seconds = np.array(steps).T
    one, other = np.triu_indices(len(rows), 1)
    differ = rows[one] != rows[other]
    slopes = (seconds[one] - seconds[other])[differ] / (rows[one] - rows[other])[differ]
    slope = float(np.median(slopes)) if len(slopes) else 0.0
    return sums_of(rows, np.median(seconds - slope * rows) + slope * rows)
