"""A drafter around another passes on whatever it does not do itself."""

from __future__ import annotations

import inspect

from aded.core.drafter import Drafter
from aded.core.wrapped_drafter import WrappedDrafter


def test_every_method_of_a_drafter_is_passed_on() -> None:
    contract = {name for name, one in vars(Drafter).items() if inspect.isfunction(one) or isinstance(one, property)}
    assert contract <= vars(WrappedDrafter).keys()
