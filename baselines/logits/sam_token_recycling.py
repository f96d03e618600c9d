"""SAM-Decoding with Token Recycling behind it (Hu et al. 2024, arXiv 2411.10666).

The longer of the matches in the text and in the corpus drafts a chain. If both are short, Token Recycling drafts.
Algorithm and settings are those of `samd` in https://github.com/hyx1999/SAM-Decoding (commit 18c41f0,
samd/samd_config.py), which differ from those of SAM-Decoding alone. Theirs recycles what the target says at every
token of the prompt too; here the prompt's last token alone counts, as in Token Recycling.
"""

from __future__ import annotations

from itertools import takewhile

import numpy as np

from aded.core.drafter import Step
from aded.core.tree import DraftTree
from aded.files.datastores.suffix_file import SuffixFile, token_at
from aded.settings import Budget, Count, CountOrZero, LearningScope
from baselines.logits.token_recycling import TokenRecycling
from baselines.tokens.matches import matches_before
from baselines.tokens.sam_decoding import SamDecoding, first_of


def start_with_room(matches: np.ndarray, room: int) -> int:
    """Where the longest match first ends that has `room` tokens behind it in the text, the root apart; if none has,
    where the shortest first ends. matches: of matches_before, some of them above 0
    """
    roomy = matches[: max(0, len(matches) - room)]
    return int(roomy.argmax() if roomy.any() else np.flatnonzero(matches)[0])


class SamTokenRecycling(SamDecoding):
    """Drafts a chain or Token Recycling's tree.

    datastore: the suffix file of the corpus
    budget: most drafted nodes per step
    ahead: most drafted tokens of a chain
    least_match: tokens that a match must have to draft
    length_bias: by how many tokens a match in the corpus must exceed that in the text; not counted as matched
    adaptation: how long Token Recycling's matrix is kept: prompt or session (kept across questions, as published)
    """

    requires = frozenset({"logits"})

    def __init__(
        self,
        datastore: SuffixFile,
        *,
        budget: Budget = 60,
        ahead: Count = 39,
        least_match: Count = 5,
        length_bias: CountOrZero = 5,
        adaptation: LearningScope = "session",
    ) -> None:
        super().__init__(datastore, budget=budget, length_bias=length_bias)
        self.ahead, self.least_match, self.adaptation = min(ahead, budget), least_match, adaptation
        self.recycling = TokenRecycling(budget=budget, adaptation=adaptation)
        self._part = ""
        """What drafted last: text, corpus or token_recycling."""

    def reset(self) -> None:
        self.recycling.reset()

    def begin(self, prompt_ids: np.ndarray, seed: int = 0) -> None:
        self.recycling.begin(prompt_ids, seed)

    def draft(self, context: np.ndarray) -> DraftTree:
        matches = matches_before(context)
        span, start, end = self.match_in_corpus(context)
        in_text, in_corpus = int(matches.max()), span - self.length_bias
        if max(in_text, in_corpus) < self.least_match:
            self._part = "token_recycling"
            return self.recycling.draft(context)
        self._part = "text" if in_text >= in_corpus else "corpus"
        if in_text >= in_corpus:
            at = start_with_room(matches, self.ahead + 1)
            return DraftTree.chain(int(context[-1]), context[:-1][at : at + self.ahead].tolist())
        corpus, separator = self.datastore.corpus, self.datastore.separator
        at = first_of(corpus, start, end) + span
        behind = (token_at(corpus, place) for place in range(at, at + self.ahead))
        drafted = list(takewhile(lambda token: token not in (-1, separator), behind))
        self.datastore.check_blocks()
        return DraftTree.chain(int(context[-1]), drafted)

    def observe(self, step: Step) -> None:
        self.recycling.observe(step)

    def node_parts(self, tree: DraftTree) -> list[str]:
        return ["", *[self._part] * tree.drafted]
