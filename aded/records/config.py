"""The config of a run: the files that it names, what makes two of them different, and how a record's is read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from aded.files.places import named_files, source_files
from aded.identity import VOLATILE, file_fingerprint, files_fingerprint, is_ours

CORPUS = "datastore.corpus.path"
"""The key that may name several files."""
READING = ("model", "benchmark", "method", "datastore")
"""Groups whose settings may name files."""
TARGET = "._target_"
ROOT = Path(__file__).parents[2]
"""Where a relative path of heads or of a scorer is searched after the working directory."""
BEFORE = {
    "benchmark.order": "first",
    "decoding.top_k": 0,
    "decoding.min_p": 0.0,
    "decoding.repetition_penalty": 1.0,
    "decoding.ignore_eos": False,
    "model.trust_remote_code": False,
    "model.template.system": None,
    "model.template.chat_template_kwargs": None,
}
"""Settings that older records lack, with what such a run did."""
MOST_DIFFERENCES = 4
"""Differences that an error names."""
LARGEST = 1 << 18
"""Bytes of a file: a run's config has some thousands."""
LONGEST_NUMBER = 64
"""Characters: one in base 60, which YAML has, takes minutes when it has a million."""


def fingerprints(config: Mapping[str, Any]) -> dict[str, str]:
    """The fingerprint of each file, each model's folder and each corpus that a setting names, by key.

    A class of somebody else's counts by its code (aded.files.places.source_files). A name is no path, even where
    a folder has it. Hub ids, the embedded model and the embedded corpus name versions of their own, and no file here.
    Raises BadInput where the corpus is a folder or glob without a file.
    """
    found = {}
    for key, text in flat({group: config.get(group) for group in READING}):
        if not isinstance(text, str) or not text or key.endswith(".name"):
            continue
        if fingerprint := _fingerprint(key, text):
            found[key] = fingerprint
    return found


def _fingerprint(key: str, text: str) -> str | None:
    if key.endswith(TARGET):
        code = [] if is_ours(text) else source_files(text)
        return files_fingerprint(code) if code else None
    fingerprint = files_fingerprint(named_files(text, key)) if key == CORPUS else file_fingerprint(text)
    return fingerprint or file_fingerprint(ROOT / text)


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
    """The config of a record, which is resolved, in today's keys. Raises OSError, or ValueError naming the file."""
    try:
        tree = read_yaml(path)
        json.dumps(tree, sort_keys=True)  # as its id is made
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"{path}: no config ({str(error)[:200]})") from None
    if not isinstance(tree, dict) or not tree:
        raise ValueError(f"{path}: no config")
    return in_todays_keys(tree)


def in_todays_keys(config: Mapping[str, Any]) -> dict[str, Any]:
    """A recorded config, of which `paired: false` said what `pairing: off` says."""
    if not {"paired", "pairing"} <= config.keys():
        return dict(config)
    kept = {key: value for key, value in config.items() if key != "paired"}
    return kept if config["paired"] else {**kept, "pairing": "off"}


class _Loader(yaml.SafeLoader):
    """No alias, of which a few hundred bytes would stand for gigabytes, and no endless number."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("has an alias (*), which no record has")
        return super().compose_node(parent, index)

    def construct_scalar(self, node: yaml.ScalarNode) -> Any:
        if node.tag.endswith((":int", ":float")) and len(node.value) > LONGEST_NUMBER:
            raise yaml.YAMLError(f"has a number of {len(node.value)} characters")
        return super().construct_scalar(node)


def read_yaml(path: Path) -> Any:
    """The file's data. Raises OSError, or ValueError that says what is wrong."""
    with path.open("rb") as file:
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise ValueError(f"has more than {LARGEST} bytes")
    try:
        return yaml.load(content, _Loader)  # its parent is the safe one
    except (yaml.YAMLError, TypeError, ArithmeticError, RecursionError) as error:
        raise ValueError(" ".join(str(error).split())) from None
