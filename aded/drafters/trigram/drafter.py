"""ADED: the adaptive tri-gram matrix and a draft maker, as one drafter (arXiv 2407.12021)."""

from __future__ import annotations

from typing import Literal

import numpy as np

from aded.core.drafter import Drafter, Step
from aded.core.tree import DraftTree
from aded.drafters.trigram.draft_maker import DraftMaker
from aded.drafters.trigram.matrix import TrigramMatrix
from aded.files.datastores.ngram_file import NgramFile
from aded.settings import Budget, Count, Positive, Scope, Weight


class AdedDrafter(Drafter):
    """At each step: search below the last two tokens, then adapt the matrix to the last 16.

    datastore: the n-gram file of the base
    draft_maker: the search
    order: of the n-grams: 3 as published, 2 and 4 as in its ablation; the datastore must have them
    budget: most drafted nodes per step
    top_k: successors of a base row
    adaptation: how long adapted rows are kept: off (the matrix never adapts), prompt (cleared at each prompt),
        session (kept across questions)
    gain, cap, window: at each step every n-gram within the last `window` tokens gains `gain`, up to `cap`
    read_prompt: adapt to the whole prompt, as if it had been generated; the paper adapts to its last `window`
        tokens only
    max_pairs: most adapted rows, about 260 bytes each
    """

    learned_from = frozenset({"a corpus"})

    def __init__(
        self,
        datastore: NgramFile,
        draft_maker: DraftMaker,
        *,
        order: Literal[2, 3, 4] = 3,
        budget: Budget = 64,
        top_k: Count = 12,
        adaptation: Scope = "prompt",
        gain: Weight = 0.04,
        cap: Weight = 3.0,
        window: Count = 16,
        read_prompt: bool = False,
        max_pairs: Positive = 1_000_000,
    ) -> None:
        self.datastore, self.draft_maker, self.adaptation = datastore, draft_maker, adaptation
        self.read_prompt = read_prompt and adaptation != "off"
        self.budget = budget
        self.matrix = TrigramMatrix(
            datastore.up_to(order),
            order=order,
            top_k=top_k,
            gain=gain,
            cap=cap,
            window=window,
            max_pairs=max_pairs,
        )

    def begin(self, prompt_ids: np.ndarray, seed: int = 0) -> None:
        if self.adaptation == "prompt":
            self.matrix.forget()
        self._recent = prompt_ids
        if self.read_prompt:
            self.matrix.adapt_to_prompt(prompt_ids)
        self.draft_maker.seed(seed)

    def draft(self, context: np.ndarray) -> DraftTree:
        if len(context) < self.matrix.order - 1 or self.budget == 0:
            return DraftTree.root(int(context[-1]))
        tokens, parents = self.draft_maker.make(self.matrix, context, self.budget)
        # Where trees are cut, the matrix says which nodes are worth it.
        cut = self.tree_sizer is not None
        tree = DraftTree(tokens, parents, self.matrix.reached(context, tokens, parents) if cut else None)
        self.datastore.check_blocks()
        return tree

    def observe(self, step: Step) -> None:
        if self.adaptation != "off":
            self._recent = np.append(self._recent, step.new_tokens)[-self.matrix.window :]
            self.matrix.adapt(self._recent)

    def reset(self) -> None:
        self.matrix.forget()

    def describe(self) -> dict[str, str]:
        return self.datastore.describe()
