"""The one clock: a turn's timing, and what the machine does beside us.

A watch is read between the slices of two answers, and after each turn. The operating system counts, for each
processor, the time that all programs used. What this process and its children used is subtracted; the rest went to
others. Steal is the time in which a virtual machine did not run at all. Only processors that this process may use
count. Of a GPU its driver tells (NVML, through NVIDIA's own package).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time, sleep

import numpy as np
import psutil

from aded.core.decode import Answer
from aded.records.metrics import MOST_DISTURBED
from aded.records.noise import MOST_TAKEN
from aded.records.rows import MachineUse, Slices, Timing

LOOK = 0.5
"""Seconds that are watched to see whether the machine is quiet."""
SAID_AFTER = 30.0
"""Seconds of slices, where the first question takes longer."""


@dataclass(frozen=True)
class Lap:
    """The time since a watch was last read. Shares are of the time of all processors that we may use, 0 to 1."""

    seconds: float
    others: float
    """Share that other programs took."""
    steal: float
    """Share that other virtual machines took."""

    @property
    def taken(self) -> float:
        """The larger share."""
        return max(self.others, self.steal)


@dataclass(frozen=True)
class _Reading:
    """Seconds, each since a moment of its own."""

    clock: float
    busy: float
    steal: float
    ours: dict[int, float]
    """By process."""


class Watch:
    """Runs from its construction on, and from each lap on."""

    def __init__(self) -> None:
        self._processors = processors()
        self._process = psutil.Process()
        self._last = self._read()

    def lap(self) -> Lap:
        before, now = self._last, self._read()
        self._last = now
        seconds = now.clock - before.clock
        ours = sum(used - before.ours.get(number, 0.0) for number, used in now.ours.items())
        whole = seconds * len(self._processors)
        # The system counts in steps of 10 ms, so a short lap may come out a little below 0 or above 1.
        others = _share(now.busy - before.busy - ours, whole)
        return Lap(seconds, others, _share(now.steal - before.steal, whole))

    def _read(self) -> _Reading:
        times = psutil.cpu_times(percpu=True)
        known = self._processors[-1] < len(times)  # else a container shows none but ours
        mine = [one._asdict() for one in ([times[number] for number in self._processors] if known else times)]
        kinds = ("user", "nice", "system", "irq", "softirq")
        return _Reading(
            clock=perf_counter(),
            busy=sum(one.get(kind, 0.0) for one in mine for kind in kinds),
            steal=sum(one.get("steal", 0.0) for one in mine),
            ours={0: process_time()} | self._children(),
        )

    def _children(self) -> dict[int, float]:
        """CPU seconds of our child processes, by number; of one that ends, the rest since the last lap is lost."""
        found = {}
        for child in self._process.children(recursive=True):
            with suppress(psutil.Error):  # it has just ended
                found[child.pid] = float(sum(child.cpu_times()[:2]))
        return found


class TurnWatch:
    """Watches a turn: `lap` after each slice, `use` in the end. Peaks of memory are of the turn alone.

    cuda: does the target run on a GPU?
    """

    def __init__(self, cuda: bool) -> None:
        self.cuda, self._knows_peak = cuda, forget_peak()
        if cuda:
            import torch  # replays do without

            torch.cuda.reset_peak_memory_stats()
        self._throttles = throttles()
        self._turn, self._slice = Watch(), Watch()

    def lap(self) -> Lap:
        return self._slice.lap()

    def use(self) -> MachineUse:
        lap, count = self._turn.lap(), throttles()
        hot = None if count is None or self._throttles is None else count > self._throttles
        card = peak = None
        if self.cuda:
            import torch

            card, peak = gpu_state(), round(torch.cuda.max_memory_allocated() / 1e6, 1)
        return MachineUse(
            seconds=round(lap.seconds, 4),
            others=round(lap.others, 4),
            steal=round(lap.steal, 4),
            load=round(psutil.getloadavg()[0], 2),
            clock_mhz=clock_mhz(),
            throttled=hot if card is None else bool(hot) or card.throttled,
            gpu_processes=None if card is None else card.other_processes,
            peak_memory_mb=peak_memory_mb() if self._knows_peak else None,
            peak_gpu_memory_mb=peak,
        )


def wait_for_quiet(seconds: float) -> bool:
    """Wait for `seconds` at most until others leave the processors to us. Do they in the end?

    One look takes LOOK seconds: where there is less time, nobody looks, and the answer is no.
    """
    watch, until = Watch(), perf_counter() + seconds
    while perf_counter() + LOOK <= until:
        sleep(LOOK)
        lap = watch.lap()
        if lap.taken <= MOST_TAKEN:
            return True
    return False


def processors() -> list[int]:
    """Numbers of the processors that this process may use."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))


def clock_mhz() -> float | None:
    """Mean clock of the processors in MHz; None where it cannot be read."""
    try:
        frequency = psutil.cpu_freq()
    except (OSError, NotImplementedError):
        return None
    return round(frequency.current, 1) if frequency and frequency.current else None


def forget_peak(process: Path = Path("/proc/self")) -> bool:
    """What `peak_memory_mb` reads begins anew; False where the system cannot do that."""
    try:
        (process / "clear_refs").write_text("5")  # proc_pid_clear_refs(5)
    except OSError:
        return False
    return True


def peak_memory_mb(process: Path = Path("/proc/self")) -> float:
    """The most memory of the process that was resident at a time, in MB."""
    kibibytes = re.search(r"^VmHWM:\s*(\d+) kB$", (process / "status").read_text(), re.MULTILINE)
    assert kibibytes
    return round(int(kibibytes[1]) * 1024 / 1e6, 1)


def throttles(folder: Path = Path("/sys/devices/system/cpu")) -> int | None:
    """How often temperature has slowed the processors down since the start; None where it cannot be read."""
    counts = [path.read_text() for path in folder.glob("cpu*/thermal_throttle/*_throttle_count")]
    return sum(map(int, counts)) if counts else None


def _share(part: float, whole: float) -> float:
    return min(max(part / whole, 0.0), 1.0) if whole > 0 else 0.0


@dataclass(frozen=True)
class GpuState:
    other_processes: int
    throttled: bool
    """Is it slowed down by its temperature?"""


def gpu_state() -> GpuState | None:
    """Of the GPU that torch uses; None where the driver does not tell."""
    try:
        import pynvml
        import torch
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


class Neighbours:
    """say: takes a line for the reader."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say, self._said = say, False
        self._seconds = 0.0
        self._taken: list[float] = []
        """Of each slice, the share of the processors that others took."""

    def lap(self, lap: Lap) -> None:
        """A slice is over."""
        self._seconds += lap.seconds
        self._taken.append(lap.taken)
        if self._seconds >= SAID_AFTER:
            self.tell()

    def tell(self) -> None:
        """Say it, if there is something to say and nothing was said."""
        disturbed = [share for share in self._taken if share > MOST_TAKEN]
        if self._said or len(disturbed) <= MOST_DISTURBED * len(self._taken):
            return
        self._said = True
        slices, left_alone = len(self._taken), len(self._taken) - len(disturbed)
        means = (
            f"a clean number takes {slices / left_alone:.1f} times as long as on a quiet machine"
            if left_alone
            else "there is no speedup unless they end"
        )
        share = sum(disturbed) / len(disturbed)
        self._say(
            f"others take {share:.0%} of the processors: {left_alone} of {slices} slices were left alone; {means}"
        )


SliceEnd = tuple[int, Lap]
"""An arm's steps so far, and the slice's lap."""


def timing_of(
    method: Answer, baseline: Answer | None, pairs: Sequence[tuple[SliceEnd, SliceEnd]], machine: MachineUse
) -> Timing:
    """pairs: the ends of the method's and the baseline's slice of each pair."""
    plain = baseline or Answer()
    return Timing(
        draft_ms=_ms(method.draft_times),
        verify_ms=_ms(method.verify_times),
        observe_ms=_ms(method.observe_times),
        autoregressive_draft_ms=_ms(plain.draft_times) if baseline else None,
        autoregressive_verify_ms=_ms(plain.verify_times) if baseline else None,
        autoregressive_observe_ms=_ms(plain.observe_times) if baseline else None,
        slices=_slices(pairs) if baseline else None,
        machine=machine,
    )


def _slices(pairs: Sequence[tuple[SliceEnd, SliceEnd]]) -> Slices:
    """Pairs in which an arm took a step; in the last, both may only have found that they are complete."""
    ends = np.array([(mine[0], plain[0]) for mine, plain in pairs], np.int64).reshape(-1, 2)
    steps = np.diff(ends, axis=0, prepend=0)
    kept = np.flatnonzero(steps.any(axis=1))
    # The lap of an arm without a step is but the watch's reading, shorter than what the system counts in.
    laps = [[lap for (_, lap), took in zip(pairs[one], steps[one], strict=True) if took] for one in kept.tolist()]
    return Slices(
        steps=steps[kept, 0].tolist(),
        autoregressive_steps=steps[kept, 1].tolist(),
        others=[round(max(lap.others for lap in both), 3) for both in laps],
        steal=[round(max(lap.steal for lap in both), 3) for both in laps],
    )


def _ms(seconds: Sequence[float]) -> list[float]:
    return [round(1e3 * one, 4) for one in seconds]
