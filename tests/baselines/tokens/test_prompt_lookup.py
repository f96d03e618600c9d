import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers.generation.candidate_generator import PromptLookupCandidateGenerator

from baselines.tokens.prompt_lookup import PromptLookup


def by_slices(context: list[int], longest: int, shortest: int) -> int:
    for n in range(min(longest, len(context) - 1), shortest - 1, -1):
        for start in range(len(context) - n):
            if context[start : start + n] == context[-n:]:
                return start + n
    return -1


@given(
    st.lists(st.integers(0, 1), min_size=1, max_size=30),
    st.integers(0, 6),
    st.tuples(st.integers(1, 4), st.integers(1, 4)).map(sorted),
)
def test_the_draft_is_what_followed_there_and_that_of_transformers(
    context: list[int], budget: int, lengths: list[int]
) -> None:
    shortest, longest = lengths
    tree = PromptLookup(budget=budget, max_ngram=longest, min_ngram=shortest).draft(np.array(context))
    start = by_slices(context, longest, shortest)
    assert tree.tokens.tolist() == [context[-1], *(context[start:][:budget] if start >= 0 else [])]
    assert tree.parents.tolist() == list(range(-1, tree.drafted))
    if shortest == 1 and budget and len(context) > 1:  # what transformers knows
        theirs = PromptLookupCandidateGenerator(None, budget, longest, max_length=10**6)
        found, _ = theirs.get_candidates(torch.LongTensor([context]))
        assert tree.tokens[1:].tolist() == found[0, len(context) :].tolist()
