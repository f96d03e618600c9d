"""Drafters of other packages, which name them as entry points of the group `aded.drafters`.

Their settings are the arguments of their classes.
"""

from __future__ import annotations

import inspect
from importlib.metadata import entry_points
from pkgutil import resolve_name
from typing import Any

from aded.errors import BadInput

GROUP = "aded.drafters"
MISSING = "???"
"""The value of a key that must be given, as in yaml."""
_KINDS = {"NgramFile": "ngrams", "SuffixFile": "suffixes"}


def outside_drafters() -> dict[str, str]:
    """Each method's name, and its class as module.Class, which is not imported."""
    return {entry.name: entry.value.replace(":", ".") for entry in entry_points(group=GROUP)}


def settings_of(name: str) -> dict[str, Any]:
    """The config of an installed method: its class, and each argument with its default. Raises BadInput.

    An argument without a default must be given; one whose default is no plain value is given with `+method.NAME=`.
    """
    target = outside_drafters()[name]
    try:
        parameters = inspect.signature(resolve_name(target)).parameters.values()
    except Exception as error:  # whatever the other package does when it is imported
        raise BadInput("method", f"{name} cannot be imported from {target} ({error})") from error
    config: dict[str, Any] = {"name": name, "_target_": target}
    for one in parameters:
        required = one.default is one.empty
        if one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD):
            continue
        if one.name == "cache":
            config["cache"] = None  # the harness fills it in
        elif one.name == "datastore":
            if required:
                config["datastore_kind"] = _datastore_kind(one, name)
        elif required or _is_plain(one.default):
            config[one.name] = MISSING if required else one.default
    return config


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
