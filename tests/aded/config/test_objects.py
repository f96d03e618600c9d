"""Configs: composed from conf/ and from methods of other packages, typed, bounded, and without unknown keys."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from omegaconf import OmegaConf

from aded.bench.run import checked_config
from aded.config import choices
from aded.config.choices import merged, names_of, outside_config, read_choice
from aded.config.command_line import compose_config, name_pretrained, plain, settings_page
from aded.config.methods import checked_method
from aded.config.objects import instantiate
from aded.core.drafter import Drafter
from aded.errors import BadInput
from aded.files.datastores.ngram_file import NgramFile
from aded.files.datastores.suffix_file import SuffixFile
from aded.records.config import flat
from aded.settings import Budget
from baselines.autoregressive import Autoregressive
from datastore.build import BUILD, BUILT

if TYPE_CHECKING:
    from aded.no_module import Unknown

METHODS = [name for name in names_of("method") if name != "custom"]


@pytest.mark.parametrize("group", ["benchmark", "logger", "decoding", "model", "model/template"])
def test_every_choice_of_a_group_is_right(group: str) -> None:
    needed = {
        "prompts": ["benchmark.question_file=a"],
        "pack": ["model=recorded", "model.answers=a"],
        "pretrained": ["model.path=a/b"],
        "recorded": ["model.answers=a"],
    }
    for name in names_of(group):
        checked_config(compose_config([f"{group}={name}", *needed.get(name, ())]))


# (method, key) of each number among the settings of the methods.
NUMBERS = [
    (method, key)
    for method in METHODS
    for key, value in flat({"method": read_choice("method", method)})
    if type(value) in (int, float)
]


@pytest.mark.parametrize(("method", "key"), NUMBERS)
def test_no_number_of_a_method_takes_another_kind_of_value(method: str, key: str) -> None:
    config = OmegaConf.create({"method": read_choice("method", method)})
    values: tuple[object, ...] = (math.nan, math.inf, -1, True, None, "abc", [], 1e30)
    for value in values:
        if key.startswith("method.contexts") and value == -1:
            continue  # the drafter itself checks how long a context can be
        OmegaConf.update(config, key, value)
        with pytest.raises(BadInput, match=f"^{re.escape(key)}: .*$"):
            checked_method(plain(config)["method"])


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("+foo.bar=1", "foo: no such key; there are model, benchmark, "),
        ("+method.draft_maker.zzz=1", "method.draft_maker.zzz: no such key; there are iterations, "),
        ("engine=fast", "engine: 'fast' must be one of eager, compiled"),
        ("method._target_=os.remove", "method._target_: os.remove is no class here"),
        ("benchmark.limit=0", "benchmark.limit: 0 must be 1 or more"),
        ("benchmark.stop_strings=['']", "benchmark.stop_strings[0]: '' must not be empty"),
        ("decoding.temperature=1e-320", "decoding.temperature: 1e-320 must be 0 (greedy), or 1e-06 or more"),
        ("decoding.seed=1.5", "decoding.seed: 1.5 must be a whole number"),
        ("method.order=5", "method.order: 5 must be one of 2, 3, 4"),
        ("method.name=../x", "method.name: '../x' must be a name without slashes"),
        ("method.draft_maker=3", "method.draft_maker: 3 must be an object, whose class _target_ names"),
        ("+method.datastore=3", "method.datastore: no such key; there are draft_maker, "),
        (
            "method=prompt_lookup +method.datastore_kind=ngrams",
            "method._target_: baselines.tokens.prompt_lookup.PromptLookup takes no datastore",
        ),
        ("benchmark.stop_strings=['\udcff']", "benchmark: holds characters"),
    ],
)
def test_a_wrong_setting_is_refused(override: str, line: str) -> None:
    with pytest.raises(BadInput, match=f"^{re.escape(line)}.*$"):
        checked_config(compose_config([*override.split(" ")]))


def test_the_other_configs_are_checked_too() -> None:
    compose_config(["tokenizer=x"], "build", BUILD)
    for override, line in (("+foo=1", "foo: no such key"), ("out=5", "out: 5 must be text")):
        with pytest.raises(BadInput, match=f"^{line}"):
            compose_config(["tokenizer=x", override], "build", BUILD)
    # An unknown name is refused with those there are.
    with pytest.raises(BadInput, match=r"^method: .*aded_backoff"):
        read_choice("method", "zzz")
    with pytest.raises(BadInput, match=r"^method\.draft_maker: .*best_first"):
        read_choice("method", "aded", {"draft_maker": "zzz"})


class Custom(Autoregressive):
    """As users write them: some arguments typed, some not, one by a name that only a type checker sees."""

    def __init__(
        self, plain: Any, share: float, folder: Path = Path(), of: Unknown = None, names: Sequence[str] = ()
    ) -> None:
        self.seen = (plain, share, folder, of, names)


def test_a_class_of_ones_own_gets_values_of_its_types() -> None:
    target = {"_target_": "test_objects.Custom"}
    made = instantiate({**target, "plain": [1, "a"], "share": 1, "folder": "x", "of": 5, "names": ["b"]}, "method")
    assert made.seen == ([1, "a"], 1.0, Path("x"), 5, ["b"])
    assert isinstance(made.seen[1], float)
    for wrong in ({"share": "1"}, {"share": math.nan}, {"names": "ab"}, {"folder": 3}):
        with pytest.raises(BadInput, match=f"^method.{next(iter(wrong))}: "):
            instantiate({**target, "plain": 1, "share": 1, **wrong}, "method")
    with pytest.raises(BadInput, match=r"^method.plain: must be given"):
        instantiate({**target, "share": 1}, "method")
    # What is of another kind is refused.
    for more in ({}, {"_partial_": True}):
        with pytest.raises(BadInput, match=r"^method._target_: .* makes no .*Drafter"):
            instantiate({"_target_": "pathlib.Path", **more}, "method", Drafter)
    for depth in ({"_target_": "pathlib.Path"}, {"_target_": "builtins.int", "_partial_": True}):
        config = {"_target_": "aded.drafters.trigram.draft_maker.Full", "depth": depth}
        with pytest.raises(BadInput, match=r"^method.draft_maker.depth._target_: "):
            instantiate(config, "method.draft_maker")


def test_a_config_has_what_its_class_says_and_the_yaml_and_the_choices_otherwise() -> None:
    assert {"budget": 64, "datastore_kind": "suffixes"}.items() <= read_choice("method", "rest").items()
    assert "draft_maker" in read_choice("method", "aded")
    assert "cache" not in plain(compose_config([]))["model"]
    wanted = plain(compose_config(["method=aded", "method/draft_maker=full"]).method)
    assert read_choice("method", "aded", {"draft_maker": "full"}) == wanted


def test_groups_are_merged_key_by_key() -> None:
    assert merged({"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"c": 4}, "d": {}}) == {"a": {"b": 1, "c": 4}, "d": {}}


@pytest.mark.parametrize("name", METHODS)
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


class Silent(Autoregressive):
    """Each class below is one of another package."""


class Plain(Silent):
    def __init__(
        self, *, budget: Budget = 8, words: tuple[str, ...] = ("a",), share: float | None = None
    ) -> None: ...


class Demanding(Silent):
    def __init__(self, length: int, cache: str, table: Any = np.zeros(2), **others: int) -> None: ...  # noqa: B008


class Counting(Silent):
    def __init__(self, datastore: NgramFile, *, order: int = 3) -> None: ...


class Matching(Silent):
    def __init__(self, datastore: SuffixFile) -> None: ...


Matching.__init__.__annotations__["datastore"] = SuffixFile  # as in a module that does not keep them as text


class Vague(Silent):
    def __init__(self, datastore: str) -> None: ...


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each class above, as another package would name it; and names that lead nowhere."""
    places = {kind.__name__.lower(): f"{__name__}:{kind.__name__}" for kind in Silent.__subclasses__()}
    places |= {"gone": "no_such_module:Drafter", "rest": f"{__name__}:Plain"}
    entries = EntryPoints(EntryPoint(name, place, choices.ENTRY_POINTS) for name, place in places.items())
    monkeypatch.setattr(choices, "entry_points", lambda group: entries.select(group=group))


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("plain", {"budget": 8, "words": ("a",), "share": None}),
        ("demanding", {"length": "???", "cache": None}),
        ("counting", {"datastore_kind": "ngrams", "order": 3}),
        ("matching", {"datastore_kind": "suffixes"}),
    ],
)
def test_settings_are_the_arguments_of_the_class(name: str, settings: dict[str, Any]) -> None:
    harness = {"name": name, "_target_": f"{__name__}.{name.capitalize()}", "cost": "measured"}
    assert outside_config(name) == {**harness, **settings}


def test_a_method_is_chosen_like_any_other_and_one_of_the_project_keeps_its_name() -> None:
    cfg = compose_config(["method=plain", "method.budget=3", "method.words=[c]"])
    checked_config(cfg)
    assert cfg.method == {**outside_config("plain"), "budget": 3, "words": ["c"]}
    assert compose_config(["method=rest"]).method._target_ == "baselines.tokens.rest.Rest"
    with pytest.raises(BadInput, match=r"there are aded, .*demanding, .*plain"):
        name_pretrained(["method=null"])


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["method=gone"], r"^method: gone cannot be imported from no_such_module.Drafter \(.*no_such_module.*\)$"),
        (["method=vague"], "^method: vague takes a datastore, annotated neither NgramFile nor SuffixFile$"),
        (["method=plain", "method.budget=-1"], r"^method.budget: -1 must be 0 or more$"),
        (["method=plain", "+method.length=1"], "^method.length: no such key; there are budget, words, share$"),
        (["method=demanding"], "^method.length: must be given$"),
    ],
)
def test_what_is_wrong_is_one_line(overrides: list[str], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        checked_config(compose_config(overrides))
