"""The configs of conf/ as Hydra composes them, for commands and for the Python API.

Two things are ours: what a class's signature says of its settings stands in no yaml (aded.class_settings), and a
method of another package is a config of the group `method`, which a method of the project keeps its name before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

from hydra import compose, initialize_config_dir
from hydra._internal.core_plugins.file_config_source import FileConfigSource
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.global_hydra import GlobalHydra
from hydra.core.object_type import ObjectType
from hydra.core.plugins import Plugins
from hydra.plugins.config_source import ConfigResult
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import DictConfig, OmegaConf

from aded.class_settings import MISSING, outside_config, outside_drafters, with_defaults
from aded.config import CONF
from aded.errors import BadInput

OF_CLASSES = ("method/", "model/pretrained", "model/recorded", "corpus/", "cluster/")
"""Configs whose settings are their classes' arguments. Those of benchmarks are data, and give each key."""
_METHOD = "method/"
_composing = Lock()
"""Hydra keeps what it composes in one place of the process."""


class ClassConfigs(FileConfigSource):
    """The files of conf/, and the installed methods, each with its class's defaults."""

    @staticmethod
    def scheme() -> str:
        return "classes"

    def is_config(self, config_path: str) -> bool:
        return super().is_config(config_path) or _outside(config_path) is not None

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        found = super().list(config_path, results_filter)
        outside = outside_drafters() if f"{config_path}/" == _METHOD and results_filter != ObjectType.GROUP else ()
        return sorted({*found, *outside})

    def load_config(self, config_path: str) -> ConfigResult:
        if not super().is_config(config_path) and (name := _outside(config_path)) is not None:
            config = OmegaConf.create(outside_config(name))
            return ConfigResult(self.provider, self.full_path(), config, {"package": None})
        result = super().load_config(config_path)
        target = OmegaConf.select(result.config, "_target_", default=MISSING)
        if config_path.startswith(OF_CLASSES) and isinstance(result.config, DictConfig) and target != MISSING:
            plain = OmegaConf.to_container(result.config)
            assert isinstance(plain, dict)
            given = {str(key): value for key, value in plain.items()}
            result.config = OmegaConf.create(with_defaults(given, config_path.partition("/")[0]))
        return result


def _outside(config_path: str) -> str | None:
    name = config_path.removeprefix(_METHOD).removesuffix(".yaml")
    return name if config_path.startswith(_METHOD) and name in outside_drafters() else None


class _First(SearchPathPlugin):
    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        search_path.prepend(ClassConfigs.scheme(), f"{ClassConfigs.scheme()}://{CONF}")


def register() -> None:
    """Make Hydra read configs so, from now on in this process."""
    for plugin in (ClassConfigs, _First):
        Plugins.instance().register(plugin)


def composed(name: str, overrides: Sequence[str] = ()) -> DictConfig:
    """The config conf/`name`.yaml with these overrides. Raises HydraException, or BadInput."""
    register()
    with _composing:
        here = GlobalHydra.instance()
        running, here.hydra = here.hydra, None  # a run composes its parts' configs while Hydra runs it
        try:
            with initialize_config_dir(str(CONF), version_base="1.3"):
                return compose(name, list(overrides))
        finally:
            here.hydra = running


def names_of(group: str) -> list[str]:
    """The choices of a group, such as `method`; methods of other packages are among them."""
    outside = outside_drafters() if group == "method" else ()
    return sorted({*outside, *(path.stem for path in (CONF / group).glob("*.yaml"))})


def read_choice(group: str, name: str, chosen: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The settings of conf/`group`/`name`.yaml. Raises BadInput with the names there are.

    chosen: key -> name of a config, in place of the one that the yaml names.
    """
    for key, choice in {group: name, **{f"{group}/{key}": choice for key, choice in (chosen or {}).items()}}.items():
        if choice not in names_of(key):
            raise BadInput(
                key.replace("/", "."),
                f"{choice!r} is no {key.rpartition('/')[2]}; there are {', '.join(names_of(key))}",
            )
    overrides = tuple(f"{group}/{key}={choice}" for key, choice in (chosen or {}).items())
    found: dict[str, Any] = OmegaConf.to_container(_kept(CONF, group, name, overrides))  # type: ignore[assignment]
    return found


@cache
def _kept(_: Path, group: str, name: str, overrides: tuple[str, ...]) -> DictConfig:
    """A config is composed once in a process: that takes 20 ms."""
    config: DictConfig = OmegaConf.select(composed(f"{group}/{name}", overrides), group.replace("/", "."))
    return config


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Both, group by group; where both have a value, that of `above`."""
    both = {**below, **above}
    for key in below.keys() & above.keys():
        if isinstance(below[key], Mapping) and isinstance(above[key], Mapping):
            both[key] = merged(below[key], above[key])
    return both
