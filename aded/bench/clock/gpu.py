"""What a GPU's driver tells (NVML, through NVIDIA's own package)."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class GpuState:
    other_processes: int
    throttled: bool
    """Is it slowed down by its temperature?"""


def state() -> GpuState | None:
    """Of the GPU that torch uses; None where the driver does not tell."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
        name = f"GPU-{torch.cuda.get_device_properties(torch.cuda.current_device()).uuid}"
        handle = pynvml.nvmlDeviceGetHandleByUUID(name)
        # One of them is ours. In a container the numbers of processes are not ours, but their count is right.
        others = max(len(pynvml.nvmlDeviceGetComputeRunningProcesses(handle)) - 1, 0)
        reasons = pynvml.nvmlDeviceGetCurrentClocksEventReasons(handle)
    except pynvml.NVMLError:
        return None
    hot = pynvml.nvmlClocksEventReasonSwThermalSlowdown | pynvml.nvmlClocksEventReasonHwThermalSlowdown
    return GpuState(others, bool(reasons & hot))
