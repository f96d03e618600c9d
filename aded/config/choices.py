"""The configs of conf/ as Hydra composes them, for commands and for the Python API.

Two things are ours. A setting is an argument of the class that a config names: the signature has its type and its
default, the docstring its meaning, and a yaml says what it sets otherwise. And a method of another package is named
by an entry point of the group `aded.drafters` and needs no yaml; a method of the project keeps its name before it.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
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

from aded.config.objects import CONF, Kinds
from aded.errors import BadInput, naming_the_extra, no_such
from aded.settings import Order, PlainName, Positive

ENTRY_POINTS = "aded.drafters"
MISSING = "???"
"""The value of a key that must be given, as in yaml."""
_KINDS = {"NgramFile": "ngrams", "SuffixFile": "suffixes"}
OF_CLASSES = ("method/", "model/pretrained", "model/recorded", "model/template/", "corpus/", "cluster/")
"""Configs whose settings are their classes' arguments. Those of benchmarks are data, and give each key."""
BENCHMARK: Kinds = {"name": PlainName, "limit": Positive | None, "order": Order, "max_new_tokens": Positive}
"""Keys of a benchmark's config that a run reads itself; the others are arguments of its class."""
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
            result.config = OmegaConf.create(with_defaults(given, config_path.rpartition("/")[0]))
        return result


def _outside(config_path: str) -> str | None:
    name = config_path.removeprefix(_METHOD).removesuffix(".yaml")
    return name if config_path.startswith(_METHOD) and name in outside_drafters() else None


class _First(SearchPathPlugin):
    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        search_path.prepend(ClassConfigs.scheme(), f"{ClassConfigs.scheme()}://{CONF}")


def register() -> None:
    """Make Hydra read configs so, from now on in this process."""
    # Files of conf/hydra/launcher/ have their plugins' names on purpose: they set what the plugins leave open.
    warnings.filterwarnings("ignore", message="(?s).*validated against ConfigStore schema")
    for plugin in (ClassConfigs, _First):
        Plugins.instance().register(plugin)


def composed(name: str, overrides: Sequence[str] = (), *, with_hydra: bool = False) -> DictConfig:
    """The config conf/`name`.yaml with these overrides. Raises HydraException, or BadInput.

    with_hydra: with Hydra's own group too.
    """
    register()
    with _composing:
        here = GlobalHydra.instance()
        running, here.hydra = here.hydra, None  # a run composes its parts' configs while Hydra runs it
        try:
            with initialize_config_dir(str(CONF), version_base="1.3"):
                return compose(name, list(overrides), return_hydra_config=with_hydra)
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
            raise no_such_choice(key, choice, names_of(key))
    overrides = tuple(f"{group}/{key}={choice}" for key, choice in (chosen or {}).items())
    found: dict[str, Any] = OmegaConf.to_container(_kept(CONF, group, name, overrides))  # type: ignore[assignment]
    return found


def no_such_choice(group: str, name: str, known: Sequence[str]) -> BadInput:
    """What is wrong with a name that is no choice of a group, such as `model/template`."""
    return BadInput(group.replace("/", "."), f"{name!r}: {no_such(group.rpartition('/')[2], name, known)}")


def benchmark_arguments(name: str) -> dict[str, Any]:
    """The settings of conf/benchmark/`name`.yaml that make its questions. Raises BadInput."""
    return {key: value for key, value in read_choice("benchmark", name).items() if key not in BENCHMARK}


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


def outside_drafters() -> dict[str, str]:
    """Each method's name, and its class as module.Class, which is not imported."""
    return {entry.name: entry.value.replace(":", ".") for entry in entry_points(group=ENTRY_POINTS)}


def outside_config(name: str) -> dict[str, Any]:
    """The config of a method of another package. Raises BadInput. What has no default must be given."""
    config = {"name": name, "_target_": outside_drafters()[name]}
    required = {one.name for one in _arguments(config, "method") if one.default is one.empty} - {"datastore", "cache"}
    return with_defaults({**config, **dict.fromkeys(sorted(required), MISSING)}, "method")


def with_defaults(config: Mapping[str, Any], group: str) -> dict[str, Any]:
    """The config of a class with what the class's signature says of the settings that it lacks. Raises BadInput.

    A default that is no plain value is none of a config, and so is what the harness fills in: of a method, it says
    that there is a cache, and of which kind the datastore is. And it sizes the trees of each method.
    """
    found = dict(config)
    if group == "method":
        found.setdefault("cost", "measured")
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
