from __future__ import annotations

import pytest

from aded.bench.clock.timing import timing_of
from aded.bench.clock.watch import Lap
from aded.core.decode import Answer
from aded.records.rows import MachineUse

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
