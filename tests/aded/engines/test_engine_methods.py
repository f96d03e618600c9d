"""A method for an engine, by its settings."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from served_files import served_files
from small_ngrams import write_small_ngrams
from tiny import VOCABULARY

from aded.core.drafter import Step
from aded.core.tree import DraftTree
from aded.engines.methods import method_of
from aded.errors import BadInput


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    return served_files(tmp_path_factory.mktemp("served"))


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"method": "nothing"}, "nothing"),
        ({"method": "token_recycling"}, "aded.method: token_recycling reads logits"),
        ({"no_such": 1}, "aded.no_such: no such key"),
        ({"cost": "table.json"}, "aded.cost"),
        ({"method": "prompt_lookup", "cost": "measured"}, "aded.cost"),
        ({"contexts": {"corpus": "x"}}, "aded.contexts"),
        ({"method": "prompt_lookup", "datastore": "any.ngrams"}, "aded.datastore: no such key"),
    ],
)
def test_wrong_settings_are_one_line(files: SimpleNamespace, settings: dict[str, Any], problem: str) -> None:
    datastore = {} if "method" in settings else {"datastore": files.datastore}
    with pytest.raises(BadInput, match=problem):
        method_of({**datastore, **settings}, 5, files.tokenizer)


@pytest.mark.parametrize(
    "settings",
    [
        {"method": "custom", "_target_": "baselines.tokens.prompt_lookup.PromptLookup"},
        {"method": "layered", "parts": ["prompt_lookup", "sglang_ngram"]},
        {"method": "aded", "draft_maker": "best_first"},
    ],
    ids=lambda settings: settings["method"],
)
def test_every_method_that_reads_tokens_alone_takes_its_settings(
    files: SimpleNamespace, settings: dict[str, Any]
) -> None:
    datastore = {"datastore": files.datastore} if settings["method"] == "aded" else {}
    drafter = method_of({**settings, **datastore}, 5, files.tokenizer).make()
    text = np.tile(np.arange(8, 24), 3)
    drafter.begin(text[:-1])
    drafter.observe(Step(DraftTree.root(int(text[-2])), [0], int(text[-1])))
    assert drafter.draft(text).drafted > 0


def test_a_datastore_must_be_given_and_be_of_the_models_tokenizer(files: SimpleNamespace, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"aded\.datastore: must be given"):
        method_of({}, 5, files.tokenizer)
    write_small_ngrams(tmp_path / "other.ngrams", [np.arange(9)], VOCABULARY)
    with pytest.raises(BadInput, match="tokenizer"):
        method_of({"datastore": str(tmp_path / "other.ngrams")}, 5, files.tokenizer)
