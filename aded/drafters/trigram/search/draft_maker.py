"""What a draft maker is: (matrix, context, budget) -> tokens and parents of the drafted nodes."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from aded.drafters.trigram.matrix import TrigramMatrix


class DraftMaker(ABC):
    """A search over the tri-gram matrix. Stateless between calls, but for the random stream that `seed` sets."""

    @abstractmethod
    def make(self, matrix: TrigramMatrix, context: np.ndarray, budget: int) -> tuple[np.ndarray, np.ndarray]:
        """(tokens, parents), both int64 [n], n - 1 <= budget; node 0 is the root, the context's last token.

        context: int64 [m], m >= matrix.order - 1, prompt and output so far.
        """

    def seed(self, seed: int) -> None:  # noqa: B027 - only a random search has a stream to set
        """Start the random stream anew."""
