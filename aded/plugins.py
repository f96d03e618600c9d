"""Drafters of other packages, which name them as entry points of the group `aded.drafters`."""

from __future__ import annotations

from importlib.metadata import entry_points

GROUP = "aded.drafters"


def outside_drafters() -> dict[str, str]:
    """Each method's name, and its class as module.Class, which is not imported."""
    return {entry.name: entry.value.replace(":", ".") for entry in entry_points(group=GROUP)}
