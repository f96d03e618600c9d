"""aded.compare is the runner, paired, on one's own model and prompts."""

from __future__ import annotations

import threading
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from tiny import tiny_model, tiny_tokenizer

import aded
from aded.core.drafter import Drafter
from aded.core.target import Target
from aded.core.tree import DraftTree
from aded.errors import BadInput
from aded.files.datastores.ngram_file import NgramFile, no_ngrams
from aded.records.summary import Summary

PROMPTS: list[Any] = ["the cat sat on the mat, the cat", [7, 8, 9, 7, 8], [{"role": "user", "content": "a cat"}]]


def test_a_row_per_method_a_column_per_key() -> None:
    model, tokenizer = tiny_model(vocab_size=128), tiny_tokenizer()
    mine, whole = (aded.drafter(name, cost="none") for name in ("aded_backoff", "prompt_lookup"))
    report = aded.compare(model, tokenizer, PROMPTS, [whole, mine, "autoregressive"], max_new_tokens=24)
    assert list(report.columns) == [key.name for key in fields(Summary) if key.name != "run_id"]
    assert report.method.tolist() == ["prompt_lookup", "aded_backoff", "autoregressive"]
    assert report.identical_outputs.tolist() == report.questions.tolist() == [3] * 3
    assert report.mean_accepted_tokens.tolist()[2] == 1.0
    assert (report.speedup > 0).all()
    answers = [aded.generate(model, tokenizer, one, drafter=whole, max_new_tokens=24) for one in PROMPTS]
    steps, tokens = sum(one.steps for one in answers), sum(sum(one.accept_lengths) for one in answers)
    assert report.mean_accepted_tokens[0] == tokens / steps


def test_the_parts_of_a_method_are_in_its_row() -> None:
    hybrid = aded.drafter("hybrid", parts=["prompt_lookup", "token_recycling"], cost="none")
    report = aded.compare(tiny_model(vocab_size=128), tiny_tokenizer(), PROMPTS, [hybrid], max_new_tokens=16)
    assert set(report.parts[0]) == {"prompt_lookup", "token_recycling"}


class Mine(Drafter):
    """Drafts nothing, and counts its answers."""

    adaptation = "session"

    target: Target | None = None
    answers = 0

    def __init__(self, datastore: NgramFile) -> None:
        self.datastore = datastore

    def setup(self, target: Target) -> None:
        self.target = target

    def draft(self, context: np.ndarray) -> DraftTree:
        return DraftTree.root(int(context[-1]))

    def end(self) -> None:
        self.answers += 1

    def reset(self) -> None:
        self.answers = 0


def test_what_a_drafter_of_ones_own_has_learned_stays_with_it() -> None:
    model, tokenizer, mine = tiny_model(vocab_size=128), tiny_tokenizer(), Mine(no_ngrams())
    aded.generate(model, tokenizer, "the cat", drafter=mine, max_new_tokens=4)
    target, file = mine.target, mine.datastore
    report = aded.compare(model, tokenizer, PROMPTS, [mine], max_new_tokens=8)
    assert report.method.tolist() == ["Mine"]
    assert mine.answers == 1
    assert (mine.target, mine.datastore) == (target, file)


def test_a_drafter_that_cannot_be_copied_is_refused() -> None:
    mine = Mine(no_ngrams())
    mine.lock = threading.Lock()  # type: ignore[attr-defined]
    with pytest.raises(BadInput, match=r"^drafter: Mine cannot be copied"):
        aded.compare(tiny_model(vocab_size=128), tiny_tokenizer(), PROMPTS, [mine])


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
        ({"prompts": {"input_ids": [[1, 2]]}}, "prompts: must be a list"),
        ({"prompts": [""]}, "prompt: has no token"),
        ({"methods": "aded"}, "methods: must be a list"),
        ({"methods": ["zzz"]}, "method: 'zzz' is no method"),
        ({"methods": ["rest"]}, "datastore: must be given: rest"),
        ({"max_new_tokens": 0}, "max_new_tokens: 0 must be 1 or more"),
        ({"temperature": 1e-9}, "temperature: 1e-09 must be 0 (greedy), or 1e-06 or more"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, Any], line: str) -> None:
    given: dict[str, Any] = {"prompts": ["a"], "methods": ["prompt_lookup"], **arguments}
    with pytest.raises(BadInput) as error:
        aded.compare(tiny_model(), tiny_tokenizer(), given.pop("prompts"), given.pop("methods"), **given)
    assert str(error.value).startswith(line)


def test_a_tokenizer_that_is_not_the_models_is_refused() -> None:
    model = tiny_model(vocab_size=8)
    for prompt in ("a cat", [1, 2, 3]):  # the text of the warm-up has other tokens too
        with pytest.raises(
            BadInput, match=r"^prompt: has token \d+, and the model has 8; is it the model's tokenizer\?$"
        ):
            aded.compare(model, tiny_tokenizer(), [prompt], ["prompt_lookup"])
    with pytest.raises(BadInput, match=r"^tokenizer: NoneType is no tokenizer of transformers$"):
        aded.compare(model, None, [[1, 2, 3]], ["prompt_lookup"])  # type: ignore[arg-type]


def test_one_stop_string_is_one() -> None:
    model, tokenizer = tiny_model(vocab_size=128), tiny_tokenizer()
    alone, listed = (
        aded.compare(model, tokenizer, PROMPTS, ["prompt_lookup"], max_new_tokens=16, stop=stop)
        for stop in ("no such text", ["no such text"])
    )
    assert alone.steps.tolist() == listed.steps.tolist()
    with pytest.raises(BadInput, match=r"^stop"):
        aded.compare(model, tokenizer, PROMPTS, ["prompt_lookup"], stop=[""])
