"""The back-off drafter's time per step for scripts.bench.drafting: `draft` and `observe`, learning included."""

from __future__ import annotations

from time import perf_counter

import numpy as np

from aded.command_line import compose_config
from aded.drafters.backoff.drafter import BackoffDrafter
from datastore.ngrams import count_ngrams
from scripts.bench.timing.peer_timers import Noise, Timer


def backoff_timer(stream: np.ndarray, noise: Noise, warm_up: list[np.ndarray], advance: int) -> Timer:
    """A timer of the drafter at its defaults, with its whole budget.

    It learns from the tokens decided since the last step. So its context is not a window, but all tokens that the
    windows have passed over.

    advance: tokens from one window to the next.
    """
    method = compose_config(["method=aded_backoff", "method.cost=none"]).method
    settings = {key: value for key, value in method.items() if key not in ("name", "_target_", "datastore_kind")}
    drafter = BackoffDrafter(count_ngrams([stream], 5, noise.vocabulary), **settings)
    drafter.requires = frozenset({"logits"})
    passed = warm_up[0]

    def time_steps(contexts: list[np.ndarray]) -> list[tuple[float, int]]:
        nonlocal passed
        times = []
        for context in contexts:
            passed = np.concatenate([passed, context[-advance:]])
            start = perf_counter()
            tree = drafter.draft(passed)
            seconds = perf_counter() - start
            times.append((seconds + noise.observed(drafter, tree, int(passed[-1])), tree.drafted))
        return times

    drafter.begin(passed)
    time_steps(warm_up[1:])
    return time_steps
