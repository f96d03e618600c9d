"""A yaml is read without Hydra as Hydra composes it."""

from __future__ import annotations

import pytest

from aded.choices import merged, names_of, read_choice
from aded.command_line import compose_config, plain
from aded.errors import BadInput

METHODS = [name for name in names_of("method") if name != "custom"]


@pytest.mark.parametrize("name", METHODS)
def test_a_method_is_what_hydra_composes(name: str) -> None:
    composed, read = plain(compose_config([f"method={name}"]).method), read_choice("method", name)
    assert read == composed
    assert {key: type(value) for key, value in read.items()} == {key: type(one) for key, one in composed.items()}


def test_another_config_takes_the_place_of_a_default() -> None:
    wanted = plain(compose_config(["method=aded", "method/draft_maker=full"]).method)
    assert read_choice("method", "aded", {"draft_maker": "full"}) == wanted


def test_an_unknown_name_is_refused_with_those_there_are() -> None:
    with pytest.raises(BadInput, match=r"^method: 'zzz' is no config; there are aded, aded_backoff, "):
        read_choice("method", "zzz")
    with pytest.raises(BadInput, match=r"^method/draft_maker: 'zzz' is no config; there are best_first, "):
        read_choice("method", "aded", {"draft_maker": "zzz"})


def test_groups_are_merged_key_by_key() -> None:
    assert merged({"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"c": 4}, "d": {}}) == {"a": {"b": 1, "c": 4}, "d": {}}
