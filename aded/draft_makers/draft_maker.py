"""What a draft maker is: (matrix, context, budget) -> tokens and parents of the drafted nodes."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from aded.errors import BadInput
from aded.matrix import TrigramMatrix


class DraftMaker(ABC):
    """A search over the tri-gram matrix. Stateless between calls, but for the random stream that `seed` sets."""

    @abstractmethod
    def make(self, matrix: TrigramMatrix, context: np.ndarray, budget: int) -> tuple[np.ndarray, np.ndarray]:
        """(tokens, parents), both int64 [n], n - 1 <= budget; node 0 is the root, the context's last token.

        context: int64 [m], m >= matrix.order - 1, prompt and output so far.
        """

    def seed(self, seed: int) -> None:  # noqa: B027 - only a random search has a stream to set
        """Start the random stream anew."""


def positive(value: int, key: str) -> int:
    """The value, if it is a whole number of 1 or more."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise BadInput(f"method.{key}", f"{value!r} must be a whole number, 1 or more")
    return value
