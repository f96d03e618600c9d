"""A method by its name and settings, for engines that decode many requests at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, Literal, NamedTuple

import numpy as np

from aded.config.methods import checked_method, datastore_kinds, method_config
from aded.core.drafter import Drafter, Step, drafted_tree
from aded.drafters.backoff.drafter import BackoffDrafter
from aded.drafters.sized import MEASURED, NONE, SizedDrafter
from aded.engines.step_times import StepTimes
from aded.errors import BadInput
from aded.files.datastores.array_file import ArrayFile
from aded.files.datastores.kinds import KINDS
from aded.files.models.tokenizer import load_tokenizer
from aded.files.places import cache_folder
from aded.identity import tokenizer_fingerprint
from aded.settings import FilePath, Text, checked

SETTINGS_KEY = "aded"
"""Of the settings in the engine's own config."""
CHAINS = {"shape": "chain", "max_history": 1 << 16}
"""Settings of aded_backoff in an engine: chains, and a smaller history, since each request has one."""


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
