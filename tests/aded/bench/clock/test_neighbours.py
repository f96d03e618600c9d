import pytest

from aded.bench.clock.neighbours import Neighbours
from aded.bench.clock.watch import Lap


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
