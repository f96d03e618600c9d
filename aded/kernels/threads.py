"""The one owner of thread counts: how many threads torch and our kernels have."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import joblib
import torch

from aded.kernels import ops

STARTED_WITH = torch.get_num_threads()
"""What torch chose, or the environment (OMP_NUM_THREADS)."""
log = logging.getLogger(__name__)


@cache
def processors(physical: bool) -> int:
    """How many this process may use, by its affinity and its container's quota. physical: no hyper-threads."""
    return joblib.cpu_count(only_physical_cores=physical)


def threads_for(asked: int | None) -> int:
    """A thread per core, or as many as asked for. Never more than processors: they would stop each other mid-step."""
    most = processors(physical=False)
    if asked and asked > most:
        log.warning("model.threads=%d: this process may use %d processors, so it takes %d", asked, most, most)
    return min(asked, most) if asked else min(STARTED_WITH, processors(physical=True))


def for_torch(threads: int | None) -> None:
    """All work is torch's. threads: None for one per core."""
    torch.set_num_threads(threads_for(threads))


def for_own_kernels(threads: int | None) -> None:
    """Our kernels do the work between torch's small operations, and torch gets one thread: its threads, spinning
    until the next operation, would take the cores from our kernels."""
    torch.set_num_threads(1)
    torch.ops.aded.use_threads(threads_for(threads))


@contextmanager
def restored_threads() -> Iterator[None]:
    """torch's threads after the block are those before it."""
    before = torch.get_num_threads()
    try:
        yield
    finally:
        if torch.get_num_threads() != before:
            torch.set_num_threads(before)


@contextmanager
def kept_for_second_model() -> Iterator[int]:
    """Thread counts after the block, which loads a second model, are those before it. Yields how many it may take."""
    torch_has, own = torch.get_num_threads(), torch.ops.aded.threads() if ops.loaded() else 1
    try:
        yield max(torch_has, own)
    finally:
        torch.set_num_threads(torch_has)
        if ops.loaded():
            torch.ops.aded.use_threads(own)
