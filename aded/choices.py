"""Reads conf/GROUP/NAME.yaml without Hydra: the file, and the files that its `defaults` name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from aded.config import CONF
from aded.errors import BadInput


def names_of(group: str) -> list[str]:
    """The choices of a group, such as `method`."""
    return sorted(path.stem for path in (CONF / group).glob("*.yaml"))


def read_choice(group: str, name: str, chosen: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The settings of conf/`group`/`name`.yaml, composed as Hydra does. Raises BadInput with the names there are.

    chosen: key -> name of a config, in place of the one that `defaults` name.
    """
    if name not in names_of(group):
        raise BadInput(group, f"{name!r} is no config; there are {', '.join(names_of(group))}")
    own: dict[str, Any] = yaml.safe_load((CONF / group / f"{name}.yaml").read_text(encoding="utf-8"))
    defaults = own.pop("defaults", [])
    if "_self_" not in defaults:
        defaults.append("_self_")
    picked = {**dict(_overrides(defaults)), **(chosen or {})}
    found: dict[str, Any] = {}
    for default in defaults:
        if default == "_self_":
            found = merged(found, own)
        elif isinstance(default, str):
            found = merged(found, read_choice(group, default, picked))
        else:
            for key, choice in default.items():
                if not key.startswith("override "):
                    read = read_choice(f"{group}/{key}", picked.get(key, choice))
                    found = merged(found, {key: read})
    return found


def _overrides(defaults: Iterable[str | Mapping[str, str]]) -> Iterable[tuple[str, str]]:
    for default in defaults:
        if isinstance(default, Mapping):
            for key, choice in default.items():
                if key.startswith("override "):
                    yield key.removeprefix("override "), choice


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Both, group by group; where both have a value, that of `above`."""
    both = {**below, **above}
    for key in below.keys() & above.keys():
        if isinstance(below[key], Mapping) and isinstance(above[key], Mapping):
            both[key] = merged(below[key], above[key])
    return both
