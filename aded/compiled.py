"""Options of numba's njit for functions that the search calls millions of times."""

from __future__ import annotations

from typing import Any

UNCOUNTED: dict[str, Any] = {"cache": True, "_nrt": False}
"""For functions that allocate nothing: they count no references. Counting takes an atomic instruction at each use of
a tuple's array, which was more than half of a lookup (225 ns, 94 ns without). numba refuses to compile a function
that allocates after all."""
INLINED: dict[str, Any] = {**UNCOUNTED, "forceinline": True}
"""The same for functions called in inner loops with a tuple of many arrays: a call would pass the fields of each."""
