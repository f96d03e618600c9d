"""Many arrays handed to compiled code as one object.

numba unpacks each array of a tuple at every call from Python, at 0.3 us an array: for the drafter's seventy, a
fifth of a draft. `PackedState` is unpacked once, when it is built; compiled functions read its `parts`.
"""

from __future__ import annotations

from typing import Any

from numba import njit, types
from numba.experimental import structref


@structref.register
class _PackedStateType(types.StructRef):
    """numba's type of PackedState, generic in that of its parts."""


class PackedState(structref.StructRefProxy):
    """parts: a tuple of arrays, nested or not. The arrays are shared, not copied."""

    parts: Any

    def __new__(cls, parts: tuple[Any, ...]) -> PackedState:
        return _pack(parts)


structref.define_proxy(PackedState, _PackedStateType, ["parts"])


@njit(cache=True)
def _pack(parts: tuple[Any, ...]) -> PackedState:
    return PackedState(parts)
