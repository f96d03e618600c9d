"""The compiled heap against a sorted list."""

import numpy as np
from from_python import compiled
from hypothesis import given
from hypothesis import strategies as st

from aded.drafters import heap as heaps

push, pop = compiled(heaps.push), compiled(heaps.pop)


@given(st.lists(st.floats(0, 1), max_size=40), st.integers(0, 40))
def test_the_most_probable_entry_comes_first(probabilities: list[float], pushed_later: int) -> None:
    heap, n, later = np.zeros((40, 2)), 0, probabilities[:pushed_later]
    for entry in range(len(later), len(probabilities)):
        push(heap, n, probabilities[entry], entry)
        n += 1
    for _ in range(n // 2):
        waiting = sorted(-heap[:n, 0])
        assert probabilities[pop(heap, n)] == waiting[-1]
        n -= 1
    for entry, probability in enumerate(later):
        push(heap, n, probability, entry)
        n += 1
    waiting = sorted(-heap[:n, 0], reverse=True)
    popped = [probabilities[pop(heap, size)] for size in range(n, 0, -1)]
    assert popped == waiting
