"""Fixtures of the tests of scripts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    from browser import started

    with started() as driver:
        yield driver
