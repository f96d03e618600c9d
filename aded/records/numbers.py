"""Numbers of runs as every table shows them."""

from __future__ import annotations

MISSING = "–"


def formatted(value: float | None, form: str = ".2f") -> str:
    return MISSING if value is None else format(value, form)


def with_interval(value: float | None, low: float | None, high: float | None, form: str = ".2f") -> str:
    """The number and, where it has one, its interval: 1.20 [1.10, 1.30]."""
    ends = "" if low is None or high is None else f" [{low:{form}}, {high:{form}}]"
    return f"{formatted(value, form)}{ends}"
