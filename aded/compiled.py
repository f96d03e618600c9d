"""How functions are compiled that a search calls millions of times, and the records that they share."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, TypeVar

import numpy as np
from numba.core import caching, event
from numba.extending import register_jitable

log = logging.getLogger(__name__)
Function = TypeVar("Function", bound=Callable[..., Any])
PACKAGES = ("aded", "baselines", "datastore", "scripts")
"""Whose functions are ours."""

UNCOUNTED: dict[str, Any] = {"cache": True, "_nrt": False}
"""For functions that allocate nothing: they count no references. Counting takes an atomic instruction at each use of
a tuple's array, which was more than half of a lookup (225 ns, 94 ns without). numba refuses to compile a function
that allocates after all."""
INLINED: dict[str, Any] = {**UNCOUNTED, "forceinline": True}
"""The same for functions called in inner loops with a tuple of many arrays: a call would pass the fields of each."""


def inner(function: Function) -> Function:
    """For functions that compiled functions call: inlined, and without a wrapper for calls from Python.

    The wrappers, which unpack every array of every argument, were most of what numba compiled. Called from Python,
    as in a test, such a function runs as plain Python.
    """
    return register_jitable(**INLINED, no_cfunc_wrapper=True)(function)


def new_record(dtype: np.dtype[Any]) -> Any:
    """A record of zeros: named arrays of fixed shapes in one block of memory.

    Compiled functions get one pointer. An array would take seven arguments, and the more arguments, the longer a
    function compiles. Compiled code keeps no reference: whoever keeps a pointer also keeps the record.
    """
    return np.zeros(1, dtype).view(np.recarray)[0]


def _is_ours(value: object) -> bool:
    return isinstance(value, FunctionType) and value.__module__.split(".")[0] in PACKAGES


def _text(value: object) -> str:
    """What compiled code has of a value: constants as they are, classes and modules by their names."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape} {value.tobytes().hex()}"
    if isinstance(value, CodeType):
        return f"{value.co_code.hex()} {value.co_names} {[*map(_text, value.co_consts)]}"
    if isinstance(value, bool | int | float | str | tuple | np.generic | np.dtype | None):
        return repr(value)
    return f"{getattr(value, '__module__', '')} {getattr(value, '__qualname__', '')} {getattr(value, '_fields', '')}"


def _names(code: CodeType) -> list[str]:
    """The names that a function reads, and the comprehensions within it."""
    inner = [name for one in code.co_consts if isinstance(one, CodeType) for name in _names(one)]
    return [*code.co_names, *inner]


def sources_of(function: FunctionType) -> str:
    """The hash of a function as it is compiled: of its bytecode, the values that it reads, and all that it calls."""
    known = hashlib.sha256(Path(__file__).read_bytes())  # it has the options of `inner`
    reached = [function]
    for one in reached:  # which grows
        names = one.__globals__
        values = [names[name] for name in _names(one.__code__) if name in names]
        values += [cell.cell_contents for cell in one.__closure__ or ()]
        called = [getattr(value, "py_func", value) for value in values]
        reached += [value for value in dict.fromkeys(filter(_is_ours, called)) if value not in reached]
        options = getattr(names.get(one.__name__), "targetoptions", None)
        constants = [_text(value) for value in called if not _is_ours(value)]
        known.update(f"{one.__qualname__} {options} {_text(one.__code__)} {one.__defaults__} {constants}".encode())
    return known.hexdigest()


class _Stamp:
    """What numba compares. It is computed then: a function may call what is defined after it. Saved, it is a hash."""

    def __init__(self, function: FunctionType) -> None:
        self._function = function

    @cached_property
    def _hash(self) -> str:
        return sources_of(self._function)

    def __eq__(self, other: object) -> bool:
        return self._hash == other

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (self._hash,)


class _OfOurs:
    """Keeps the code of a function of ours where numba would, as long as the function and what it calls are the same.

    numba compares the function's file: a new comment there would compile all its functions again, and a change of
    what they call in other files none of them.
    """

    def __init__(self, function: FunctionType, file: str) -> None:
        super().__init__(function, file)  # type: ignore[call-arg]
        self._function = function

    @classmethod
    def from_function(cls, function: FunctionType, file: str) -> Any:
        return super().from_function(function, file) if _is_ours(function) else None  # type: ignore[misc]

    def get_source_stamp(self) -> _Stamp:
        return _Stamp(self._function)

    def get_disambiguator(self) -> str:
        """The name is enough: a function may move within its file."""
        return "aded"


class _Kept(caching.IndexDataCacheFile):
    """Kept code names the modules of the types that it takes: where one of them has moved, it is compiled again."""

    def _load_index(self) -> Any:
        try:
            return super()._load_index()
        except (ImportError, AttributeError):
            return {}

    def _load_data(self, name: str) -> Any:
        try:
            return super()._load_data(name)
        except (ImportError, AttributeError) as error:
            raise OSError(str(error)) from error  # as where the file is gone


_places: Any = [type(place.__name__, (_OfOurs, place), {}) for place in caching.CacheImpl._locator_classes]
caching.CacheImpl._locator_classes = _places + caching.CacheImpl._locator_classes
caching.IndexDataCacheFile = _Kept  # type: ignore[misc]


class _Notice(event.Listener):
    """Tells the user, who waits for the compiler, that the next start will find everything compiled."""

    told = False

    def on_start(self, event: event.Event) -> None:
        module = event.data["dispatcher"].py_func.__module__
        if not self.told and module.split(".")[0] in ("aded", "baselines"):
            self.told = True
            log.warning("compiling, once: the next start takes no time")

    def on_end(self, event: event.Event) -> None:
        """See Listener."""


event.register("numba:compile", _Notice())
