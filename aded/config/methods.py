"""A method by its config: completed, checked, and made.

The harness reads some keys of a method's config itself: `name`; `datastore_kind`, the kind of datastore that the
method reads; `cache`, the folder for the files that it builds; `cost`, how trees are sized (aded.drafters.sized); and
together `parts` and `settings`: the methods that a hybrid is made of, by name, and what is set otherwise than in
their own configs. All others are arguments of the class.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from aded.config.choices import MISSING, merged, read_choice
from aded.config.objects import CONF, Call, checked_call
from aded.core.drafter import Drafter
from aded.drafters.sized import MEASURED, NONE, SizedDrafter, check_cost
from aded.errors import BadInput
from aded.files.datastores import ngram_file, suffix_file
from aded.files.datastores.array_file import ArrayFile, format_of
from aded.files.datastores.ngram_file import NgramFile, open_ngrams
from aded.files.datastores.suffix_file import SuffixFile, open_suffixes
from aded.settings import FilePath, PlainName, Text, checked

HARNESS = {
    "name": PlainName,
    "datastore_kind": Literal["ngrams", "suffixes"],
    "cache": FilePath | None,
    "cost": FilePath,
}
"""Keys that the harness reads of every method."""
PARTS = {"parts": list[Text], "settings": dict[str, dict[str, Any]]}
"""Keys that it reads of a method with parts."""
Datastores = Callable[[str], ArrayFile]
"""Opens the datastore of a kind."""
NGRAMS = "ngrams"
SUFFIXES = "suffixes"


def method_config(name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The config of a method, of this project or of another package, with these settings. Raises BadInput."""
    config = with_whole_parts(_config(name, settings))
    for key, value in config.items():
        if isinstance(value, str) and value == MISSING:
            raise BadInput(f"method.{key}", "must be given")
    return config


def _config(name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    chosen = {key: one for key, one in settings.items() if isinstance(one, str) and (CONF / "method" / key).is_dir()}
    return merged(read_choice("method", name, chosen), {key: settings[key] for key in settings.keys() - chosen})


def has_parts(config: Mapping[str, Any]) -> bool:
    return PARTS.keys() <= config.keys()


def datastore_kinds(config: Mapping[str, Any]) -> set[str]:
    """Those that the method of a whole config, or any of its parts, reads."""
    own = {config["datastore_kind"]} if "datastore_kind" in config else set()
    return own.union(*map(datastore_kinds, config["settings"].values() if has_parts(config) else ()))


def with_whole_parts(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config with the whole config of each part in its `settings`. Raises BadInput naming the key.

    A part has the settings of its own config. Two of them follow the whole: `cost` is none, since the whole tree is
    sized and no part's, and with `adaptation: prompt` no part learns for longer. What `settings` says comes last.
    """
    if not has_parts(config):
        return dict(config)
    parts = checked(config["parts"], PARTS["parts"], "method.parts")
    given = checked(config["settings"], PARTS["settings"], "method.settings")
    if len(set(parts)) < len(parts):
        raise BadInput("method.parts", "a method is a part once")
    if unknown := given.keys() - set(parts):
        raise BadInput(f"method.settings.{sorted(unknown)[0]}", f"is no part; the parts are {', '.join(parts)}")
    return {**config, "settings": {part: _part(part, given.get(part, {}), config) for part in parts}}


def _part(name: str, given: Mapping[str, Any], whole: Mapping[str, Any]) -> dict[str, Any]:
    """The whole config of a part. given: what is set otherwise than in its own config; or that whole config."""
    if given.get("cost", NONE) != NONE:
        raise BadInput(f"method.settings.{name}.cost", "is a setting of the whole: no part's trees are cut alone")
    if "_target_" in given:
        return {"cost": NONE, **given}
    try:
        own = _config(name, {})
        if has_parts(own):
            raise BadInput("method", f"{name} has parts itself")
        followed = {"cost": NONE}
        if whole.get("adaptation") == "prompt" and own.get("adaptation") == "session":
            followed["adaptation"] = "prompt"
        return method_config(name, {**followed, **given})
    except BadInput as error:
        key = "method.parts" if error.key == "method" else error.key.replace("method", f"method.settings.{name}", 1)
        raise BadInput(key, error.problem) from None


@dataclass(frozen=True)
class Method:
    """A checked config: the call that makes the drafter, and what it is given besides its settings."""

    name: str
    call: Call
    datastore_kind: str | None
    keeps_files: bool
    cost: str
    parts: dict[str, Method] | None = None

    def make(self, datastores: Datastores, cache: str) -> Drafter:
        """A new drafter. Raises BadInput. cache: the folder for files that methods build."""
        given: dict[str, Any] = {}
        if self.datastore_kind is not None:
            given["datastore"] = datastores(self.datastore_kind)
        if self.keeps_files:
            given["cache"] = cache
        if self.parts is not None:
            given["parts"] = {name: part.make(datastores, cache) for name, part in self.parts.items()}
        try:
            made: Drafter = self.call(**given)
        except BadInput as error:  # drafters know their settings as those of a method by itself
            raise BadInput(re.sub(r"^method\b", self.call.key, error.key), error.problem) from None
        return made if self.cost == NONE or made.budget == 0 else SizedDrafter(made, self.cost)


def checked_method(config: Mapping[str, Any], key: str = "method") -> Method:
    """The method that a config describes, with the whole configs of its parts (with_whole_parts).

    Raises BadInput naming the key. key: of the config in the whole one.
    """
    parts, own = None, dict[str, Any](HARNESS)
    filled = [name for key_, name in (("datastore_kind", "datastore"), ("cache", "cache")) if key_ in config]
    if has_parts(config):
        parts = {name: checked_method(one, f"{key}.settings.{name}") for name, one in config["settings"].items()}
        own |= PARTS
        filled.append("parts")
    call = checked_call(config, key, Drafter, own, filled)
    cost = check_cost(str(config.get("cost", MEASURED)), f"{key}.cost")
    return Method(str(config.get("name", "")), call, config.get("datastore_kind"), "cache" in config, cost, parts)


def autoregressive() -> Drafter:
    """The baseline, by its config like any method: the engine imports no baseline."""
    baseline: Drafter = checked_method(read_choice("method", "autoregressive")).call()
    return baseline


class Kind(NamedTuple):
    """opened: what such a file is when it is open; format: what its header says; open: raises BadInput."""

    opened: type[ArrayFile]
    format: str
    open: Callable[[str | Path], ArrayFile]


KINDS = {
    NGRAMS: Kind(NgramFile, ngram_file.FORMAT, open_ngrams),
    SUFFIXES: Kind(SuffixFile, suffix_file.FORMAT, open_suffixes),
}


def kind_of(file: object) -> str | None:
    """The kind of a file, by its path or opened; None for any other file or object."""
    if isinstance(file, str | Path):
        header = format_of(file)
        return next((name for name, kind in KINDS.items() if kind.format == header), None)
    return next((name for name, kind in KINDS.items() if isinstance(file, kind.opened)), None)
