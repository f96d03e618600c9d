from hypothesis import example, given
from hypothesis import strategies as st
from tiny import drafted_along

from baselines.engines.trt_suffix_automaton import TrtSuffixAutomaton

TEXT = st.lists(st.integers(0, 2), min_size=2, max_size=30)


def behind_longest_suffix(text: list[int], context: list[int], longest: int) -> tuple[int, list[int]]:
    """(length, what followed) of the first occurrence of the longest suffix that something follows in the text."""
    for length in range(min(longest, len(context)), 0, -1):
        for start in range(len(text) - length):
            if text[start : start + length] == context[-length:]:
                return length, text[start + length :]
    return 0, []


@given(st.lists(TEXT, min_size=1, max_size=5), st.integers(0, 6), st.sampled_from([None, 1, 3]), st.integers(1, 4))
@example([[0, 1], [0, 2], [2, 0]], 2, None, 4)  # of equal matches the first
def test_the_longest_match_drafts(session: list[list[int]], budget: int, max_ngram: int | None, pool: int) -> None:
    drafter = TrtSuffixAutomaton(budget=budget, max_ngram=max_ngram, pool=pool, adaptation="session")
    for number, text in enumerate(session):
        others = session[max(0, number - pool + 1) : number]
        for known, tree in enumerate(drafted_along(drafter, text[:1], text[1:]), 2):
            context, drafted = text[:known], tree.tokens[1:].tolist()
            own = behind_longest_suffix(context, context, max_ngram or 64)
            pooled = [behind_longest_suffix(other, context, max_ngram or 64) for other in others]
            best = max(pooled, key=lambda match: (match[0], len(match[1])), default=(0, []))
            assert drafted == (best if best[0] > own[0] else own)[1][:budget]


def test_in_the_pool_a_match_has_at_most_64_tokens() -> None:
    """So the first of two long matches drafts, though the second is longer."""
    phrase = list(range(10, 74))
    text = [1, *phrase, 2, 3, *phrase, 4, 3, *phrase]
    alone, pooled = TrtSuffixAutomaton(budget=1), TrtSuffixAutomaton(budget=1, adaptation="session")
    drafted_along(pooled, [5], [6])
    for drafter, drafted in ((alone, 4), (pooled, 2)):
        assert drafted_along(drafter, text[:1], text[1:])[-1].tokens[1:].tolist() == [drafted]
