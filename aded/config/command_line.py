"""What all commands share: one dialect, one way to report bad input, and the place of the configs.

Every command takes settings as KEY=VALUE and files or folders as they are; `--key value` and `--flag` are read as
key=value and flag=true. Bad input is one line on stderr and exit code 2; Ctrl-C is exit code 130,
SIGTERM 143.

Imports neither torch nor transformers, so that commands on records start at once.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import MISSING as NO_DEFAULT
from dataclasses import dataclass, fields
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, NoReturn, TypeVar, Union, get_args, get_origin, get_type_hints

import hydra
from hydra._internal.utils import get_args_parser
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, Glob, QuotedString
from hydra.errors import HydraException, MissingConfigException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, MissingMandatoryValue, OmegaConfBaseException
from yaml import YAMLError

from aded.config.choices import MISSING, composed, names_of, no_such_choice, register
from aded.config.objects import CONF, Kinds, located
from aded.errors import BadInput, first_line, literal, naming_the_extra, no_such
from aded.files.pack import is_pack, read_about
from aded.identity import is_ours
from aded.settings import FilePath, checked, checked_keys, no_such_key
from aded.shown import say, show_log, warn

INPUT_ERRORS = (BadInput, HydraException, OmegaConfBaseException)
PATHS: Kinds = {"cache": FilePath, "output": FilePath, "sources": FilePath}
"""The keys of conf/paths, which all configs have."""

Settings = TypeVar("Settings")
PLAIN = re.compile(r"""[a-zA-Z/.][\w/.@+-]*|'.*'|".*"|\$.*""")
"""A value that means the same in Hydra's dialect without quotes."""
EARLIER: dict[str, list[str]] = {"paired=true": [], "paired=false": ["pairing=off"]}
"""What other people's scripts still say, and what it means."""
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


@dataclass
class NoSettings:
    """For commands without keys of their own."""


def run_command(
    main: Callable[[list[str], Settings], None], settings: type[Settings], about: str, *, hydra: bool = False
) -> None:
    """Call `main(rest, settings)` with the command line: settings as a dataclass, and the other arguments.

    settings: a dataclass whose fields are the command's keys; about: its docstring, printed for `-h`; hydra: other
    keys are allowed too, as overrides of a Hydra config.
    """
    arguments = sys.argv[1:]
    if {"-h", "--help"} & set(arguments):
        say(about.strip())
        return
    with ending_in_one_line("interrupted; start the same command again"):
        given, rest = split_settings(settings, arguments)
        unknown = [argument for argument in rest if _is_setting(argument)]
        if unknown and not hydra:
            key = unknown[0].partition("=")[0]
            known = (field.name for field in fields(settings))  # type: ignore[arg-type]
            raise BadInput(key, no_such("key", key.removeprefix("--"), known))
        main(rest, given)


def check_no_arguments(arguments: Sequence[str]) -> None:
    """For commands that take KEY=VALUE alone. Raises BadInput."""
    if arguments:
        raise BadInput(arguments[0], "is no setting; write KEY=VALUE")


def _is_setting(argument: str) -> bool:
    """Is this KEY=VALUE or --key, rather than a file whose name holds an equals sign?"""
    return argument.startswith("--") or ("=" in argument and not Path(argument).exists())


def split_settings(settings: type[Settings], arguments: Sequence[str]) -> tuple[Settings, list[str]]:
    """(the dataclass filled from KEY=VALUE, all other arguments). Raises BadInput naming the key."""
    kinds, given, rest = get_type_hints(settings, include_extras=True), {}, []
    for argument in _without_dashes(arguments, kinds):
        key, equals, value = argument.partition("=")
        if key not in kinds or not equals:
            rest.append(argument)
            continue
        # Text is taken as it stands; 007 and 1e5 are names too.
        as_it_stands = _is_text(kinds[key]) and value != "null"
        given[key] = checked(value if as_it_stands else _yaml_value(argument), kinds[key], key)
    for one in fields(settings):  # type: ignore[arg-type]
        if one.name not in given and one.default is NO_DEFAULT and one.default_factory is NO_DEFAULT:
            raise BadInput(one.name, "must be given")
    return settings(**given), rest


def _is_text(kind: Any) -> bool:
    """Is this str, or an annotated str as FilePath is, or one of them or None?"""
    if get_origin(kind) is Annotated:
        return _is_text(get_args(kind)[0])
    others = [one for one in get_args(kind) if one is not NoneType]
    return kind is str or (get_origin(kind) in (Union, UnionType) and all(map(_is_text, others)))


def plain(cfg: DictConfig) -> dict[str, Any]:
    """A config of Hydra's as plain values, interpolations resolved. Raises BadInput or an error of OmegaConf's."""
    try:
        values: dict[str, Any] = OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True)  # type: ignore[assignment]
        return values
    except MissingMandatoryValue as error:
        raise BadInput(str(error.full_key), "must be given") from None
    except RecursionError:
        raise BadInput("config", "its lists or groups are nested too deep") from None


def _yaml_value(argument: str) -> Any:
    """The value of KEY=VALUE, read as YAML. Raises BadInput."""
    key, _, _ = argument.partition("=")
    try:
        return plain(OmegaConf.from_dotlist([argument]))[key]
    except (OmegaConfBaseException, YAMLError) as error:
        raise BadInput(key, first_line(error)) from None


def _without_dashes(arguments: Sequence[str], kinds: Mapping[str, object]) -> Iterator[str]:
    """`--key value`, `--key=value` and `--flag` of the known keys, as key=value and flag=true."""
    given = iter(arguments)
    for argument in given:
        key, equals, value = argument.removeprefix("--").partition("=")
        key = key.replace("-", "_")
        if not argument.startswith("--") or key not in kinds:
            yield argument
        elif equals:
            yield f"{key}={value}"
        else:
            yield f"{key}=true" if kinds[key] is bool else f"{key}={next(given, '')}"


def compose_config(overrides: Sequence[str], name: str = "config", schema: Kinds | None = None) -> DictConfig:
    """The Hydra config `name` with these overrides, for commands that are no Hydra program themselves.

    schema: the keys at its top, which are checked; None: whoever takes the config checks them.
    """
    cfg = composed(name, name_pretrained(overrides))
    if schema is not None:
        checked_keys(plain(cfg), schema, "")
    return cfg


def name_pretrained(overrides: Sequence[str]) -> list[str]:
    """`model=` takes any Hub id or folder: what is no config of the group becomes model=pretrained model.path=...

    `model.answers=` takes a pack, which brings its questions: benchmark=pack is added, unless a benchmark is named.
    """
    named: list[str] = []
    overrides = list(_without_any_dashes(overrides))
    benchmark = any(override.startswith("benchmark=") for override in overrides)
    for override in overrides:
        key, _, value = override.partition("=")
        _check_choice(key, override)
        if key == "model" and value and "," not in value and not os.path.exists(CONF / "model" / f"{value}.yaml"):
            named += ["model=pretrained", f"model.path={value if PLAIN.fullmatch(value) else _quoted(value)}"]
        elif key == "model.answers" and not benchmark and is_pack(value):
            pack = read_about(value, key)
            named += [_readable(override), "benchmark=pack", f"benchmark.name={_quoted(pack.benchmark)}"]
            named.append(f"model.name={_quoted(pack.model)}")
        else:
            named += EARLIER.get(override.lower(), [_readable(override)])
    return named


def _without_any_dashes(arguments: Sequence[str]) -> Iterator[str]:
    """`--key value`, `--key=value` and `--flag`, as key=value and flag=true; Hydra's own flags stay."""
    hydras = {name for action in get_args_parser()._actions for name in action.option_strings}
    given = list(arguments)
    while given:
        argument = given.pop(0)
        name, equals, _ = argument.partition("=")
        if not name.startswith("--") or name in hydras:
            yield argument
        elif equals:
            yield argument.removeprefix("--")
        else:
            is_value = bool(given) and not given[0].startswith("-") and "=" not in given[0]
            yield f"{name.removeprefix('--')}={given.pop(0) if is_value else 'true'}"


def _readable(override: str) -> str:
    """The override; its value in quotes where Hydra's dialect cannot read it, as `~/a file (1)`."""
    key, equals, value = override.partition("=")
    try:
        OverridesParser.create().parse_override(override)
    except HydraException:
        return f"{key}={_quoted(value)}" if equals and not key.startswith("-") else override
    return override


def _quoted(text: str) -> str:
    """Any text as a value of Hydra's dialect."""
    return "'" + text.replace("'", "\\'") + "'"


def _check_choice(key: str, override: str) -> None:
    """Raise BadInput where a group of configs is given what is no name, such as logger=null, and for no key."""
    group = key.lstrip("+").partition("@")[0]
    if not group:
        raise BadInput(override or "''", "names no key; write KEY=VALUE")
    if "\0" in override:
        raise BadInput(key, "has a NUL character, which is in no value")
    if not override.startswith("-") and os.path.isdir(CONF / group):
        with suppress(HydraException):  # Hydra itself will say what it cannot read
            value = OverridesParser.create().parse_override(override).value()
            names = value.list if isinstance(value, ChoiceSweep) else value if isinstance(value, list) else [value]
            for name in names:
                if isinstance(name, str):
                    checked(name, FilePath, key)
            if not all(isinstance(name, str | QuotedString | Glob) for name in names):
                known = ", ".join(names_of(group))
                raise BadInput(key, f"{value if names == [value] else names} is no config; there are {known}")


def run_hydra(hydra_main: Callable[[], None], interrupted: str) -> None:
    """Run an entry point of Hydra's; `interrupted` is what Ctrl-C prints."""
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # errors reach this function as they are
    show_log()
    register()
    with ending_in_one_line(interrupted):
        sys.argv[1:] = name_pretrained(sys.argv[1:])
        hydra_main()


def run_config(
    name: str, run: Callable[[DictConfig], None], about: str, interrupted: str, schema: Kinds | None = None
) -> None:
    """Run a command whose settings are those of conf/NAME.yaml; `interrupted` is what Ctrl-C prints.

    about: the command's docstring, printed for `-h` before its settings
    schema: the keys at the top of its config; None: `run` checks them.
    """
    if {"-h", "--help"} & set(sys.argv[1:]):
        with ending_in_one_line(interrupted):
            overrides = name_pretrained([one for one in sys.argv[1:] if not one.startswith("-")])
            say(f"{about.strip()}\n\n{settings_page(name, overrides)}")
        return

    @hydra.main(version_base="1.3", config_path=str(CONF), config_name=name)
    def hydra_main(cfg: DictConfig) -> None:
        try:
            if schema is not None:
                checked_keys(plain(cfg), schema, "")
            run(cfg)
        except INPUT_ERRORS as error:  # Hydra would print a line of its own first
            exit_with_error(error)

    run_hydra(hydra_main, interrupted)


@contextmanager
def ending_in_one_line(interrupted: str) -> Iterator[None]:
    """A block whose bad input, Ctrl-C and SIGTERM end the process with one line, and with exit code 2, 130 or 143.

    A file that cannot be read or written is bad input too, and so is a library that is missing.

    interrupted: the line for both signals.
    """
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        with naming_the_extra():
            yield
    except KeyboardInterrupt as stop:
        warn(interrupted)
        sys.exit(128 + (signal.SIGTERM if stop.args == (signal.SIGTERM,) else signal.SIGINT))
    except INPUT_ERRORS as error:
        exit_with_error(error)
    except BrokenPipeError:  # whoever read the output has gone
        raise
    except OSError as error:  # as where Hydra itself makes a folder
        exit_with_error(of_files(error))
    finally:
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)


def _terminate(number: int, _: object) -> NoReturn:
    """SIGTERM as Ctrl-C: what was begun is cleaned up."""
    raise KeyboardInterrupt(signal.Signals(number))


def of_files(error: OSError) -> BadInput:
    """What cannot be read or written, as bad input."""
    return BadInput(str(error.filename or "files"), error.strerror or str(error))


def exit_with_error(error: BaseException) -> NoReturn:
    """Print what is wrong in one line; exit code 2."""
    warn(one_line(error))
    sys.exit(2)


def one_line(error: BaseException) -> str:
    """What is wrong with an input: the innermost message, since Hydra wraps what a constructor raises."""
    while error.__cause__ is not None and not isinstance(error, BadInput):
        error = error.__cause__
    if isinstance(error, ConfigAttributeError | ConfigKeyError) and isinstance(error.parent_node, DictConfig):
        known = (str(name) for name in error.parent_node if name != "hydra")
        target = error.parent_node.get("_target_")
        own = f"; for your class: +{error.full_key}=" if target and not is_ours(str(target)) else ""
        groups: Any = OmegaConf.to_container(error.parent_node)
        group = error.parent_node._get_full_key(None)
        problem = no_such_key(str(error.key), known, groups, group)
        error = BadInput(str(error.full_key), problem + own)
    if isinstance(error, MissingConfigException) and error.options and error.missing_cfg_file:
        group, _, name = error.missing_cfg_file.rpartition("/")
        error = no_such_choice(group, name, error.options)
    return literal(" ".join(str(error).split())) or type(error).__name__


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
