"""A drafter around another passes on whatever it does not do itself."""

import inspect
from unittest.mock import Mock

from aded.core.drafter import Drafter, WrappedDrafter
from aded.core.tree import DraftTree


def test_every_call_and_what_a_drafter_says_of_itself_is_passed_on() -> None:
    inner = Mock(spec=Drafter)
    inner.draft.return_value = DraftTree.root(0)
    wrapped = WrappedDrafter(inner)
    for name in ("requires", "adaptation", "budget", "learned_from", "remembers_answers"):
        assert getattr(wrapped, name) is getattr(inner, name)
    for name, function in vars(Drafter).items():
        if inspect.isfunction(function):
            signature = inspect.signature(function)
            given = [object() for _ in list(signature.parameters)[1:]]
            found, call = getattr(wrapped, name)(*given), getattr(inner, name)
            call.assert_called_once_with(*given)
            assert found is (None if signature.return_annotation == "None" else call.return_value)
