"""Many arrays passed to numba's compiled code as one object.

At every call from Python numba unpacks each array of a tuple, which takes 0.3 us per array: for the drafter's seventy
arrays, a fifth of the time of a draft. A NumbaState is unpacked once, when it is built; compiled functions read its
`parts`.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from numba import njit, types
from numba.experimental import structref


@structref.register
class _NumbaStateType(types.StructRef):
    """numba's type of a NumbaState, generic in the type of its parts."""


class NumbaState(structref.StructRefProxy):
    """parts: a tuple of arrays, nested or not. The arrays are shared, not copied."""

    parts: Any
    _given: tuple[Any, ...]

    def __new__(cls, parts: tuple[Any, ...]) -> NumbaState:
        state = _pack(parts)
        state._given = parts
        return state

    def __deepcopy__(self, memo: dict[int, Any]) -> NumbaState:
        """Over the copies of the arrays: those that whoever is copied has too."""
        return NumbaState(deepcopy(self._given, memo))


structref.define_proxy(NumbaState, _NumbaStateType, ["parts"])


@njit(cache=True)
def _pack(parts: tuple[Any, ...]) -> NumbaState:
    return NumbaState(parts)
