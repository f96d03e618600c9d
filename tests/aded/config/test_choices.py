"""The configs of conf/, composed for the Python API as for commands."""

from __future__ import annotations

from inspect import signature
from pathlib import Path
from pkgutil import resolve_name

import pytest
import yaml

from aded.config.choices import merged, names_of, read_choice
from aded.config.command_line import compose_config, plain
from aded.config.objects import CONF
from aded.config.settings_page import settings_page
from aded.errors import BadInput
from datastore.build import BUILT


def test_another_config_takes_the_place_of_a_default() -> None:
    wanted = plain(compose_config(["method=aded", "method/draft_maker=full"]).method)
    assert read_choice("method", "aded", {"draft_maker": "full"}) == wanted


def test_an_unknown_name_is_refused_with_those_there_are() -> None:
    with pytest.raises(BadInput, match=r"^method: .*aded_backoff"):
        read_choice("method", "zzz")
    with pytest.raises(BadInput, match=r"^method\.draft_maker: .*best_first"):
        read_choice("method", "aded", {"draft_maker": "zzz"})


def test_groups_are_merged_key_by_key() -> None:
    assert merged({"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"c": 4}, "d": {}}) == {"a": {"b": 1, "c": 4}, "d": {}}


def configs_of_classes() -> list[Path]:
    found = {path: yaml.safe_load(path.read_text()) or {} for path in sorted(CONF.rglob("*.yaml"))}
    return [path for path, config in found.items() if config.get("_target_", "???") != "???"]


@pytest.mark.parametrize("path", configs_of_classes(), ids=lambda path: str(path.relative_to(CONF)))
def test_a_default_stands_in_one_place(path: Path) -> None:
    """Else one of the two will be changed alone."""
    config = yaml.safe_load(path.read_text())
    twice = {
        one.name
        for one in signature(resolve_name(config["_target_"])).parameters.values()
        if one.name in config and one.default is not one.empty
        if one.default == config[one.name] or list_of(one.default) == config[one.name]
    }
    assert twice == set()


def list_of(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


@pytest.mark.parametrize("name", [name for name in names_of("method") if name != "custom"])
def test_the_page_of_a_method_says_what_each_setting_means(name: str) -> None:
    lines = settings_page("config", [f"method={name}"]).split("\n\n")[1].splitlines()[1:]
    settings = [line.split(maxsplit=1) for line in lines if not line.endswith(")") or "_target_" in line]
    assert [words for words in settings if len(words) < 2 and ".contexts." not in words[0]] == []


@pytest.mark.parametrize("choice", [f"{group}={name}" for group in ("corpus", "cluster") for name in names_of(group)])
def test_the_page_of_a_build_says_what_each_setting_means(choice: str) -> None:
    groups, *shown, keys = settings_page("build", [choice]).split("\n\n")
    assert all(name in groups for name in ("corpus=NAME", "cluster=NAME", choice.partition("=")[2]))
    (lines,) = (page.splitlines()[1:] for page in shown if page.startswith(choice.partition("=")[0]))
    assert [line for line in lines if len(line.split(maxsplit=1)) < 2] == []
    assert all(key in keys for key in BUILT)


def test_a_config_has_what_its_class_says_and_the_yaml_otherwise() -> None:
    assert {"budget": 64, "datastore_kind": "suffixes"}.items() <= read_choice("method", "rest").items()
    assert "draft_maker" in read_choice("method", "aded")
    assert "cache" not in plain(compose_config([]))["model"]
