"""A method by its name and settings, for engines that decode many requests at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np

from aded.config import checked_call
from aded.core.drafter import Drafter, Step
from aded.drafters.backoff.drafter import BackoffDrafter
from aded.drafters.sized import MEASURED, NONE, SizedDrafter
from aded.engines.step_times import StepTimes
from aded.errors import BadInput
from aded.files.datastores.ngram_file import open_ngrams
from aded.files.datastores.suffix_file import open_suffixes
from aded.files.tokenizer import load_tokenizer
from aded.identity import tokenizer_fingerprint
from aded.methods import method_config
from aded.settings import FilePath, Text, checked

SETTINGS_KEY = "aded"
"""Of the settings in the engine's own config."""
CHAINS = {"shape": "chain", "max_history": 1 << 16}
"""Settings of aded_backoff in an engine: chains, and a smaller history, since each request has one."""


class Method(NamedTuple):
    """make: makes a drafter for one more request; all of them share one datastore
    step_times: what makes drafts as long as pays, where the method can tell how probable they are
    """

    make: Callable[[], Drafter]
    step_times: StepTimes | None


def method_of(settings: Mapping[str, Any], longest: int, tokenizer: str) -> Method:
    """Raises BadInput naming the key.

    settings: `method`, by default aded_backoff, `datastore`, a file, and the settings of the method
    longest: tokens of a draft
    tokenizer: the model's, a Hub id or folder, which the datastore must be built for
    """
    given = dict(settings)
    name = checked(given.pop("method", "aded_backoff"), Text, f"{SETTINGS_KEY}.method")
    values, cost = method_config(name, {}), NONE
    if name == "aded_backoff":
        contexts = checked(given.get("contexts", {}), dict[str, int], f"{SETTINGS_KEY}.contexts")
        values |= {"budget": longest, **CHAINS}
        given["contexts"] = {**values["contexts"], **contexts}
        cost = checked(given.pop("cost", MEASURED), Literal["measured", "none"], f"{SETTINGS_KEY}.cost")
    kind, shared = values.pop("datastore_kind", None), {}
    if kind is not None:
        if "datastore" not in given:
            raise BadInput(f"{SETTINGS_KEY}.datastore", "must be given: a file that aded build wrote")
        path = checked(given.pop("datastore"), FilePath, f"{SETTINGS_KEY}.datastore")
        file = (open_suffixes if kind == "suffixes" else open_ngrams)(path)
        file.check_tokenizer(tokenizer_fingerprint(load_tokenizer(tokenizer)))
        shared["datastore"] = file
    for key in ("name", "cache", "cost"):
        values.pop(key, None)
    call = checked_call({**values, **given}, SETTINGS_KEY, Drafter, None, shared)

    def make() -> Drafter:
        drafter: Drafter = call(**shared)
        if drafter.requires:
            raise BadInput(
                f"{SETTINGS_KEY}.method",
                f"{name} reads {', '.join(sorted(drafter.requires))}, and engines hand over tokens alone",
            )
        return drafter

    first = make()
    compile_code(first)
    if not isinstance(first, BackoffDrafter):
        return Method(make, None)
    if cost == NONE:
        return Method(first.sibling, None)
    times = StepTimes(longest)

    def sized() -> Drafter:
        drafter = SizedDrafter(first.sibling(), cost)
        drafter.size_by(times.tree_size)
        return drafter

    return Method(sized, times)


def compile_code(drafter: Drafter) -> None:
    """Let a drafter draft once and forget it, so that no request waits for the compiler."""
    text = np.zeros(8, np.int64)
    drafter.begin(text[:6])
    drafter.observe(Step(drafter.draft(text[:7]), [0], 0))
    drafter.draft(text)
    drafter.end()
    drafter.reset()
