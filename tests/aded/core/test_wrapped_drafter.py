"""A drafter around another passes on whatever it does not do itself."""

from __future__ import annotations

import inspect
from unittest.mock import Mock

import pytest

from aded.core.drafter import Drafter
from aded.core.wrapped_drafter import WrappedDrafter


@pytest.mark.parametrize("name", [name for name, one in vars(Drafter).items() if inspect.isfunction(one)])
def test_every_call_is_passed_on(name: str) -> None:
    signature = inspect.signature(getattr(Drafter, name))
    given = [object() for _ in list(signature.parameters)[1:]]
    inner = Mock(spec=Drafter)
    found = getattr(WrappedDrafter(inner), name)(*given)
    call = getattr(inner, name)
    call.assert_called_once_with(*given)
    assert found is (None if signature.return_annotation == "None" else call.return_value)


@pytest.mark.parametrize("name", ["requires", "adaptation", "budget", "learned_from", "remembers_answers"])
def test_what_a_drafter_says_of_itself_is_passed_on(name: str) -> None:
    inner = Mock(spec=Drafter)
    assert getattr(WrappedDrafter(inner), name) is getattr(inner, name)


def test_setup_may_decide_what_is_required() -> None:
    inner = Mock(spec=Drafter, requires=frozenset())
    inner.setup.side_effect = lambda target: setattr(inner, "requires", frozenset({"logits"}))
    wrapped = WrappedDrafter(inner)
    assert wrapped.requires == frozenset()
    wrapped.setup(Mock())
    assert wrapped.requires == {"logits"}
