"""Three identities, each a hash of contents: of a run, of a file, and of a tokenizer.

A file counts by what it holds and not by where it lies: a run goes on when its files were moved, and is another run
when one was replaced. The hashes stand in records, packs and datastore files.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import xxhash

VOLATILE = {"output_dir", "paths", "logger", "progress", "record"}
"""Keys of a run's config that do not change what is computed."""
SPELLINGS: dict[str, list[dict[str, object]]] = {
    "slices": [{"paired": True}],
    "answers": [{"paired": True}],
    "off": [
        {"paired": False, "pairing": "slices"},
        {"paired": True, "pairing": "off"},
        {"paired": False, "pairing": "off"},
        {"paired": False, "pairing": "answers"},
    ],
}
"""What `pairing` was when `paired: false` said the same as `pairing: off`. Ids are made of it, so that they stay."""
OURS = ("aded", "baselines", "datastore", "human_eval", "llm_judge")
"""Packages whose code counts by its version, which a record names."""
WHOLE = 64 << 20
"""Bytes of the largest file that is read as a whole."""
BLOCKS = 1024
BLOCK = 16 << 10
"""Bytes of a block."""
MODEL_SUFFIXES = (".json", ".safetensors", ".pt")
"""Of the files that make a folder that of a model, a tokenizer or heads."""
COUNTED_SUFFIXES = (*MODEL_SUFFIXES, ".bin", ".gguf", ".model", ".txt", ".jinja", ".py")
"""Of the files that count in it: weights, configs, vocabularies, templates, code."""
PROBE = 'def f(x):\n    return x  # 3.14, "naïve" 東京\n<|im_start|></s>'
_tokenizers: WeakKeyDictionary[Any, tuple[int, str]] = WeakKeyDictionary()
"""Tokenizer -> its number of tokens then, and its fingerprint."""


def sha256(content: bytes | str | Path) -> str:
    """64 hex digits: of bytes, of a text in UTF-8, or of a file's contents. Raises OSError."""
    if isinstance(content, Path):
        with content.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def has_sha256(path: Path, expected: str) -> bool:
    """Is the file there, with this hash?"""
    try:
        return sha256(path) == expected
    except OSError:
        return False


def run_id(config: Mapping[str, Any], files: Mapping[str, str]) -> str:
    """16 hex digits: of the resolved config, with fingerprints in place of paths and without volatile keys.

    files: the fingerprint of each file that a setting names, by key (aded.records.config.fingerprints).
    """
    return run_ids(config, files)[0]


def run_ids(config: Mapping[str, Any], files: Mapping[str, str]) -> list[str]:
    """The run's id, and those that the same run may have from a version that had the key `paired` too."""
    kept = {key: value for key, value in config.items() if key not in VOLATILE}
    known_as = [{**kept, **keys} for keys in SPELLINGS.get(str(kept.get("pairing")), [{}])]
    return [sha256(json.dumps(by_content(one, files), sort_keys=True))[:16] for one in known_as]


def by_content(value: Any, files: Mapping[str, str], prefix: str = "") -> Any:
    """The config, or its part below `prefix`, with fingerprints in place of paths."""
    if isinstance(value, dict):
        return {key: by_content(inner, files, f"{prefix}{key}.") for key, inner in value.items()}
    return files.get(prefix[:-1], value)


def is_ours(target: str) -> bool:
    """Is this `MODULE.CLASS` the harness's own, and not somebody else's?"""
    return target.partition(".")[0] in OURS


def file_fingerprint(path: str | Path) -> str | None:
    """32 hex digits; None for what is neither a file nor a folder with files of a model, or cannot be read.

    A file of up to WHOLE bytes is read as a whole. Of a larger one the size and BLOCKS blocks are read, evenly spaced
    from its first bytes to its last. That misses a change which keeps the size and lies between two blocks, as of a
    single number in a file of weights. Other weights differ everywhere, and a datastore file ends in its checksum.
    """
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


def files_fingerprint(files: Sequence[str]) -> str | None:
    """32 hex digits of what the files hold, in this order; a single file's are its own. None: one cannot be read."""
    found = [file_fingerprint(each) or "" for each in files]
    if not all(found):
        return None
    return found[0] if len(found) == 1 else xxhash.xxh3_128_hexdigest("".join(found).encode())


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


def tokenizer_fingerprint(tokenizer: Any) -> str:
    """64 hex digits, of the vocabulary and of a probe text's token ids: equal if and only if ids mean the same.

    It takes 0.1 s, once for a tokenizer. Raises whatever a tokenizer from damaged files raises.
    tokenizer: one of transformers, or of the same form; with an attribute `fingerprint`, as of a pack, which has no
        vocabulary, that is the answer.
    """
    if hasattr(tokenizer, "fingerprint"):
        return str(tokenizer.fingerprint)
    size, known = _tokenizers.get(tokenizer, (-1, ""))
    if size != len(tokenizer):
        vocabulary = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
        probe = tokenizer(PROBE, add_special_tokens=False)["input_ids"]
        known = sha256(json.dumps([vocabulary, probe]))
        _tokenizers[tokenizer] = (len(tokenizer), known)
    return known
