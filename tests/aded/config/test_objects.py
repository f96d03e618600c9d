"""Settings are typed and bounded, and keys that nothing reads are refused wherever they stand."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from omegaconf import OmegaConf

from aded.bench.build import checked_config
from aded.config.choices import names_of, read_choice
from aded.config.command_line import CONF, compose_config, plain
from aded.config.objects import instantiate
from aded.core.drafter import Drafter
from aded.core.tree import DraftTree
from aded.errors import BadInput
from aded.methods import checked_method
from datastore.build import BUILD

if TYPE_CHECKING:
    from aded.no_module import Unknown

METHODS = [path.stem for path in sorted((CONF / "method").glob("*.yaml")) if path.stem != "custom"]


def problem(*overrides: str) -> str:
    """What a run with these overrides is refused for."""
    with pytest.raises(BadInput) as error:
        checked_config(compose_config(overrides))
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("method", METHODS)
def test_every_config_is_right(method: str) -> None:
    checked_config(compose_config([f"method={method}"]))


@pytest.mark.parametrize("group", ["benchmark", "logger", "decoding", "model"])
def test_every_choice_of_a_group_is_right(group: str) -> None:
    needed = {
        "pretrained": ["model.path=a/b"],
        "prompts": ["benchmark.question_file=a"],
        "recorded": ["model.answers=a"],
        "pack": ["model=recorded", "model.answers=a"],
    }
    for path in sorted((CONF / group).glob("*.yaml")):
        checked_config(compose_config([f"{group}={path.stem}", *needed.get(path.stem, ())]))


@pytest.mark.parametrize("model", [path.stem for path in sorted((CONF / "model").glob("*.yaml"))])
def test_every_model_takes_every_template(model: str) -> None:
    needed = {"pretrained": ["model.path=a/b"], "recorded": ["model.answers=a"]}
    for template in names_of("model/template"):
        cfg = compose_config([f"model={model}", f"model/template={template}", *needed.get(model, ())])
        assert plain(cfg)["model"]["template"] == read_choice("model/template", template)
        checked_config(cfg)


def leaves(group: Mapping[str, Any], key: str) -> list[tuple[str, Any]]:
    found = []
    for name, value in group.items():
        full = f"{key}.{name}"
        found += leaves(value, full) if isinstance(value, dict) else [(full, value)]
    return found


# (method, key) of each number among the settings of the methods.
NUMBERS = [
    (method, key)
    for method in METHODS
    for key, value in leaves(read_choice("method", method), "method")
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
        ("+paths.zzz=1", "paths.zzz: no such key; there are cache, output"),
        ("+method.zzz=1", "method.zzz: no such key; there are "),
        ("+method.draft_maker.zzz=1", "method.draft_maker.zzz: no such key; there are iterations, "),
        ("+model.zzz=1", "model.zzz: no such key; there are path, dtype, "),
        ("+model.template.zzz=1", "model.template.zzz: no such key; there are system"),
        ("+datastore.corpus.zzz=1", "datastore.corpus.zzz: no such key; there are name"),
        ("pairing=maybe", "pairing: 'maybe' must be one of slices, answers, off"),
        ("engine=fast", "engine: 'fast' must be one of eager, compiled"),
        ("benchmark.limit=true", "benchmark.limit: True must be a whole number"),
        ("benchmark.limit=0", "benchmark.limit: 0 must be 1 or more"),
        ("benchmark.stop_strings=['']", "benchmark.stop_strings[0]: '' must not be empty"),
        ("benchmark.stop_strings=[1]", "benchmark.stop_strings[0]: 1 must be text"),
        ("decoding.temperature=nan", "decoding.temperature: nan must be a finite number"),
        ("decoding.temperature=1e-320", "decoding.temperature: 1e-320 must be 0 (greedy), or 1e-06 or more"),
        ("decoding.seed=1.5", "decoding.seed: 1.5 must be a whole number"),
        ("datastore.order=[3]", "datastore.order: [3] must be"),
        ("method.order=5", "method.order: 5 must be one of 2, 3, 4"),
        ("method._target_=no.such.Class", "method._target_: no.such.Class is no class here, as MODULE.CLASS ("),
        ("method.name=../x", "method.name: '../x' must be a name without slashes"),
        ("method._target_=3", "method._target_: 3 is no class here"),
        ("method.draft_maker=3", "method.draft_maker: 3 must be an object, whose class _target_ names"),
        ("+method.datastore=3", "method.datastore: no such key; there are draft_maker, "),
    ],
)
def test_a_wrong_setting_is_refused(override: str, line: str) -> None:
    assert problem(override).startswith(line)


def test_a_key_that_asks_for_what_the_class_does_not_take_is_refused() -> None:
    line = problem("method=prompt_lookup", "+method.datastore_kind=ngrams")
    assert line.startswith("method._target_: baselines.tokens.prompt_lookup.PromptLookup takes no datastore")


def test_text_that_is_no_utf8_is_refused() -> None:
    assert problem("benchmark.stop_strings=['\udcff']").startswith("benchmark: holds characters")


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("+foo=1", "foo: no such key"),
        ("order=[3]", r"order: \[3\] must be a whole number"),
        ("out=5", "out: 5 must be text"),
        ("progress=maybe", "progress: 'maybe' must be true or false"),
    ],
)
def test_the_other_configs_are_checked_too(override: str, line: str) -> None:
    with pytest.raises(BadInput, match=f"^{line}"):
        compose_config(["tokenizer=x", override], "build", BUILD)
    compose_config(["tokenizer=x"], "build", BUILD)


class Custom(Drafter):
    """As users write them: some arguments typed, some not, one by a name that only a type checker sees."""

    def __init__(
        self, plain: Any, share: float, folder: Path = Path(), of: Unknown = None, names: Sequence[str] = ()
    ) -> None:
        self.seen = (plain, share, folder, of, names)

    def draft(self, context: np.ndarray) -> DraftTree:
        return DraftTree.root(int(context[-1]))


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


@pytest.mark.parametrize("more", [{}, {"_partial_": True}])
def test_what_is_no_drafter_is_refused(more: dict[str, object]) -> None:
    with pytest.raises(BadInput, match=r"^method._target_: .* makes no .*Drafter"):
        instantiate({"_target_": "pathlib.Path", **more}, "method", Drafter)


def test_an_object_takes_no_numbers_place() -> None:
    for depth in ({"_target_": "pathlib.Path"}, {"_target_": "builtins.int", "_partial_": True}):
        config = {"_target_": "aded.drafters.trigram.search.full.Full", "depth": depth}
        with pytest.raises(BadInput, match=r"^method.draft_maker.depth._target_: "):
            instantiate(config, "method.draft_maker")
