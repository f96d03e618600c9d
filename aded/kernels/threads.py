"""The one owner of thread counts: how many threads torch and our kernels have."""

from __future__ import annotations

import numba
import torch

TORCH_THREADS, NUMBA_THREADS = torch.get_num_threads(), numba.get_num_threads()
"""What the process began with: one per core, unless the environment says otherwise."""


def use_torch(threads: int | None) -> None:
    """All work is torch's. threads: None for one per core."""
    torch.set_num_threads(threads or TORCH_THREADS)


def use_own_kernels(threads: int | None) -> None:
    """Our kernels do the work between torch's small operations, and torch gets one thread: its threads, spinning
    until the next operation, would take the cores from our kernels."""
    torch.set_num_threads(1)
    numba.set_num_threads(min(threads or NUMBA_THREADS, NUMBA_THREADS))


def use_compiled_kernels() -> None:
    """In compiled steps our kernels run in torch's threads: as many as our kernels had before."""
    torch.set_num_threads(numba.get_num_threads())
