from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny import tiny_model
from transformers import PreTrainedModel

from aded.choice import Greedy
from aded.decode import decode
from aded.human_eval_questions import HumanEval
from aded.pretrained import load_target
from aded.questions import ChatTemplate
from aded.recorded_target import RecordedTarget
from aded.transformers_target import TransformersTarget
from baselines.prompt_lookup import PromptLookup, first_continuation

CONTEXTS = st.lists(st.integers(0, 3), min_size=1, max_size=30)


def by_slices(context: list[int], longest: int) -> int:
    for n in range(min(longest, len(context) - 1), 0, -1):
        for start in range(len(context) - n):
            if context[start : start + n] == context[-n:]:
                return start + n
    return -1


@given(CONTEXTS, st.integers(1, 4))
def test_the_first_occurrence_of_the_longest_ngram_is_found(context: list[int], longest: int) -> None:
    assert first_continuation(np.array(context), longest) == by_slices(context, longest)


@given(CONTEXTS, st.integers(0, 6), st.integers(1, 4))
def test_the_draft_is_what_followed_there(context: list[int], budget: int, longest: int) -> None:
    tree = PromptLookup(budget=budget, max_ngram=longest).draft(np.array(context))
    start = by_slices(context, longest)
    assert tree.tokens.tolist() == [context[-1], *(context[start:][:budget] if start >= 0 else [])]
    assert tree.parents.tolist() == list(range(-1, tree.drafted))


def forwards_of_transformers(model: PreTrainedModel, prompt: Sequence[int], tokens: int) -> tuple[list[int], int]:
    """The answer of transformers' own prompt lookup, and how many forwards it took."""
    forwards: list[int] = []
    ids = torch.tensor([prompt])
    hook = model.register_forward_pre_hook(lambda *_: forwards.append(1))
    try:
        found: Any = model.generate(  # type: ignore[operator]  # a mixin's method, which torch types as a tensor
            ids,
            attention_mask=torch.ones_like(ids),
            do_sample=False,
            max_new_tokens=tokens,
            prompt_lookup_num_tokens=10,
            max_matching_ngram_size=3,
        )
    finally:
        hook.remove()
    return found[0, len(prompt) :].tolist(), len(forwards)


def test_it_takes_as_many_forwards_as_transformers() -> None:
    target, rng = TransformersTarget(tiny_model()), np.random.default_rng(0)
    for _ in range(12):
        prompt = np.tile(rng.integers(64, size=rng.integers(1, 20)), 2)
        answer = decode(target, PromptLookup(), prompt, Greedy(), max_new_tokens=40)
        # transformers drafts in its first forward too, where ours reads the prompt: it is given our first token.
        first, *others = answer.token_ids
        found, forwards = forwards_of_transformers(target.model, [*prompt.tolist(), first], 39)
        assert (found, forwards) == (others, len(answer.accept_lengths))


@pytest.mark.slow
def test_it_takes_as_many_forwards_as_transformers_on_human_eval() -> None:
    """On the embedded model; ours are counted in a replay of the answers, which takes the model's own steps."""
    cache = str(Path("~/.cache/aded").expanduser())
    target, tokenizer = load_target("embedded", dtype="float32", device="cpu", cache=cache)
    saved = 0
    for question in HumanEval().questions()[:12]:
        prompt = ChatTemplate().ids(tokenizer, question.turns, [])
        found, forwards = forwards_of_transformers(target.model, prompt, 64)
        # transformers drafts in its first forward too, where ours reads the prompt: so ours begins a token earlier.
        *known, last = prompt
        recording = Mock(playing=[last, *found], eos_token_ids=target.eos_token_ids)
        answer = decode(RecordedTarget(recording), PromptLookup(), np.array(known), Greedy(), max_new_tokens=65)
        assert answer.token_ids == recording.playing
        assert len(answer.accept_lengths) == forwards
        saved += len(found) - forwards
    assert saved > 63, "drafts are accepted"
