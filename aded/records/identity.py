"""A run's identity: its settings, and the contents of the files that they name.

A file counts by what it holds and not by where it lies: a run goes on when its files were moved, and is another run
when one was replaced.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from aded.files.fingerprint import fingerprint
from aded.files.named_files import fingerprint_of_all, named_files

VOLATILE = {"output_dir", "paths", "logger", "progress", "record"}
"""Keys that do not change what is computed."""
CORPUS = "datastore.corpus.path"
"""The key that may name several files."""
READING = ("model", "benchmark", "method", "datastore")
"""Groups whose settings may name files."""
ROOT = Path(__file__).parents[2]
"""Where a relative path is searched after the working directory (baselines.heads.tensor_file)."""
BEFORE = {"benchmark.order": "first"}
"""What was done before there was the key."""
SPELLINGS: dict[object, list[dict[str, object]]] = {
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
MOST_DIFFERENCES = 4
"""Differences that an error names."""


def fingerprints(config: Mapping[str, Any]) -> dict[str, str]:
    """The fingerprint of each file, each model's folder and each corpus that a setting names, by key.

    A name is no path, even where a folder has it. Hub ids, the embedded model and the embedded corpus name versions
    of their own, and no file here. Raises BadInput where the corpus is a folder or glob without a file.
    """
    found = {}
    for key, text in flat({group: config.get(group) for group in READING}):
        if not isinstance(text, str) or not text or key.endswith((".name", "._target_")):
            continue
        mark = fingerprint_of_all(named_files(text, key)) if key == CORPUS else fingerprint(text)
        if mark := mark or fingerprint(ROOT / text):
            found[key] = mark
    return found


def run_id(config: Mapping[str, Any], files: Mapping[str, str]) -> str:
    """16 hex digits: sha256 of the resolved config, with fingerprints in place of paths and without volatile keys.

    files: of `fingerprints`.
    """
    return run_ids(config, files)[0]


def run_ids(config: Mapping[str, Any], files: Mapping[str, str]) -> list[str]:
    """The run's id, and those that the same run may have from a version that had the key `paired` too."""
    kept = {key: value for key, value in config.items() if key not in VOLATILE}
    known_as = [{**kept, **keys} for keys in SPELLINGS.get(kept.get("pairing"), [{}])]
    texts = [json.dumps(by_content(one, files), sort_keys=True) for one in known_as]
    return [hashlib.sha256(text.encode()).hexdigest()[:16] for text in texts]


def by_content(value: Any, files: Mapping[str, str], prefix: str = "") -> Any:
    """The config, or its part below `prefix`, with fingerprints in place of paths."""
    if isinstance(value, dict):
        return {key: by_content(inner, files, f"{prefix}{key}.") for key, inner in value.items()}
    return files.get(prefix[:-1], value)


def flat(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """(key, value) of every setting; keys are joined by dots."""
    if isinstance(value, dict) and (value or not prefix):
        for key, inner in value.items():
            yield from flat(inner, f"{prefix}.{key}" if prefix else str(key))
    else:
        yield prefix, value


def differences(
    before: Mapping[str, Any], files_before: Mapping[str, str], now: Mapping[str, Any], files_now: Mapping[str, str]
) -> list[str]:
    """What makes two runs different, as texts that name the key: MOST_DIFFERENCES, and how many more there are."""
    old, new = dict(flat(before)), dict(flat(now))
    texts = []
    for key in sorted(old.keys() | new.keys()):
        was, is_ = (each.get(key, BEFORE.get(key, "absent")) for each in (old, new))
        if key.split(".")[0] in VOLATILE or files_before.get(key, was) == files_now.get(key, is_):
            continue
        texts.append(f"{key} was {was} and is {is_}" if was != is_ else f"{key} ({is_}) has changed")
    more = len(texts) - MOST_DIFFERENCES
    return texts[:MOST_DIFFERENCES] + ([f"and {more} more"] if more > 0 else [])


def read_config(path: Path) -> dict[str, Any]:
    """The resolved config of a record, in today's keys. Raises OSError, or ValueError naming the file."""
    try:
        tree = OmegaConf.to_container(OmegaConf.load(path), resolve=True)
    except (YAMLError, OmegaConfBaseException, ValueError, RecursionError, OSError) as error:
        if isinstance(error, OSError) and error.filename:
            raise
        raise ValueError(f"{path}: no config ({' '.join(str(error).split())[:200]})") from None
    if not isinstance(tree, dict) or not tree:
        raise ValueError(f"{path}: no config")
    return in_todays_keys(tree)  # type: ignore[arg-type]


def in_todays_keys(config: Mapping[str, Any]) -> dict[str, Any]:
    """A recorded config, of which `paired: false` said what `pairing: off` says."""
    if not {"paired", "pairing"} <= config.keys():
        return dict(config)
    kept = {key: value for key, value in config.items() if key != "paired"}
    return kept if config["paired"] else {**kept, "pairing": "off"}
