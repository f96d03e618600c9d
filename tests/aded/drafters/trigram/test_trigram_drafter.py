"""The published drafter: every step of the target adapts its matrix."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from small_ngrams import write_small_ngrams

from aded.core.drafter import Step
from aded.core.tree import DraftTree
from aded.drafters.trigram.drafter import AdedDrafter
from aded.drafters.trigram.matrix import TrigramMatrix
from aded.drafters.trigram.search.best_first import BestFirst
from aded.files.datastores.ngram_file import open_ngrams


def test_steps_without_a_draft_adapt_the_matrix_too(tmp_path: Path) -> None:
    path = write_small_ngrams(tmp_path / "tiny.ngrams", [np.tile(np.arange(10), 30)], 50)
    mine = AdedDrafter(open_ngrams(path), BestFirst(), adaptation="session", window=8)
    text = np.random.default_rng(1).integers(50, size=40)
    mine.begin(text[:5])
    plain = TrigramMatrix(mine.datastore.up_to(3), top_k=12, gain=0.04, cap=3.0, window=8, max_pairs=100)
    for end in range(6, 40):
        mine.observe(Step(DraftTree.root(int(text[end - 2])), [0], int(text[end - 1])))
        plain.adapt(text[:end])
        if end == 20:
            mine.draft(text[:end])
    for pair in zip(text[4:37].tolist(), text[5:38].tolist(), strict=True):
        for one, other in zip(mine.matrix.row(*pair), plain.row(*pair), strict=True):
            assert one.tolist() == other.tolist()
