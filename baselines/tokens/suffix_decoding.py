"""SuffixDecoding: drafts the most frequent continuations in earlier answers or in the text (arXiv 2411.04975).

The package arctic-inference has the authors' code: one suffix tree over the answers and one over the prompt and its
answer, both with counts. In each tree every suffix of the context drafts the nodes of highest probability; the draft
with the highest sum of probabilities wins. The settings are those of the package's own simulator (version 0.3.0,
arctic_inference/suffix_decoding/simulator.py).
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from aded.core.drafter import Drafter, Step
from aded.core.tree import DraftTree
from aded.errors import naming_the_extra
from aded.settings import Budget, Count, LearningScope, Positive, Share, Weight


class SuffixDecoding(Drafter):
    """Raises BadInput if the package is not installed.

    budget: most drafted nodes per step
    shape: of the draft: tree, or chain, as in vLLM
    length_factor: most drafted nodes per token of the suffix
    least_probability: of a drafted node, given its suffix
    depth: tokens of the longest path in a suffix tree, of suffix and draft together
    adaptation: how long earlier answers are kept: prompt (cleared at each prompt) or session (kept across questions)
    answers: most answers kept in a session; the oldest makes room
    """

    learned_from = frozenset()

    def __init__(
        self,
        *,
        budget: Budget = 64,
        shape: Literal["tree", "chain"] = "tree",
        length_factor: Weight = 1.0,
        least_probability: Share = 0.1,
        depth: Count = 64,
        adaptation: LearningScope = "session",
        answers: Positive = 10_000,
    ) -> None:
        self.budget, self.shape, self.adaptation = budget, shape, adaptation
        self.length_factor, self.least_probability = length_factor, least_probability
        self.depth, self.answers = depth, answers
        self.reset()

    def reset(self) -> None:
        with naming_the_extra():
            from arctic_inference.suffix_decoding import SuffixDecodingCache
        self._cache = SuffixDecodingCache(self.depth, self.answers)
        self._number = 0  # of the prompt

    def begin(self, prompt_ids: np.ndarray, seed: int = 0) -> None:
        self.end()
        if self.adaptation == "prompt":
            self.reset()
        self._number += 1
        self._cache.start_request(self._number, prompt_ids.astype(np.int32))

    def draft(self, context: np.ndarray) -> DraftTree:
        root = int(context[-1])
        if self._number not in self._cache.active_requests:
            return DraftTree.root(root)
        found = self._cache.speculate(
            self._number,
            context[-self.depth :].astype(np.int32),
            max_spec_tokens=self.budget,
            max_spec_factor=self.length_factor,
            min_token_prob=self.least_probability,
            use_tree_spec=self.shape == "tree",
        )
        return DraftTree(np.array([root, *found.token_ids]), np.array([-1, *(at + 1 for at in found.parents)]))

    def observe(self, step: Step) -> None:
        self._cache.add_active_response(self._number, np.array(step.new_tokens, np.int32))

    def end(self) -> None:
        """The answer stays among the earlier ones; the tree of its prompt goes."""
        if self._number in self._cache.active_requests:
            self._cache.stop_request(self._number)
