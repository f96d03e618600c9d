"""Types of settings: what the annotations of a class say is what its settings may be.

`checked` holds a value from a config or the command line against its type, strictly: 1 is no truth value, "7" and 7.0
are no whole numbers, and nan is no number. A class states its bounds once, in the types of its arguments.
"""

from __future__ import annotations

import os
import re
from collections.abc import Container, Iterable, Iterator, Mapping
from functools import cache
from os.path import expanduser
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    PydanticUserError,
    TypeAdapter,
    ValidationError,
)
from pydantic_core import PydanticSerializationError, to_json

from aded.errors import BadInput, literal, no_such

Budget = Annotated[int, Field(ge=0, le=1 << 16)]
"""Most drafted nodes per step."""
Count = Annotated[int, Field(ge=1, le=1 << 16)]
"""Of what a step looks at or makes, such as tokens of a window."""
CountOrZero = Annotated[int, Field(ge=0, le=1 << 16)]
Positive = Annotated[int, Field(ge=1, le=(1 << 31) - 1)]
Weight = Annotated[float, Field(ge=0, le=1e6)]
Share = Annotated[float, Field(ge=0, le=1)]
Rate = Annotated[float, Field(gt=0)]
Seed = Annotated[int, Field(ge=0)]
NonNegative = Annotated[int, Field(ge=0, le=(1 << 31) - 1)]
LARGEST_VOCABULARY = 1 << 21
"""Tokens of any tokenizer are below this."""
TokenId = Annotated[int, Field(ge=0, lt=LARGEST_VOCABULARY)]
NgramOrder = Annotated[int, Field(ge=2, le=5)]
"""Tokens of a datastore's longest n-grams."""
Text = Annotated[str, Field(min_length=1)]
Id = Annotated[Text, BeforeValidator(lambda value: str(value) if type(value) is int else value)]
"""Text, or a whole number that is read as text."""
FilePath = Annotated[str, AfterValidator(lambda name: _path(name))]
"""The name of a file or folder, or an id on the Hub."""
PlainName = Annotated[str, AfterValidator(lambda name: _plain(name))]
"""A name that becomes part of a folder's, and a value in Hydra's dialect."""
Scope = Literal["off", "prompt", "session"]
"""How long learned state is kept: off (nothing is learned), prompt (cleared at each prompt), session (kept across
questions)."""
LearningScope = Literal["prompt", "session"]
"""The same, of a method that always learns."""
Order = Literal["in_turn", "first"]
"""Which questions a limit takes: of each category one, then a second of each, and so on, or the first ones."""
Engine = Literal["eager", "compiled"]
"""What carries out a target's steps."""
Kernels = Literal["exact", "fast", "torch"]
"""What computes linear layers and attention on a processor; see aded.targets.load."""
Dtype = Literal["float32", "bfloat16", "float16"]
"""Of a model's weights."""

STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, arbitrary_types_allowed=True)
LONGEST = 60
"""Characters of a wrong value that an error shows."""
_PROBLEMS = {
    "bool_type": "must be true or false",
    "dict_type": "must be a group of keys",
    "extra_forbidden": "no such key",
    "finite_number": "must be a finite number",
    "greater_than": "must be above {gt}",
    "greater_than_equal": "must be {ge} or more",
    "int_from_float": "must be a whole number",
    "int_type": "must be a whole number",
    "less_than_equal": "must be {le} or less",
    "list_type": "must be a list",
    "literal_error": "must be one of {expected}",
    "missing": "must be given",
    "needs_python_object": "must be an object, whose class _target_ names",
    "sequence_str": "must be a list",
    "string_too_short": "must not be empty",
    "string_type": "must be text",
    "too_short": "must not be empty",
    "tuple_type": "must be a list",
    "unexpected_keyword_argument": "no such key",
}


def _path(name: str) -> str:
    if not name or "\0" in name or len(name) > 4095 or max(map(len, os.fsencode(name).split(b"/"))) > 255:
        raise ValueError("must be a name that a file can have")
    if name.startswith("~") and expanduser(name) == name:
        raise ValueError("must begin with the home folder of a user who is known")
    return name


def _plain(name: str) -> str:
    if not re.fullmatch(r"\w[^/\\]*", name) or "${" in name or not name.isprintable():
        raise ValueError("must be a name without slashes, controls and ${")
    return name


def checked(value: Any, kind: Any, key: str) -> Any:
    """The value as `kind`, a type or annotation. Raises BadInput naming `key` and what is right.

    value: plain, as JSON has it; lists become what `kind` says.
    """
    try:
        return _adapter(kind).validate_json(to_json(value, inf_nan_mode="constants", fallback=_number))
    except PydanticSerializationError as error:
        _, unknown, type_name = str(error).rpartition("TypeError: ")
        text = "holds characters that are no UTF-8 text, or is nested too deep"
        raise BadInput(key, f"holds a {type_name}, which is no plain value" if unknown else text) from None
    except ValidationError as error:
        place, problem = explain(error)
        raise BadInput(f"{key}{place}", problem) from None


def _number(value: object) -> object:
    """A number of NumPy's, which JSON does not know, as Python's. Raises TypeError for anything else."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(type(value).__name__)


def is_kind(value: object, kind: Any) -> bool:
    """Is an object of this type? kind: a class, protocol or annotation."""
    try:
        return isinstance(value, kind)
    except TypeError:  # an annotation is no class
        pass
    try:
        _adapter(kind).validate_python(value)
        return True
    except ValidationError:
        return False


def _adapter(kind: Any) -> TypeAdapter[Any]:
    try:
        return _kept_adapter(kind)
    except TypeError:  # the annotation has no hash
        return _kept_adapter.__wrapped__(kind)


@cache
def _kept_adapter(kind: Any) -> TypeAdapter[Any]:
    """Holds values against a type; anything goes for a type that pydantic cannot handle."""
    try:
        # A type with fields has its own config, and takes no other.
        return TypeAdapter(kind) if hasattr(kind, "__pydantic_config__") else TypeAdapter(kind, config=STRICT)
    except PydanticUserError:
        return TypeAdapter(Any)


def explain(error: ValidationError) -> tuple[str, str]:
    """(place inside the value, problem) of the first fault: (".turns[0]", "7 must be text")."""
    first = error.errors(include_url=False)[0]
    context = {name: _shown(value) for name, value in first.get("ctx", {}).items()}
    known = _PROBLEMS.get(first["type"])
    problem = (
        known.format(**context)
        if known
        else first["msg"].replace("Input should be", "must be").removeprefix("Value error, ")
    )
    place = "".join(f"[{one}]" if isinstance(one, int) else f".{one}" for one in first["loc"])
    if first["type"] in ("missing", "missing_argument", "extra_forbidden", "unexpected_keyword_argument"):
        return place, problem
    shown = literal(repr(first["input"]))  # before it is cut, which would leave half a password
    return place, f"{shown if len(shown) <= LONGEST else shown[:LONGEST] + '...'} {problem}"


def _shown(limit: object) -> str:
    return str(limit).replace("'", "").replace(" or ", ", ").removesuffix(".0")


def no_such_key(name: str, known: Iterable[str], group: Mapping[Any, Any], key: str = "") -> str:
    """What is wrong with a key that a group of settings cannot have; one of that name in a group below is meant.

    key: of the group, as in checked_keys. group: with the unknown key, where its value is known.
    """
    value = group.get(name, {})
    below = [full for full in _below(group, f"{key}." if key else "") if full.rpartition(".")[2] == name]
    meant = [full if isinstance(value, Mapping) else f"{full}={value}" for full in below if full != name]
    return no_such("key", name, known, meant)


def _below(group: Mapping[Any, Any], prefix: str) -> Iterator[str]:
    """The keys of the groups in a group."""
    for name, value in group.items():
        if isinstance(value, Mapping):
            yield from (f"{prefix}{name}.{inner}" for inner in value)
            yield from _below(value, f"{prefix}{name}.")


def checked_keys(
    given: Mapping[str, Any], kinds: Mapping[str, Any], key: str, optional: Container[str] = ()
) -> dict[str, Any]:
    """The values, each as its kind. Raises BadInput naming the key that is unknown, missing or wrong.

    kinds: names with their types; the type of a group is such a mapping itself.
    key: of the whole group, empty for the top of a config.
    optional: the names that need not be given.
    """

    def full(name: str) -> str:
        return f"{key}.{name}" if key else name

    for name in given:
        if name not in kinds:
            raise BadInput(full(name), no_such_key(name, kinds, given, key))
    for name in kinds:
        if name not in given and name not in optional:
            raise BadInput(full(name), "must be given")
    return {
        name: checked_keys(checked(value, dict[str, Any], full(name)), kinds[name], full(name))
        if isinstance(kinds[name], Mapping)
        else checked(value, kinds[name], full(name))
        for name, value in given.items()
    }
