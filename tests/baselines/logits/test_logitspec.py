import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny import paths_of

from aded.core.drafter import Step
from aded.core.tree import DraftTree
from baselines.logits.logitspec import LogitSpec, path_length

VOCABULARY = 12
TEXTS = st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=60)


def pool_of(text: list[int], longest: int, ahead: int) -> dict[tuple[int, ...], list[int]]:
    """What followed each n-gram of the text, entered from left to right: a shorter continuation replaces none."""
    pool: dict[tuple[int, ...], list[int]] = {}
    for start in range(len(text)):
        for end in range(start + 1, min(start + longest, len(text) - 1) + 1):
            following = text[end : end + ahead]
            if len(following) >= len(pool.get(tuple(text[start:end]), [])):
                pool[tuple(text[start:end])] = following
    return pool


def expected(context: list[int], logits: list[float], budget: int, longest: int, ahead: int) -> list[tuple[int, ...]]:
    """The drafted paths, plainly: the sequences of the authors' code one after another, as a trie."""
    pool = pool_of(context[:-1], longest, ahead)

    def following(tokens: list[int]) -> list[int]:
        return next((pool[key] for n in range(longest, 0, -1) if (key := tuple(tokens[-n:])) in pool), [])

    sequences = [following(context)]
    ranked = sorted(range(len(logits)), key=lambda token: -logits[token])
    for rank, token in enumerate(ranked):
        if token != context[-1]:
            length = 4 if rank <= 8 else 3 if rank <= 32 else 1
            sequences.append([token, *following([*context, token])][:length])
    found: list[tuple[int, ...]] = []
    for sequence in sequences:
        for n in range(1, len(sequence) + 1):
            if tuple(sequence[:n]) not in found and len(found) < budget:
                found.append(tuple(sequence[:n]))
    return found


@given(TEXTS, st.integers(0, 40), st.integers(1, 4), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_drafts_equal_the_plain_algorithm(text: list[int], budget: int, longest: int, ahead: int, seed: int) -> None:
    drafter = LogitSpec(budget=budget, max_ngram=longest, ahead=ahead)
    drafter.begin(np.array(text))
    rng = np.random.default_rng(seed)
    for _ in range(3):
        logits = rng.permutation(VOCABULARY).astype(np.float32)
        root = int(logits.argmax()) if rng.random() < 0.5 else int(rng.integers(VOCABULARY))  # sampled ones too
        drafter.observe(Step(DraftTree.root(text[-1]), [0], root, torch.from_numpy(logits)[None]))
        text = [*text, root]
        drafted = paths_of(drafter.draft(np.array(text)))
        assert drafted == expected(text, logits.tolist(), budget, longest, ahead)


def test_only_the_logits_behind_the_accepted_path_are_read() -> None:
    logits = torch.zeros(3, VOCABULARY)
    logits[0, 1], logits[1, 2], logits[2, 3] = 9, 9, 9
    drafter = LogitSpec(budget=1)
    drafter.begin(np.array([0]))
    drafter.observe(Step(DraftTree(np.array([0, 5, 6]), np.array([-1, 0, 0])), [0, 2], 4, logits))
    assert drafter.draft(np.array([0, 6, 4])).tokens.tolist() == [4, 3]


def test_lengths_are_the_published_ones() -> None:
    assert [path_length(rank) for rank in (1, 8, 9, 32, 33, 500)] == [4, 4, 3, 3, 1, 1]
