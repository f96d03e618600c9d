"""Configs with types: the objects whose classes they name by `_target_`.

A class states what its settings may be in the annotations of its arguments (aded.settings); arguments without
one take any value. Keys that no argument takes are refused, wherever they stand.
"""

from __future__ import annotations

import builtins
import inspect
import pkgutil
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, get_type_hints

from aded.errors import BadInput, first_line, naming_the_extra
from aded.identity import is_ours
from aded.settings import checked, checked_keys, is_kind

CONF = (Path(__file__).parents[1] / "conf").resolve()
"""The configs. In a checkout a link to conf/ at its top."""
Kinds = Mapping[str, Any]
"""Names of keys, each with its type; the type of a group is such a mapping itself."""
GROUP = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """What a config names by `_target_`: a class or function and its arguments, which may be such calls too."""

    key: str
    function: Callable[..., Any]
    arguments: dict[str, Any]
    kind: Any = Any
    """The type of what the call returns."""
    later: bool = False
    """Does the call give a function that still waits for arguments? `_partial_` in a config says so."""

    def __call__(self, **filled: Any) -> Any:
        given = {name: value() if isinstance(value, Call) else value for name, value in self.arguments.items()}
        made = partial(self.function, **given) if self.later else self.function(**given, **filled)
        if not is_kind(made, self.kind):
            raise BadInput(f"{self.key}._target_", f"{self.function} makes no {self.kind}")
        return made


def instantiate(cfg: Mapping[str, Any], key: str, kind: Any = Any) -> Any:
    """The object of a config with `_target_`. Raises BadInput naming the key. Parameters as in checked_call."""
    return checked_call(cfg, key, kind)()


def checked_call(
    cfg: Mapping[str, Any],
    key: str,
    kind: Any = Any,
    own: Kinds | None = None,
    filled: Collection[str] = (),
) -> Call:
    """The call that a config with `_target_` describes, its settings checked. Raises BadInput naming the key.

    key: of the config in the whole one.
    kind: the type of what it must make.
    own: keys that are no arguments, since the harness reads them itself.
    filled: names of the arguments that code will fill in.
    """
    own = own or {}
    checked_keys({name: cfg[name] for name in own if name in cfg}, own, key, optional=own)
    return _call({name: value for name, value in cfg.items() if name not in own}, key, kind, filled)


def _call(values: dict[str, Any], key: str, kind: Any, filled: Collection[str]) -> Call:
    target = values.pop("_target_", None)
    later: bool = checked(values.pop("_partial_", False), bool, f"{key}._partial_")
    function = located(target, f"{key}._target_")
    if not later and not _may_make(function, kind):
        raise BadInput(f"{key}._target_", f"{function} makes no {kind}")
    kinds, optional, others = _parameters(function, f"{key}._target_")
    for name in filled:
        if name not in kinds and not others:
            raise BadInput(f"{key}._target_", f"{target} takes no {name}, which this config asks for")
    kinds = {name: hint for name, hint in kinds.items() if name not in filled}
    if others:
        kinds |= dict.fromkeys((name for name in values if name not in kinds), Any)
    nested = {name: value for name, value in values.items() if isinstance(value, dict) and "_target_" in value}
    calls = {
        name: _call(dict(value), f"{key}.{name}", kinds[name], ()) for name, value in nested.items() if name in kinds
    }
    left = {name: value for name, value in values.items() if name not in calls}
    arguments = checked_keys(left, kinds, key, {*optional, *calls, *(kinds if later else ())})
    return Call(key, function, {**arguments, **calls}, kind, later)


def located(target: object, key: str) -> Callable[..., Any]:
    """The class or function of this name; what is not ours is found in the working directory too, after all else.

    A function must say what it returns, so that no config calls what was never meant to be named in one. Raises
    BadInput.
    """
    try:
        if not isinstance(target, str):
            raise ImportError("it is no name")
        here = str(Path.cwd())
        if not is_ours(target) and here not in sys.path and "" not in sys.path:
            sys.path.append(here)
        with naming_the_extra():
            found: Any = pkgutil.resolve_name(target)
        if not inspect.isclass(found) and "return" not in getattr(found, "__annotations__", {}):
            raise ImportError(f"{target} is neither a class nor a function that says what it returns")
    except BadInput:
        raise
    except Exception as error:  # a module of somebody else's may raise anything
        raise BadInput(key, f"{target} is no class here, as MODULE.CLASS ({first_line(error)})") from None
    function: Callable[..., Any] = found
    return function


def _may_make(function: Callable[..., Any], kind: Any) -> bool:
    """False for a class whose objects are of another kind: it is not called then."""
    if kind is Any or not (inspect.isclass(function) and inspect.isclass(kind)):
        return True
    if getattr(kind, "_is_protocol", False):
        return all(
            hasattr(function, name) for name, one in vars(kind).items() if inspect.isfunction(one) and name[0] != "_"
        )
    return issubclass(function, kind)


def _parameters(function: Callable[..., Any], key: str) -> tuple[dict[str, Any], set[str], bool]:
    """(parameters with their types, those with a default, does it take others too)."""
    try:
        signature = inspect.signature(function).parameters.values()
    except ValueError:
        raise BadInput(key, f"{function} takes no settings") from None
    hints = _hints(inspect.unwrap(function.__init__ if inspect.isclass(function) else function))
    named = [one for one in signature if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
    return (
        {one.name: hints.get(one.name, Any) for one in named},
        {one.name for one in named if one.default is not one.empty},
        any(one.kind is one.VAR_KEYWORD for one in signature),
    )


@lru_cache(maxsize=512)
def _hints(code: Any) -> dict[str, Any]:
    """The types of parameters: the same objects each time, since aded.settings keeps what it makes of each."""
    # A type that is imported for the type checker alone is any type here.
    names = defaultdict(lambda: Any, {**vars(builtins), **getattr(code, "__globals__", {})})
    try:
        return get_type_hints(code, localns=names, include_extras=True)
    except Exception:  # annotations may hold any expression
        return {}
