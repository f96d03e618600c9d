"""Configs with types: the keys at their top, and the objects whose classes they name by `_target_`.

A class states what its settings may be in the annotations of its arguments (aded.settings); arguments without
one take any value. Keys that no argument takes are refused, wherever they stand.
"""

from __future__ import annotations

import builtins
import inspect
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal, get_type_hints

import hydra
from hydra.errors import InstantiationException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue
from pydantic import Field

from aded.errors import BadInput
from aded.settings import Count, FilePath, Orders, Positive, Share, checked, checked_keys, is_kind

Kinds = Mapping[str, Any]
"""Names of keys, each with its type; the type of a group is such a mapping itself."""
PATHS: Kinds = {"cache": FilePath, "output": FilePath}
GROUP = dict[str, Any]
TOP: Mapping[str, Kinds] = {
    "config": {
        **dict.fromkeys(("model", "benchmark", "method", "datastore", "decoding", "logger"), GROUP),
        "paths": PATHS,
        "paired": bool,
        "pairing": Literal["slices", "answers", "off"],
        "engine": Literal["eager", "compiled"],
        "output_dir": FilePath | None,
        "progress": bool,
    },
    "build": {
        "corpus": GROUP,
        "paths": PATHS,
        "tokenizer": FilePath,
        "out": FilePath | None,
        "orders": Orders,
        "suffixes": FilePath | None,
        "progress": bool,
    },
    "train_medusa": {
        "model": GROUP,
        "datastore": GROUP,
        "paths": PATHS,
        "out": FilePath,
        "threads": Count | None,
        **dict.fromkeys(("heads", "blocks", "epochs"), Count),
        **dict.fromkeys(("prompts", "batch_size", "vocabulary", "validation_every"), Positive),
        "learning_rate": Annotated[float, Field(gt=0)],
        "asking": {
            **dict.fromkeys(("longest_prompt", "max_new_tokens", "batch_size"), Positive),
            "raw_share": Share,
            "seed": Annotated[int, Field(ge=0)],
        },
    },
}
"""The keys at the top of each config; those of its groups are the arguments of what they name."""


def plain(cfg: DictConfig | Mapping[str, Any]) -> dict[str, Any]:
    """The config's values, interpolations resolved. Raises BadInput or an error of OmegaConf's."""
    try:
        values: dict[str, Any] = OmegaConf.to_container(
            cfg if isinstance(cfg, DictConfig) else OmegaConf.create(dict(cfg)), resolve=True, throw_on_missing=True
        )  # type: ignore[assignment]
        return values
    except MissingMandatoryValue as error:
        raise BadInput(str(error.full_key), "must be given") from None
    except RecursionError:
        raise BadInput("config", "its lists or groups are nested too deep") from None


def check_top(cfg: DictConfig, name: str = "config") -> None:
    """Raise BadInput, naming the key, unless the keys at the top of config `name` are right."""
    checked_keys(plain(cfg), TOP[name], "")


@dataclass(frozen=True)
class Call:
    """What a config names by `_target_`: a class or function and its arguments, which may be such calls too."""

    key: str
    function: Callable[..., Any]
    arguments: dict[str, Any]
    kind: Any = Any
    """The type of what the call returns."""
    later: bool = False
    """It is called later, by whoever gets it: `_partial_` in a config."""

    def __call__(self, **filled: Any) -> Any:
        given = {name: value() if isinstance(value, Call) else value for name, value in self.arguments.items()}
        made = partial(self.function, **given) if self.later else self.function(**given, **filled)
        if not is_kind(made, self.kind):
            raise BadInput(f"{self.key}._target_", f"{self.function} makes no {self.kind}")
        return made


def instantiate(
    cfg: DictConfig | Mapping[str, Any], key: str, kind: Any = Any, own: Kinds | None = None, /, **filled: Any
) -> Any:
    """The object of a config with `_target_`. Raises BadInput naming the key. Parameters as in checked_call.

    filled: further arguments, which are no settings.
    """
    return checked_call(cfg, key, kind, own, filled)(**filled)


def checked_call(
    cfg: DictConfig | Mapping[str, Any],
    key: str,
    kind: Any = Any,
    own: Kinds | None = None,
    filled: Collection[str] = (),
) -> Call:
    """The call that a config with `_target_` describes, its settings checked. Raises BadInput naming the key.

    key: of the config in the whole one.
    kind: the type of what it must make.
    own: keys that are no arguments, since the harness reads them itself.
    filled: names of the arguments that code will fill in.
    """
    values, own = plain(cfg), own or {}
    checked_keys({name: values[name] for name in own if name in values}, own, key, optional=own)
    return _call({name: value for name, value in values.items() if name not in own}, key, kind, filled)


def _call(values: dict[str, Any], key: str, kind: Any, filled: Collection[str]) -> Call:
    target = values.pop("_target_", None)
    later: bool = checked(values.pop("_partial_", False), bool, f"{key}._partial_")
    function = _located(target, f"{key}._target_")
    kinds, optional, others = _parameters(function, f"{key}._target_")
    for name in filled:
        if name not in kinds and not others:
            raise BadInput(f"{key}._target_", f"{target} takes no {name}, which this config asks for")
    kinds = {name: hint for name, hint in kinds.items() if name not in filled}
    if others:
        kinds |= dict.fromkeys((name for name in values if name not in kinds), Any)
    nested = {name: value for name, value in values.items() if isinstance(value, dict) and "_target_" in value}
    calls = {name: _call(value, f"{key}.{name}", kinds[name], ()) for name, value in nested.items() if name in kinds}
    left = {name: value for name, value in values.items() if name not in calls}
    arguments = checked_keys(left, kinds, key, {*optional, *calls, *(kinds if later else ())})
    return Call(key, function, {**arguments, **calls}, kind, later)


def _located(target: object, key: str) -> Callable[..., Any]:
    """The class or function of this name. Raises BadInput."""
    try:
        if not isinstance(target, str):
            raise InstantiationException("no name")
        located: Callable[..., Any] = hydra.utils.instantiate({"_target_": target, "_partial_": True}).func
        return located
    except InstantiationException as error:
        reason: BaseException = error
        while reason.__cause__ is not None:
            reason = reason.__cause__
        raise BadInput(key, f"{target} is no class here, as MODULE.CLASS ({reason})") from None


def _parameters(function: Callable[..., Any], key: str) -> tuple[dict[str, Any], set[str], bool]:
    """(parameters with their types, those with a default, does it take others too)."""
    try:
        signature = inspect.signature(function).parameters.values()
    except ValueError:
        raise BadInput(key, f"{function} takes no settings") from None
    code: Any = inspect.unwrap(function.__init__ if inspect.isclass(function) else function)
    # A type that is imported for the type checker alone is any type here.
    names = defaultdict(lambda: Any, {**vars(builtins), **getattr(code, "__globals__", {})})
    try:
        hints = get_type_hints(code, localns=names, include_extras=True)
    except Exception:  # annotations may hold any expression
        hints = {}
    named = [one for one in signature if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
    return (
        {one.name: hints.get(one.name, Any) for one in named},
        {one.name for one in named if one.default is not one.empty},
        any(one.kind is one.VAR_KEYWORD for one in signature),
    )
