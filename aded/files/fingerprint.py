"""Fingerprints: what a file or a model's folder holds, wherever it lies.

A file of up to WHOLE bytes is read as a whole. Of a larger one the size and BLOCKS blocks are read, evenly spaced
from its first bytes to its last. That misses a change which keeps the size and lies between two blocks, as of a
single number in a file of weights. Other weights differ everywhere, and a datastore file ends in its checksum.
"""

from __future__ import annotations

import os
from pathlib import Path

import xxhash

WHOLE = 64 << 20
"""Bytes of the largest file that is read as a whole."""
BLOCKS = 1024
BLOCK = 16 << 10
"""Bytes of a block."""
MODEL_SUFFIXES = (".json", ".safetensors", ".pt")
"""Of the files that make a folder that of a model, a tokenizer or heads."""
COUNTED_SUFFIXES = (*MODEL_SUFFIXES, ".bin", ".gguf", ".model", ".txt", ".jinja", ".py")
"""Of the files that count in it: weights, configs, vocabularies, templates, code."""


def fingerprint(path: str | Path) -> str | None:
    """32 hex digits; None for what is neither a file nor a folder with files of a model, or cannot be read."""
    try:
        path = Path(path).expanduser()
        if path.is_file():
            return _of_file(path).hexdigest()
        inside = sorted(each for each in path.iterdir() if each.suffix in COUNTED_SUFFIXES and each.is_file())
        if not any(each.suffix in MODEL_SUFFIXES for each in inside):
            return None
        return xxhash.xxh3_128_hexdigest(b"".join(each.name.encode() + _of_file(each).digest() for each in inside))
    except (OSError, ValueError, RuntimeError):  # a text is any text, and may name no home
        return None


def _of_file(path: Path) -> xxhash.xxh3_128:
    found = xxhash.xxh3_128()
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size <= WHOLE:
            found.update(file.read())
        else:
            found.update(size.to_bytes(8, "little"))
            for number in range(BLOCKS):
                found.update(os.pread(file.fileno(), BLOCK, number * (size - BLOCK) // (BLOCKS - 1)))
    return found
