"""What a command prints for `-h`: the settings of the chosen configs, each with its value and its meaning."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from omegaconf import OmegaConf

from aded.config.choices import MISSING, composed, names_of
from aded.config.objects import CONF, located
from aded.identity import is_ours

SHOWN = ("method", "corpus")
"""Groups whose settings are shown even where the command names none of their choices."""
ABOUT = re.compile(r"(?P<names>\w+(?:, \w+)*): (?P<text>.+)")
"""The line of a docstring that says what an argument means; its further lines are indented."""
MEANINGS = {
    "name": "its name in tables and messages",
    "limit": "questions to ask; null: all",
    "order": "in_turn: categories take turns; first: the first questions",
    "max_new_tokens": "where an answer is cut",
    "datastore_kind": "the kind of datastore file that it reads",
    "cost": "how its trees are sized: measured (by step times measured on this machine), a file of "
    "scripts.bench.verify (by the step times in it), or none (each tree has the whole budget)",
    "cache": "the folder for what it makes once; null: that of the run",
    "settings": "what a part sets otherwise than in its own config: +method.settings.PART.KEY=VALUE",
}
"""Keys that the harness reads itself, whatever the class."""


def settings_page(name: str, overrides: Sequence[str]) -> str:
    """The choices of each group; the settings of those that the overrides name, and of SHOWN; all other keys.

    name: of the command's config, conf/`name`.yaml. Raises BadInput.
    """
    config: dict[str, Any] = OmegaConf.to_container(composed(name, overrides))  # type: ignore[assignment]
    named = {override.partition("=")[0].partition(".")[0].partition("/")[0].lstrip("+") for override in overrides}
    groups = [key for key in config if (CONF / key).is_dir() and key != "paths"]
    shown = [key for key in groups if key in named.union(SHOWN) and "_target_" in (config[key] or {})]
    choices = "\n".join(f"{key}=NAME, of {', '.join(names_of(key))}" for key in groups)
    return "\n\n".join([choices, *("\n".join(_lines(key, config[key])) for key in shown), _explained_keys(name)])


def _explained_keys(name: str) -> str:
    """What stands in conf/`name`.yaml below the list of defaults: its keys, each below a comment."""
    return (CONF / f"{name}.yaml").read_text(encoding="utf-8").partition("\n\n")[2].strip()


def _lines(key: str, config: Mapping[str, Any]) -> Iterator[str]:
    """The class's first line, then a line a setting. key: of the group."""
    target = str(config.get("_target_"))
    meanings = MEANINGS if target == MISSING else {**MEANINGS, **meanings_of(located(target, f"{key}._target_"))}
    yield f"{key}={config['name']}  ({target})" if "name" in config else f"{key}  ({target})"
    for name, value in config.items():
        if isinstance(value, dict) and "_target_" in value:
            yield from (f"  {line}" for line in _lines(f"{key}.{name}", value))
        elif name != "_target_":
            plain = isinstance(value, str) and value.isprintable()
            shown = f"{key}.{name}={value if plain else json.dumps(value)}"
            yield f"  {shown:<40}  {meanings.get(name, '')}".rstrip()
    if target != MISSING and not is_ours(target):
        for name, default in _further_arguments(located(target, f"{key}._target_"), config):
            yield f"  {f'+{key}.{name}={default}':<40}  {meanings.get(name, '')}".rstrip()


def _further_arguments(function: Any, config: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The arguments of somebody else's class that its config does not name, and their defaults."""
    for one in inspect.signature(function).parameters.values():
        is_filled = one.name in (*config, "datastore", "cache")
        if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY) and not is_filled:
            yield one.name, MISSING if one.default is one.empty else one.default


def meanings_of(function: Any) -> dict[str, str]:
    """What the docstring of a class or function says of each argument: `name: meaning`, or `name, name: meaning`."""
    found: dict[str, str] = {}
    latest: list[str] = []
    for line in (inspect.getdoc(function) or "").splitlines():
        if match := ABOUT.fullmatch(line):
            latest = match["names"].split(", ")
            found |= dict.fromkeys(latest, match["text"])
        elif line.startswith(" ") and latest:
            found |= {name: f"{found[name]} {line.strip()}" for name in latest}
        else:
            latest = []
    return found
