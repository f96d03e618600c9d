"""What a decoding step costs at least: the bytes it must read over the bandwidth of the memory they lie in."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from time import perf_counter

import numpy as np
import torch
from numba import njit
from transformers import PreTrainedModel

from aded.kernels.threads import threads_for

STREAMS = 3
"""Stretches of memory that a thread reads at a time; one alone reaches two thirds of the bandwidth."""


def weight_bytes(model: PreTrainedModel) -> int:
    """Bytes of the parameters that a step reads: all, except an untied input embedding, of which it reads rows."""
    distinct = {parameter.data_ptr(): parameter for parameter in model.parameters()}
    head = model.get_output_embeddings()
    embedding = model.get_input_embeddings().get_parameter("weight")
    total = sum(parameter.nbytes for parameter in distinct.values())
    tied = head is None or any(parameter.data_ptr() == embedding.data_ptr() for parameter in head.parameters())
    return total if tied else total - embedding.nbytes


def cache_bytes(model: PreTrainedModel, rows: int) -> int:
    """Bytes of the keys and values of `rows` tokens."""
    config = model.config.get_text_config(decoder=True)
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return 2 * config.num_hidden_layers * heads * width * rows * model.dtype.itemsize


class Bandwidth:
    """Measures bytes per second: of reading on a processor, of copying on a GPU, where reads and writes count.

    megabytes: size of the memory that is read, larger than any cache.
    """

    def __init__(self, device: torch.device, megabytes: int = 270) -> None:
        size = (megabytes << 20) // 8
        if device.type == "cuda":
            size *= 8  # a GPU finishes less before its clock rises
        self._memory = torch.ones(size, dtype=torch.int64, device=device)
        self._copy = torch.empty_like(self._memory) if device.type == "cuda" else None
        # Threads of Python's: numba's own would change how many threads torch has, too.
        self._threads = ThreadPoolExecutor(threads_for(None))
        self.measure()

    def measure(self) -> float:
        """One measurement, in bytes per second."""
        if self._copy is None:
            parts = np.array_split(self._memory.numpy(), threads_for(None))
            began = perf_counter()
            list(self._threads.map(_read, parts))
            return self._memory.nbytes / (perf_counter() - began)
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        self._copy.copy_(self._memory)
        end.record()
        end.synchronize()
        return 2 * self._memory.nbytes / (start.elapsed_time(end) / 1e3)


@njit(cache=True, nogil=True)
def _read(memory: np.ndarray) -> int:
    """Sum of int64 numbers, read in STREAMS stretches at a time."""
    each = len(memory) // STREAMS
    a, b, c = memory[:each], memory[each:], memory[2 * each :]
    total = 0
    for i in range(each):
        total += a[i] + b[i] + c[i]
    return total
