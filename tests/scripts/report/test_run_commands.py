"""A run's command, found from its config alone, composes to that config."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import given
from hypothesis import strategies as st

from aded.command_line import compose_config, plain
from aded.identity import VOLATILE
from aded.methods import with_whole_parts
from aded.records.config import flat
from scripts.report.commands import _text, command


def config_of(overrides: list[str]) -> dict[str, Any]:
    """As a run's record has it."""
    whole = plain(compose_config(overrides))
    return dict(flat({**whole, "method": with_whole_parts(whole["method"])}))


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("", "model=smollm2-135m benchmark=human_eval method=aded"),
        (
            "record.trees=2 method=aded_best_first method.budget=8 pairing=off",
            "model=smollm2-135m benchmark=human_eval method=aded_best_first pairing=off method.budget=8 "
            "record.trees=2",
        ),
        (
            "method/draft_maker=full benchmark.limit=3",
            "model=smollm2-135m benchmark=human_eval method=aded method/draft_maker=full benchmark.limit=3",
        ),
        (
            "model=vicuna-7b-v1.5 model/template=raw benchmark=mt_bench",
            "model=vicuna-7b-v1.5 benchmark=mt_bench method=aded model/template=raw",
        ),
        (
            "model=recorded model.answers=a model/template=llama-2",
            "model=recorded benchmark=human_eval method=aded model.answers=a model.template.name=llama-2",
        ),
        (
            "model=a/folder decoding=nucleus method=hybrid method.parts=[aded_backoff,prompt_lookup] "
            "method.adaptation=prompt +method.settings.prompt_lookup.budget=4",
            "model=pretrained benchmark=human_eval method=hybrid model.path=a/folder "
            "'method.parts=[aded_backoff,prompt_lookup]' method.adaptation=prompt decoding.temperature=1.0 "
            "decoding.top_p=0.95 +method.settings.prompt_lookup.budget=4",
        ),
        (
            "method=custom method._target_=mine.Mine method.name=mine +method.length=4 benchmark=human_eval_raw",
            "model=smollm2-135m benchmark=human_eval_raw method=custom method.name=mine "
            "method._target_=mine.Mine +method.length=4",
        ),
        (
            "model=recorded model.answers=a.jsonl model.tokenizer=t +method/parts=no_target method=aded_backoff",
            "model=recorded benchmark=human_eval method=aded_backoff model.answers=a.jsonl model.tokenizer=t "
            "method.name=aded_backoff_no_target method.contexts.target=0",
        ),
    ],
)
def test_the_command_composes_to_the_run(given: str, found: str) -> None:
    config = config_of(shlex.split(given))
    line = command(config)
    assert line == f"aded run {found}"
    again = config_of(shlex.split(line)[2:])
    unsaid = tuple(f"{key}." for key in VOLATILE - {"record"})
    assert {key: value for key, value in again.items() if not key.startswith(unsaid)} == {
        key: value for key, value in config.items() if not key.startswith(unsaid)
    }


def test_a_record_without_an_order_asked_the_first_questions() -> None:
    for limit, said in ((None, ""), (3, " benchmark.order=first benchmark.limit=3")):
        config = config_of([] if limit is None else [f"benchmark.limit={limit}"])
        del config["benchmark.order"]
        assert command(config) == f"aded run model=smollm2-135m benchmark=human_eval method=aded{said}"


def test_a_run_of_a_config_that_is_not_ours_has_none() -> None:
    config = config_of([])
    assert command({**config, "benchmark._target_": "mine.Questions"}) is None
    assert command({"method.name": "aded"}) is None


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text("a1 '\"\\,=[]{}():$\n\té"),
        lambda inner: st.lists(inner, max_size=3),
        max_leaves=4,
    )
)
def test_any_value_is_read_as_it_was(value: Any) -> None:
    read = OverridesParser.create().parse_override(f"key={_text(value)}").value()
    assert unquoted(read) == value


def unquoted(read: Any) -> Any:
    """Hydra's own text has a class of its own."""
    if isinstance(read, list):
        return [unquoted(one) for one in read]
    return getattr(read, "text", read)
