"""Drafters of other packages as configs of the group `method`.

Hydra reads them from a source of configs beside conf/, which is asked last: a method of the project keeps its name.
"""

from __future__ import annotations

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.object_type import ObjectType
from hydra.core.plugins import Plugins
from hydra.plugins.config_source import ConfigResult, ConfigSource
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import OmegaConf

from aded.plugins import outside_drafters, settings_of

_GROUP = "method/"
_SCHEME = "drafters"


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
