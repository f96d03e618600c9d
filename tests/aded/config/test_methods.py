import re
from typing import Any

import pytest

from aded.config.methods import checked_method, datastore_kinds, method_config
from aded.drafters.hybrid import Hybrid
from aded.errors import BadInput
from aded.targets.weightless import WeightlessTarget
from baselines.tokens.prompt_lookup import PromptLookup

PARTS = ["prompt_lookup", "token_recycling"]


def hybrid(**settings: Any) -> dict[str, Any]:
    return method_config("hybrid", {"parts": PARTS, "cost": "none", **settings})


def made(config: dict[str, Any]) -> Hybrid:
    drafter = checked_method(config).make(lambda kind: pytest.fail(f"opens {kind}"), "")
    assert isinstance(drafter, Hybrid)
    return drafter


def test_a_part_has_the_settings_of_its_own_config_but_what_is_set_otherwise() -> None:
    config = hybrid(settings={"token_recycling": {"budget": 7}})
    whole = method_config("token_recycling", {})
    assert config["settings"] == {
        "prompt_lookup": {**method_config("prompt_lookup", {}), "cost": "none"},
        "token_recycling": {**whole, "cost": "none", "budget": 7},
    }
    assert list(made(config).parts) == PARTS
    config = method_config("hybrid", {"parts": ["aded_backoff", "medusa"]})
    assert config["cost"] == "measured", "the whole tree is sized, and no parts"
    assert config["settings"]["aded_backoff"]["cost"] == "none"
    # The config of a run's record has whole parts: completing it again changes nothing.
    config = hybrid()
    assert method_config("hybrid", config) == config
    assert made(config).budget == 64
    # A hybrid reads what its parts read.
    assert datastore_kinds(hybrid()) == set()
    assert datastore_kinds(method_config("hybrid", {"parts": ["aded_backoff", "rest"]})) == {"ngrams", "suffixes"}


@pytest.mark.parametrize("scope", ["prompt", "session"])
def test_no_part_learns_for_longer_than_the_hybrid_unless_its_setting_says_so(scope: str) -> None:
    parts = ["aded_backoff", "token_recycling"]
    config = hybrid(parts=parts, adaptation=scope, settings={"token_recycling": {"adaptation": "session"}})
    settings = config["settings"]
    assert (settings["aded_backoff"]["adaptation"], settings["token_recycling"]["adaptation"]) == (scope, "session")


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"parts": []}, "method.parts: must name a method"),
        ({"parts": ["zzz"]}, "method.parts: 'zzz': no such method; there are aded, "),
        ({"parts": ["custom"]}, "method.settings.custom._target_: must be given"),
        ({"parts": ["hybrid", "aded"]}, "method.parts: hybrid has parts itself"),
        ({"parts": ["aded", "aded"]}, "method.parts: a method is a part once"),
        ({"settings": {"rest": {}}}, "method.settings.rest: is no part; the parts are prompt_lookup"),
        ({"settings": {"prompt_lookup": {"cost": "measured"}}}, "method.settings.prompt_lookup.cost: is a setting"),
        ({"settings": {"prompt_lookup": {"min_ngram": 5}}}, "method.settings.prompt_lookup.min_ngram: 5 must not be"),
        ({"adaptation": "off"}, "method.adaptation"),
    ],
)
def test_bad_input_is_named(settings: dict[str, Any], line: str) -> None:
    with pytest.raises(BadInput, match=f"^{re.escape(line)}.*$"):
        made(hybrid(**settings))


def test_a_part_that_needs_what_the_target_lacks_is_named() -> None:
    with pytest.raises(BadInput, match=r"^method: medusa reads hidden states"):
        made(hybrid(parts=["prompt_lookup", "medusa"])).setup(WeightlessTarget())
    # A class of your own is a part too.
    target = {"_target_": "baselines.tokens.prompt_lookup.PromptLookup"}
    part = made(hybrid(parts=["custom"], settings={"custom": target})).parts["custom"]
    assert isinstance(part.drafter, PromptLookup), "its trees are not cut alone"
