"""The contract of a draft maker: (matrix, context, budget) -> tokens and parents of the draft tree."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from aded.drafters.trigram.matrix import TrigramMatrix


class DraftMaker(ABC):
    """A search over the tri-gram matrix. Its only state between calls is the random stream that `seed` sets."""

    @abstractmethod
    def make(self, matrix: TrigramMatrix, context: np.ndarray, budget: int) -> tuple[np.ndarray, np.ndarray]:
        """The draft tree as (tokens, parents), both int64 [n]; node 0 is the root, the context's last token.

        context: int64 [m], m >= matrix.order - 1, prompt and output so far
        budget: most drafted nodes, n - 1
        """

    def seed(self, seed: int) -> None:  # noqa: B027 - only a random search has a stream to set
        """Restart the random stream."""
