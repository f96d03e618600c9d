"""STAND: n-grams that keep the target's probabilities (Song et al. 2025, arXiv 2506.04708).

For each context of one to three tokens a table has the mean of what the target said there, at every node that it
verified, accepted or not: the ten most probable next tokens with their probabilities, 0 for a token that is not among
the ten of a node. The longest known context drafts. The draft tree has a fixed shape: each node has a rank, and its
token is the candidate of this rank of its parent. Where verification is by rejection, candidates come in the order of
draws from these probabilities without replacement (Gumbel-top-k); else the most probable comes first.

No code of the authors is public, and their tree is a figure alone: of 625 nodes the 80 that were accepted most often,
13 levels deep. Here it has the nodes that are accepted most often by a rate for each rank: see `ACCEPTED`.
"""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np

from aded.core.drafter import Drafter, Step
from aded.core.sampler import Sampled, drawn, random_at
from aded.core.tree import DraftTree
from aded.errors import BadInput
from aded.settings import Budget, Count, LearningScope, Positive
from baselines.logits.successors import CANDIDATES, Successors

ACCEPTED = (0.7, 0.082, 0.035, 0.027, 0.022, 0.0115, 0.0085, 0.0080, 0.006, 0.005)
"""How often the candidate of each rank is the target's token, wherever its parent is. The first is such that the tree
of 80 nodes has 13 levels, as theirs has; the others fall as they did in answers of SmolLM2-135M."""


def families(budget: int) -> list[tuple[int, list[int]]]:
    """(node, its children by rank) of the tree of the `budget` nodes that are accepted most often by `ACCEPTED`.

    Nodes are numbered from the root on, most often accepted first.
    """
    children: dict[int, list[int]] = {}
    heap = [(-rate, 0, rank) for rank, rate in enumerate(ACCEPTED)]
    for node in range(1, budget + 1):
        rate, parent, _ = heappop(heap)
        children.setdefault(parent, []).append(node)
        for below, share in enumerate(ACCEPTED):
            heappush(heap, (rate * share, node, below))
    return sorted(children.items())


class Stand(Drafter):
    """Drafts the fixed tree.

    budget: most drafted nodes per step
    adaptation: how long the table is kept: prompt (cleared at each prompt) or session (kept across questions, as
        published)
    max_ngram: tokens of the longest n-gram, the drafted one included
    min_ngram: those of the shortest
    max_contexts: most contexts in the table; those learned longest ago give way
    """

    learned_from = frozenset()
    requires = frozenset({"logits"})

    def __init__(
        self,
        *,
        budget: Budget = 80,
        adaptation: LearningScope = "session",
        max_ngram: Count = 4,
        min_ngram: Count = 2,
        max_contexts: Positive = 1 << 17,
    ) -> None:
        if not 2 <= min_ngram <= max_ngram:
            raise BadInput("method.min_ngram", f"{min_ngram} must be between 2 and method.max_ngram, {max_ngram}")
        self.budget, self.adaptation = budget, adaptation
        self.families, self.longest = families(budget), max_ngram - 1
        self.successors = Successors(min_ngram - 1, self.longest, max_contexts, memory=1 << 62)
        self._sampler: Sampled | None = None

    def reset(self) -> None:
        self.successors.clear()

    def draw_by(self, sampler: Sampled | None) -> None:
        self._sampler = sampler

    def begin(self, prompt_ids: np.ndarray, seed: int = 0) -> None:
        if self.adaptation == "prompt":
            self.reset()
        self._seed, self._before = seed, prompt_ids[:-1][-self.longest :]

    def observe(self, step: Step) -> None:
        assert step.logits is not None
        best, logits = step.top_k(CANDIDATES)
        whole = step.logits.float().logsumexp(dim=-1, keepdim=True).cpu().numpy()
        shares = np.exp((logits - whole).astype(np.float64))
        self.successors.learn(self._before, step.tree.tokens, step.tree.parents, best, shares)
        self._before = np.append(self._before, step.tree.tokens[step.path])[-self.longest :]

    def draft(self, context: np.ndarray) -> DraftTree:
        tokens, parents, reached = [int(context[-1])], [-1], [1.0]
        texts, place = [context[-self.longest :]], {0: 0}
        random = random_at(self._seed, len(context))
        drawn_from: dict[int, np.ndarray] | None = None if self._sampler is None else {}
        for node, children in self.families:
            if node not in place:
                continue
            above = place[node]
            found, shares = self.successors.after(texts[above])
            if drawn_from is not None and len(found) > 0:
                order, drawn_from[above] = self._draw(found, shares, random)
                found, shares = found[order], shares[order]
            for child, token, share in zip(children, found.tolist(), shares.tolist(), strict=False):
                place[child] = len(tokens)
                tokens.append(token)
                parents.append(above)
                reached.append(reached[above] * share)
                texts.append(np.append(texts[above], token)[-self.longest :])
        return DraftTree(np.array(tokens), np.array(parents), np.array(reached), drawn_from)

    def _draw(
        self, tokens: np.ndarray, shares: np.ndarray, random: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """(the candidates in the order of draws, int64 [m]; what they are drawn from, float64 by token)"""
        import torch  # here, since all who name a method read this file

        assert self._sampler is not None
        q = self._sampler.distribution(torch.from_numpy(shares).log()).numpy()
        distribution = np.zeros(int(tokens.max()) + 1)
        distribution[tokens] = q
        return drawn(q, len(q), random), distribution
