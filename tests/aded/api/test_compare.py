"""aded.compare is the runner, paired, on one's own model and prompts."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from tiny import tiny_model, tiny_tokenizer

import aded
from aded.errors import BadInput
from aded.records.summary import Summary

PROMPTS: list[Any] = ["the cat sat on the mat, the cat", [7, 8, 9, 7, 8], [{"role": "user", "content": "a cat"}]]


def test_a_row_per_method_a_column_per_key() -> None:
    model, tokenizer = tiny_model(vocab_size=128), tiny_tokenizer()
    mine = aded.drafter("aded_backoff", cost="none")
    report = aded.compare(model, tokenizer, PROMPTS, ["prompt_lookup", mine, "autoregressive"], max_new_tokens=24)
    assert list(report.columns) == [key.name for key in fields(Summary) if key.name != "run_id"]
    assert report.method.tolist() == ["prompt_lookup", "aded_backoff", "autoregressive"]
    assert report.identical_outputs.tolist() == report.questions.tolist() == [3] * 3
    assert report.mean_accepted_tokens.tolist()[2] == 1.0
    assert (report.speedup > 0).all()
    answers = [aded.generate(model, tokenizer, one, drafter="prompt_lookup", max_new_tokens=24) for one in PROMPTS]
    steps, tokens = sum(one.steps for one in answers), sum(sum(one.accept_lengths) for one in answers)
    assert report.mean_accepted_tokens[0] == tokens / steps


def test_drawn_answers_are_identical_too() -> None:
    report = aded.compare(
        tiny_model(vocab_size=128), tiny_tokenizer(), PROMPTS, ["prompt_lookup"], max_new_tokens=16, temperature=0.9
    )
    assert report.identical_outputs[0] == 3


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({"prompts": "text"}, "prompts: must be a list"),
        ({"prompts": []}, "prompts: must not be empty"),
        ({"prompts": [""]}, "prompt: has no token"),
        ({"methods": "aded"}, "methods: must be a list"),
        ({"methods": ["zzz"]}, "method: 'zzz' is no method"),
        ({"methods": ["rest"]}, "datastore: must be given: rest"),
        ({"max_new_tokens": 0}, "max_new_tokens: 0 must be 1 or more"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, Any], line: str) -> None:
    given: dict[str, Any] = {"prompts": ["a"], "methods": ["prompt_lookup"], **arguments}
    with pytest.raises(BadInput) as error:
        aded.compare(tiny_model(), tiny_tokenizer(), given.pop("prompts"), given.pop("methods"), **given)
    assert str(error.value).startswith(line)
