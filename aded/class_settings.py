"""Settings as classes state them: a setting is an argument of the class that a config names.

The signature has its type and its default, the docstring its meaning; a yaml says what it sets otherwise. So a method
of another package, which names its class as an entry point of the group `aded.drafters`, needs no yaml.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from aded.errors import BadInput
from aded.extras import naming_the_extra

GROUP = "aded.drafters"
MISSING = "???"
"""The value of a key that must be given, as in yaml."""
_KINDS = {"NgramFile": "ngrams", "SuffixFile": "suffixes"}


def outside_drafters() -> dict[str, str]:
    """Each method's name, and its class as module.Class, which is not imported."""
    return {entry.name: entry.value.replace(":", ".") for entry in entry_points(group=GROUP)}


def outside_config(name: str) -> dict[str, Any]:
    """The config of a method of another package. Raises BadInput. What has no default must be given."""
    config = {"name": name, "_target_": outside_drafters()[name]}
    required = {one.name for one in _arguments(config, "method") if one.default is one.empty} - {"datastore", "cache"}
    return with_defaults({**config, **dict.fromkeys(sorted(required), MISSING)}, "method")


def with_defaults(config: Mapping[str, Any], group: str) -> dict[str, Any]:
    """The config of a class with what the class's signature says of the settings that it lacks. Raises BadInput.

    A default that is no plain value is none of a config, and so is what the harness fills in: of a method, it says
    that there is a cache, and of which kind the datastore is.
    """
    found = dict(config)
    for one in _arguments(config, group):
        if one.name == "cache":
            if group == "method":
                found.setdefault("cache", None)
        elif one.name == "datastore":
            if one.default is one.empty:
                found.setdefault("datastore_kind", _datastore_kind(one, str(config.get("name"))))
        elif one.default is not one.empty and _is_plain(one.default):
            found.setdefault(one.name, one.default)
    return found


def _arguments(config: Mapping[str, Any], group: str) -> Iterator[inspect.Parameter]:
    """The arguments of the class that a config names. Raises BadInput."""
    target = config["_target_"]
    try:
        with naming_the_extra():
            module, _, function = target.rpartition(".")
            parameters = inspect.signature(getattr(import_module(module), function)).parameters.values()
    except BadInput:
        raise
    except Exception as error:  # whatever a module does when it is imported
        name = config.get("name", target)
        raise BadInput(group, f"{name} cannot be imported from {target} ({error})") from error
    return (one for one in parameters if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD))


def _datastore_kind(argument: inspect.Parameter, name: str) -> str:
    """The kind of datastore that a method asks for, by the type of its argument `datastore`. Raises BadInput."""
    kind = argument.annotation
    named = kind if isinstance(kind, str) else getattr(kind, "__name__", "")
    try:
        return _KINDS[named.rpartition(".")[2]]
    except KeyError:
        raise BadInput("method", f"{name} takes a datastore, annotated neither {' nor '.join(_KINDS)}") from None


def _is_plain(value: object) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return value is None or type(value) in (bool, int, float, str)
