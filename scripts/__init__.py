"""Sweeps, and commands on finished runs: tables, plots, report, compare, export."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class NoSettings:
    """For commands without keys of their own."""
