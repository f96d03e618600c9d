"""Sweeps, and commands on finished runs: tables, plots, report, compare, export."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aded.errors import BadInput


@dataclass
class NoSettings:
    """For commands without keys of their own."""


def check_no_arguments(arguments: Sequence[str]) -> None:
    """For commands that take KEY=VALUE alone. Raises BadInput."""
    if arguments:
        raise BadInput(arguments[0], "is no setting; write KEY=VALUE")
