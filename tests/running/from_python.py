"""Compiled functions that only compiled functions call (aded.compiled.inner), as tests call them."""

from collections.abc import Callable
from typing import Any

from numba import njit


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    called: Callable[..., Any] = njit(lambda *arguments: function(*arguments))
    return called
