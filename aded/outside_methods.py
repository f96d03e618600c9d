"""Drafters of other packages as configs of the group `method`: their settings are the arguments of their classes.

Hydra reads them from a source of configs beside conf/, which is asked last: a method of the project keeps its name.
"""

from __future__ import annotations

import inspect
from typing import Any

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.object_type import ObjectType
from hydra.core.plugins import Plugins
from hydra.plugins.config_source import ConfigResult, ConfigSource
from hydra.plugins.search_path_plugin import SearchPathPlugin
from hydra.utils import get_object
from omegaconf import MISSING, OmegaConf

from aded.errors import BadInput
from aded.plugins import outside_drafters

_GROUP = "method/"
_SCHEME = "drafters"
_KINDS = {"NgramFile": "ngrams", "SuffixFile": "suffixes"}


def settings_of(name: str) -> dict[str, Any]:
    """The config of an installed method: its class, and each argument with its default. Raises BadInput.

    An argument without a default must be given; one whose default is no plain value is given with `+method.NAME=`.
    """
    target = outside_drafters()[name]
    try:
        parameters = inspect.signature(get_object(target)).parameters.values()
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


class OutsideMethods(ConfigSource):
    """The installed methods, as Hydra asks for configs."""

    @staticmethod
    def scheme() -> str:
        return _SCHEME

    def available(self) -> bool:
        return True

    def is_group(self, config_path: str) -> bool:
        return f"{config_path}/" == _GROUP

    def is_config(self, config_path: str) -> bool:
        return config_path.startswith(_GROUP) and self._name(config_path) in outside_drafters()

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        return sorted(outside_drafters()) if self.is_group(config_path) and results_filter != ObjectType.GROUP else []

    def load_config(self, config_path: str) -> ConfigResult:
        config = OmegaConf.create(settings_of(self._name(config_path)))
        return ConfigResult(self.provider, self.full_path(), config, {"package": None})

    def _name(self, config_path: str) -> str:
        return config_path.removeprefix(_GROUP).removesuffix(".yaml")


class _InSearchPath(SearchPathPlugin):
    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        search_path.append(_SCHEME, f"{_SCHEME}://")


def register() -> None:
    """Make Hydra find the installed methods, from now on in this process."""
    for plugin in (OutsideMethods, _InSearchPath):
        Plugins.instance().register(plugin)
