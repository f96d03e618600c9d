"""The command that makes a run again: the configs of conf/ that are nearest to its own, and what differs."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from copy import deepcopy
from functools import cache
from typing import Any

from hydra.errors import HydraException
from omegaconf import OmegaConf

from aded.choices import composed, names_of, read_choice
from aded.identity import VOLATILE
from aded.methods import with_whole_parts
from aded.records.config import BEFORE, flat

Settings = Mapping[str, Any]
"""A resolved config, its keys joined by dots."""
Config = dict[str, Any]
GROUPS = ("model", "benchmark", "method")
INNER = ("model/template", "method/draft_maker")
"""Groups of configs within those."""
UNSAID = VOLATILE - {"record"}
"""Keys that change no number and nothing that the report shows."""
REFERENCE = re.compile(r"\$\{([\w.]+)\}")
ABSENT = object()
UNQUOTED = re.compile(r"(?!(?:null|true|false|inf|nan)$)[a-z_./][\w./-]*", re.IGNORECASE | re.ASCII)
"""Texts that mean themselves in Hydra's dialect."""


def command(settings: Settings) -> str | None:
    """The line for a shell; None where it needs a config that is not in conf/, as one of the user's own."""
    try:
        return shlex.join(["aded", "run", *overrides(settings)])
    except (LookupError, HydraException):
        return None


def overrides(settings: Settings) -> list[str]:
    """What `aded run` is to be given. Raises LookupError or an error of Hydra's where conf/ has no such config."""
    order = "in_turn" if settings.get("benchmark.limit") is None else BEFORE["benchmark.order"]
    settings = {"benchmark.order": order, **settings}
    chosen = [f"{group}={_nearest(group, settings)}" for group in GROUPS]
    now = dict(flat(_composed(tuple(chosen))))
    for group in INNER:
        key = f"{group.replace('/', '.')}._target_"
        if key in now and now[key] != settings.get(key, now[key]):
            chosen = [*chosen, f"{group}={_nearest(group, settings)}"]
    return [*chosen, *_differing(deepcopy(_composed(tuple(chosen))), settings)]


def _nearest(group: str, settings: Settings) -> str:
    """The group's config of the run's name or, of those with its class or none, the one with most of its settings."""
    place = group.replace("/", ".") + "."
    own = {key.removeprefix(place): value for key, value in settings.items() if key.startswith(place)}
    if group == "method" and own["name"] in names_of(group):
        return str(own["name"])
    equal: dict[str, int] = {}
    for name in names_of(group):
        config = dict(flat(read_choice(group, name)))
        if config["_target_"] in (own["_target_"], "???"):
            equal[name] = sum(config.get(key, ABSENT) == value for key, value in own.items())
    if not equal:
        raise LookupError(own["_target_"])
    return max(equal, key=lambda name: (name == own.get("name"), equal[name]))


@cache
def _composed(chosen: tuple[str, ...]) -> Config:
    """The config, references and ??? as they stand in it."""
    config: Any = OmegaConf.to_container(composed("config", chosen))
    return {key: value for key, value in config.items() if key not in UNSAID}


def _differing(config: Config, settings: Settings) -> Iterator[str]:
    """An override per setting that differs; `config` gets it too, since others may follow. Raises LookupError."""
    done: set[str] = set()
    while differ := _differences(config, settings):
        key = differ[0]
        if key in done:
            raise LookupError(key)
        done.add(key)
        *above, last = key.split(".")
        group = config
        for name in above:
            group = group.setdefault(name, {})
        if key in settings:
            yield f"{'' if last in group else '+'}{key}={_text(settings[key])}"
            group[last] = settings[key]
        else:
            yield f"~{key}"
            del group[last]


def _differences(config: Config, settings: Settings) -> list[str]:
    """The keys that differ; first those that others may follow, last those that are too many."""
    raw = dict(flat({**config, "method": with_whole_parts(config["method"])}))
    refers = {key: found[1] for key, value in raw.items() if (found := REFERENCE.fullmatch(str(value)))}
    now = raw | {key: raw.get(to) for key, to in refers.items()}
    keys = sorted(settings, key=lambda key: (key in refers, key.count(".")))
    keys = [key for key in keys if key.split(".")[0] not in UNSAID] + sorted(now.keys() - settings.keys())
    return [key for key in keys if settings.get(key, ABSENT) != now.get(key, ABSENT)]


def _text(value: Any) -> str:
    """A value in Hydra's dialect."""
    if isinstance(value, list):
        return f"[{','.join(map(_text, value))}]"
    if not isinstance(value, str):
        return json.dumps(value)
    if UNQUOTED.fullmatch(value):
        return value
    # A quote is escaped, and so is each backslash before one.
    return "'" + re.sub(r"(\\*)('|$)", lambda found: 2 * found[1] + ("\\'" if found[2] else ""), value) + "'"
