"""Checks of the settings that drafters share: node budget, adaptation scope, whole numbers."""

from __future__ import annotations

from collections.abc import Collection

from aded.errors import BadInput

SCOPES = ("off", "prompt", "session")
"""How long learned state is kept: off (nothing is learned), prompt (cleared at each prompt), session (kept across
questions)."""


def positive(value: int, name: str) -> int:
    """The value itself. Raises BadInput, naming the method's key, unless it is a whole number of 1 or more."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise BadInput(f"method.{name}", f"{value!r} must be a whole number, 1 or more")
    return value


def check_budget(budget: int) -> int:
    """The budget itself. Raises BadInput unless it is a number of drafted nodes, 0 or more."""
    if isinstance(budget, bool) or not isinstance(budget, int) or budget < 0:
        raise BadInput("method.budget", f"{budget!r} must be a whole number of drafted nodes, 0 or more")
    return budget


def check_scope(adaptation: str, scopes: Collection[str] = SCOPES) -> str:
    """The adaptation scope itself. Raises BadInput unless it is one of `scopes`."""
    if adaptation not in scopes:
        raise BadInput("method.adaptation", f"{adaptation!r} must be one of {', '.join(scopes)}")
    return adaptation
