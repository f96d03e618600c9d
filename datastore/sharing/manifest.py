"""The manifest of a published datastore file: its size and sha256.

It comes from elsewhere: it is checked, and names a file beside it, no path.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from aded.errors import BadInput
from aded.files.json_lines import json_value, typed
from aded.identity import sha256
from aded.settings import STRICT
from datastore.sources.catalogue import Sha256

NAME = "manifest.json"
VERSION: Final = 2
FileName = Annotated[str, Field(pattern=r"^\w[\w.+=-]*$", max_length=200)]
"""A name in the manifest's own folder."""


@dataclass(frozen=True)
class Manifest:
    """What is published beside the file."""

    __pydantic_config__ = STRICT
    format: Literal["aded-datastore"]
    version: Literal[2]
    file: FileName
    bytes: Annotated[int, Field(ge=1, le=1 << 44)]
    sha256: Sha256

    def text(self) -> str:
        return json.dumps(asdict(self), indent=1) + "\n"


def manifest_of(path: Path) -> Manifest:
    """The manifest of a file, which is read once. Raises BadInput where its name is none for others, OSError."""
    manifest = Manifest("aded-datastore", VERSION, path.name, path.stat().st_size, sha256(path))
    return read_manifest(manifest.text().encode(), str(path))


def read_manifest(content: bytes, where: str) -> Manifest:
    """The manifest that was found at `where`. Raises BadInput."""
    try:
        value: Any = json_value(content.decode(), where, "the manifest")
    except UnicodeDecodeError:
        raise BadInput(where, "is no UTF-8 text") from None
    version = value.get("version") if isinstance(value, dict) else None
    if isinstance(version, int) and version != VERSION:
        raise BadInput(
            where, f"is a manifest of version {version}, and this release reads {VERSION}; publish it again"
        )
    manifest: Manifest = typed(value, Manifest, where, "the manifest", "as datastore.publish wrote it")
    return manifest
