"""What the machine does beside us: a watch that is read between the slices of two answers, and after each turn.

The operating system counts, for each processor, the time that all programs used. What this process and its children
used is subtracted; the rest went to others. Steal is the time in which a virtual machine did not run at all. Only
processors that this process may use count.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time, sleep

import psutil

from aded.records.noise import MOST_TAKEN
from aded.records.rows import MachineUse

LOOK = 0.5
"""Seconds that are watched to see whether the machine is quiet."""


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

            from aded.bench.clock import gpu

            card, peak = gpu.state(), round(torch.cuda.max_memory_allocated() / 1e6, 1)
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
