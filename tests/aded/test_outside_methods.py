"""Methods of other packages as configs: their arguments are settings, and what is wrong is one line."""

from __future__ import annotations

from importlib.metadata import EntryPoint, EntryPoints
from typing import Any

import numpy as np
import pytest
from hydra.errors import HydraException

from aded.bench.build import checked_config
from aded.config import choices
from aded.config.choices import outside_config
from aded.config.command_line import compose_config, name_pretrained
from aded.core.drafter import Drafter
from aded.core.tree import DraftTree
from aded.errors import BadInput
from aded.files.datastores.ngram_file import NgramFile
from aded.files.datastores.suffix_file import SuffixFile
from aded.settings import Budget


class Silent(Drafter):
    def draft(self, context: np.ndarray) -> DraftTree:
        return DraftTree.root(int(context[-1]))


class Plain(Silent):
    def __init__(
        self, *, budget: Budget = 8, words: tuple[str, ...] = ("a", "b"), share: float | None = None
    ) -> None:
        self.budget = budget


class Demanding(Silent):
    def __init__(self, length: int, cache: str, table: Any = np.zeros(2), **others: int) -> None: ...  # noqa: B008


class Counting(Silent):
    def __init__(self, datastore: NgramFile, *, order: int = 3) -> None: ...


class Matching(Silent):
    def __init__(self, datastore: SuffixFile) -> None: ...


Matching.__init__.__annotations__["datastore"] = SuffixFile  # as in a module that does not keep them as text


class Perhaps(Silent):
    def __init__(self, datastore: NgramFile | None = None) -> None: ...


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
        ("plain", {"budget": 8, "words": ("a", "b"), "share": None}),
        ("demanding", {"length": "???", "cache": None}),
        ("counting", {"datastore_kind": "ngrams", "order": 3}),
        ("matching", {"datastore_kind": "suffixes"}),
        ("perhaps", {}),
    ],
)
def test_settings_are_the_arguments_of_the_class(name: str, settings: dict[str, Any]) -> None:
    harness = {"name": name, "_target_": f"{__name__}.{name.capitalize()}", "cost": "measured"}
    assert outside_config(name) == {**harness, **settings}


def test_a_method_and_its_settings_are_chosen_like_any_other() -> None:
    cfg = compose_config(["method=plain", "method.budget=3", "method.words=[c]"])
    checked_config(cfg)
    assert cfg.method == {
        "name": "plain",
        "cost": "measured",
        "_target_": f"{__name__}.Plain",
        "budget": 3,
        "words": ["c"],
        "share": None,
    }


def test_a_method_of_the_project_keeps_its_name() -> None:
    assert compose_config(["method=rest"]).method._target_ == "baselines.tokens.rest.Rest"


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
    with pytest.raises(BadInput, match=message) as error:
        checked_config(compose_config(overrides))
    assert "\n" not in str(error.value)


def test_an_unknown_method_is_answered_with_their_names() -> None:
    with pytest.raises(HydraException, match="plain"):
        compose_config(["method=nonsense"])
    with pytest.raises(BadInput, match=r"there are aded, .*demanding, .*plain"):
        name_pretrained(["method=null"])
