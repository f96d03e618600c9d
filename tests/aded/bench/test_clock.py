"""The watch on made-up counters of the operating system, a turn's timing, and what is said of others."""

import sys
from collections import namedtuple
from dataclasses import dataclass, field
from mmap import PAGESIZE, mmap
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple
from unittest.mock import Mock

import psutil
import pytest
import torch

from aded.bench import clock as module
from aded.bench.clock import Lap, Neighbours, TurnWatch, Watch, throttles, timing_of, wait_for_quiet
from aded.core.decode import Answer
from aded.records.rows import MachineUse

Times = namedtuple("Times", "user nice system idle iowait irq softirq steal")
"""Seconds of a processor, as psutil has them."""


class Child(NamedTuple):
    pid: int
    seconds: float

    def cpu_times(self) -> tuple[float, float, float, float]:
        if self.seconds < 0:
            raise psutil.NoSuchProcess(self.pid)
        return self.seconds / 2, self.seconds / 2, 100.0, 100.0


@dataclass
class Machine:
    """Four processors, of which this process may use the two in the middle. All in seconds."""

    clock: float = 0.0
    busy: float = 0.0
    steal: float = 0.0
    own: float = 0.0
    children: list[Child] = field(default_factory=list)
    busy_while_asleep: list[float] = field(default_factory=list)

    def cpu_times(self, percpu: bool) -> list[Times]:
        assert percpu
        not_ours = Times(*[1000.0 * self.clock] * 8)
        part = self.busy / 5
        used = Times(part, part, part, idle=7.0, iowait=7.0, irq=part, softirq=part, steal=self.steal)
        return [not_ours, used, Times(0, 0, 0, 0, 0, 0, 0, 0), not_ours]

    def sleep(self, seconds: float) -> None:
        self.clock += seconds
        self.busy += self.busy_while_asleep.pop(0)

    def passes(self, clock: float, busy: float, own: float, steal: float = 0.0) -> None:
        self.clock, self.busy, self.own = self.clock + clock, self.busy + busy, self.own + own
        self.steal += steal


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> Machine:
    made_up = Machine()
    monkeypatch.setattr(module, "perf_counter", lambda: made_up.clock)
    monkeypatch.setattr(module, "process_time", lambda: made_up.own)
    monkeypatch.setattr(module, "processors", lambda: [1, 2])
    monkeypatch.setattr(module, "sleep", made_up.sleep)
    monkeypatch.setattr(module.psutil, "cpu_times", made_up.cpu_times)
    process = SimpleNamespace(children=lambda recursive: made_up.children)
    monkeypatch.setattr(module.psutil, "Process", lambda: process)
    return made_up


def test_what_we_did_not_use_others_did(made_up: Machine) -> None:
    clock = Watch()
    made_up.passes(0.25, busy=0.5, own=0.4, steal=0.05)
    lap = clock.lap()
    assert (lap.seconds, lap.others, lap.steal) == (0.25, pytest.approx(0.2), pytest.approx(0.1))
    made_up.passes(1.0, busy=2.0, own=2.0)
    assert clock.lap() == Lap(1.0, 0.0, 0.0)
    made_up.passes(0.25, busy=0.49, own=0.5)
    assert clock.lap().others == 0.0, "counters in steps of 10 ms give no share below 0"
    assert clock.lap() == Lap(0.0, 0.0, 0.0)
    # Our children are no others.
    clock = Watch()
    made_up.children = [Child(7, 0.2), Child(8, -1.0)]  # a new one, and one that has just ended
    made_up.passes(0.25, busy=0.5, own=0.3)
    assert clock.lap().others == pytest.approx(0.0)
    made_up.children = []  # the end of a child gives nothing to others
    made_up.passes(0.25, busy=0.5, own=0.5)
    assert clock.lap().others == pytest.approx(0.0)


def test_it_waits_for_a_quiet_machine_and_not_longer_than_it_may(made_up: Machine) -> None:
    made_up.busy_while_asleep = [0.5, 0.5, 0.05, 0.5]
    assert wait_for_quiet(10.0)
    assert made_up.clock == pytest.approx(1.5)
    made_up.busy_while_asleep = [0.5] * 100
    assert not wait_for_quiet(2.0)
    assert made_up.clock == pytest.approx(3.5)
    assert not wait_for_quiet(0.1), "without patience it does not look"
    assert made_up.clock == pytest.approx(3.5)


def test_a_turn_s_use_is_of_all_its_slices(made_up: Machine) -> None:
    turn = TurnWatch(cuda=False)
    made_up.passes(1.0, busy=2.0, own=1.0)
    assert turn.lap().others == pytest.approx(0.5)
    made_up.passes(1.0, busy=2.0, own=2.0)
    assert turn.lap().others == 0.0
    use = turn.use()
    assert (use.seconds, use.others, use.steal, use.gpu_processes) == (2.0, 0.25, 0.0, None)
    assert use.load >= 0


@pytest.mark.skipif(sys.platform != "linux", reason="no other system tells")
def test_a_turn_s_peak_of_memory_is_its_own() -> None:
    first = TurnWatch(cuda=False)
    with mmap(-1, 200_000_000) as held:  # what a heap frees may stay with the process
        for page in range(0, len(held), PAGESIZE):
            held[page] = 1
    before, second = first.use().peak_memory_mb, TurnWatch(cuda=False)
    after = second.use().peak_memory_mb
    assert before
    assert after
    assert 190 < before - after < 250
    assert abs(after - psutil.Process().memory_info().rss / 1e6) < 20


def test_where_the_system_cannot_forget_a_peak_there_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "status").write_text("VmPeak:\t 4000 kB\nVmHWM:\t    2000 kB\nVmRSS:\t 1000 kB\n")
    assert module.peak_memory_mb(tmp_path) == 2.0
    assert not module.forget_peak(tmp_path / "none")
    monkeypatch.setattr(module, "forget_peak", lambda: False)
    assert TurnWatch(cuda=False).use().peak_memory_mb is None
    # Throttles are counted, and the processors that this process may use.
    assert module.processors() == psutil.Process().cpu_affinity()
    assert throttles(tmp_path) is None
    for number in range(2):
        folder = tmp_path / f"cpu{number}" / "thermal_throttle"
        folder.mkdir(parents=True)
        (folder / "core_throttle_count").write_text("3\n")
        (folder / "package_throttle_count").write_text("1\n")
    assert throttles(tmp_path) == 8


def driver(processes: int, reasons: int) -> SimpleNamespace:
    """A made-up NVML."""
    return SimpleNamespace(
        NVMLError=RuntimeError,
        nvmlClocksEventReasonSwThermalSlowdown=32,
        nvmlClocksEventReasonHwThermalSlowdown=64,
        nvmlInit=lambda: None,
        nvmlDeviceGetHandleByUUID=lambda name: name,
        nvmlDeviceGetComputeRunningProcesses=lambda handle: [object()] * processes,
        nvmlDeviceGetCurrentClocksEventReasons=lambda handle: reasons,
    )


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda number: SimpleNamespace(uuid="1-2"))
    allocated = {"now": 3_000_000, "peak": 9_000_000}
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda: allocated.update(peak=allocated["now"]))
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: allocated["peak"])
    return monkeypatch


def test_a_gpu_s_driver_is_asked(card: pytest.MonkeyPatch) -> None:
    for processes, reasons, state in (
        (1, 0, (0, False)),
        (3, 4 | 64, (2, True)),
        (0, 32, (0, True)),
        (1, 4, (0, False)),
    ):
        card.setitem(sys.modules, "pynvml", driver(processes, reasons))
        assert module.gpu_state() == module.GpuState(*state)
        use = TurnWatch(cuda=True).use()
        assert (use.gpu_processes, use.throttled, use.peak_gpu_memory_mb) == (*state, 3.0)
    # One that does not answer is nothing.
    broken = driver(1, 0)
    broken.nvmlInit = Mock(side_effect=RuntimeError("no driver"))
    card.setitem(sys.modules, "pynvml", broken)
    assert module.gpu_state() is None
    assert TurnWatch(cuda=True).use().gpu_processes is None


QUIET, TAKEN = Lap(0.25, 0.02, 0.0), Lap(0.25, 0.6, 0.1)
READING = Lap(0.003, 1.0, 0.0)
"""The lap of an arm without a step: one tick of the system's counters is more than all of it."""
MACHINE = MachineUse(1.0, 0.0, 0.0, 0.0, None, None, None, None, None)


@pytest.mark.parametrize("swapped", [False, True])
def test_what_the_machine_did_in_a_pair_is_that_of_the_arms_that_took_a_step(swapped: bool) -> None:
    pairs = [
        ((2, QUIET), (3, QUIET)),
        ((2, READING), (6, QUIET)),
        ((4, TAKEN), (9, QUIET)),
        ((4, READING), (9, READING)),
    ]
    both = [(two, one) if swapped else (one, two) for one, two in pairs]
    found = timing_of(Answer(), Answer(), both, MACHINE).slices
    assert found is not None
    steps = [found.steps, found.autoregressive_steps]
    assert (steps[::-1] if swapped else steps) == [[2, 0, 2], [3, 3, 3]]
    assert found.others == [0.02, 0.02, 0.6]
    assert found.steal == [0.0, 0.0, 0.1]


@pytest.mark.parametrize("seconds", [1.0, 11.0])
def test_it_is_said_once_within_the_first_minute_and_what_it_costs(seconds: float) -> None:
    """Of short questions after the first, of long ones in its midst."""
    said = list[str]()
    neighbours, at = Neighbours(said.append), list[float]()
    for number in range(60):
        neighbours.lap(Lap(seconds, 0.4 if number % 4 else 0.0, 0.05))
        at += [seconds * (number + 1)] if said and not at else []
        if number == 19:
            neighbours.tell()
    assert len(said) == 1
    assert at[0] < 60
    assert "40% of the processors" in said[0]


def test_a_quiet_machine_has_no_word() -> None:
    said = list[str]()
    neighbours = Neighbours(said.append)
    for number in range(100):
        neighbours.lap(Lap(1.0, 0.0, 0.2 if number % 20 == 19 else 0.0))
    neighbours.tell()
    assert said == []
