"""YAML as plain data: what a record holds, which is made to be passed on, is text, numbers, lists and groups.

Nothing in it is resolved: `${oc.env:KEY}` stays text.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

LARGEST = 1 << 18
"""Bytes of a file: a run's config has some thousands."""
LONGEST_NUMBER = 64
"""Characters: one in base 60, which YAML has, takes minutes when it has a million."""


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
