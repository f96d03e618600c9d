"""The manifest of a published datastore file: its size, and the sha256 of each of its blocks.

So what has arrived of a download is known, whatever interrupted it, and damage costs one block. A manifest comes from
elsewhere: it is checked, and names a file beside it, no path.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final, Literal

from pydantic import Field

from aded.errors import BadInput
from aded.files.json_lines import json_value, typed
from aded.settings import STRICT
from datastore.sources.catalogue import Sha256

NAME = "manifest.json"
BLOCK = 16 << 20
"""Bytes of a block, of which the last one has the rest."""
VERSION: Final = 1
LARGEST = 64 << 20
"""Bytes of a manifest: those of a file of some 15 TB."""
FileName = Annotated[str, Field(pattern=r"^\w[\w.+=-]*$", max_length=200)]
"""A name in the manifest's own folder."""


@dataclass(frozen=True)
class Manifest:
    """What is published beside the file."""

    __pydantic_config__ = STRICT
    format: Literal["aded-datastore"]
    version: Literal[1]
    file: FileName
    bytes: Annotated[int, Field(ge=1, le=1 << 44)]
    block_bytes: Annotated[int, Field(ge=1, le=1 << 28)]
    blocks: tuple[Sha256, ...]

    def span(self, block: int) -> tuple[int, int]:
        """The first byte of a block, and the last one plus 1."""
        return block * self.block_bytes, min(self.bytes, (block + 1) * self.block_bytes)

    def differing(self, file: BinaryIO) -> list[int]:
        """The blocks that the file lacks, or has otherwise."""
        found = list(hashes(file, self.block_bytes))
        return [block for block, wanted in enumerate(self.blocks) if found[block : block + 1] != [wanted]]

    def text(self) -> str:
        return json.dumps(asdict(self), indent=1) + "\n"


def manifest_of(path: Path) -> Manifest:
    """The manifest of a file, which is read once. Raises OSError."""
    with path.open("rb") as file:
        blocks = tuple(hashes(file, BLOCK))
    return Manifest("aded-datastore", VERSION, path.name, path.stat().st_size, BLOCK, blocks)


def hashes(file: BinaryIO, block_bytes: int) -> Iterator[str]:
    """The sha256 of each block."""
    file.seek(0)
    while block := file.read(block_bytes):
        yield hashlib.sha256(block).hexdigest()


def read_manifest(text: str, where: str) -> Manifest:
    """The manifest that was found at `where`. Raises BadInput."""
    value: Any = json_value(text, where, "the manifest")
    version = value.get("version") if isinstance(value, dict) else None
    if isinstance(version, int) and version != VERSION:
        raise BadInput(where, f"is a manifest of version {version}, and this release reads {VERSION}; update ADED")
    manifest: Manifest = typed(value, Manifest, where, "the manifest", "as datastore.publish wrote it")
    if len(manifest.blocks) != -(-manifest.bytes // manifest.block_bytes):
        raise BadInput(where, f"has {len(manifest.blocks)} blocks, which are not those of {manifest.bytes} bytes")
    return manifest


def runs(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """(first, last) of numbers in a row."""
    first = last = -2
    for number in numbers:
        if number > last + 1:
            if last >= 0:
                yield first, last
            first = number
        last = number
    if last >= 0:
        yield first, last
