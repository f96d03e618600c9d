"""The sampler chooses the target's token at each node of a tree, and so the accepted path.

Each node is sampled once. The walk starts at the root; the target's choice there is the next token of the output,
whatever was drafted. If a child holds that token, the walk goes on from the child, whose logits the same forward
computed. The output is therefore that of autoregressive decoding; drafts only decide how many tokens one forward
yields.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from aded.core.tree import DraftTree
from aded.kernels.top_k import argmax

if TYPE_CHECKING:
    import torch


def accepted_path(tree: DraftTree, choose: Callable[[int], int]) -> tuple[list[int], int]:
    """Walk from the root along children that equal the target's choice; return (path, bonus token)."""
    path = [0]
    while True:
        token = choose(path[-1])
        child = tree.child(path[-1], token)
        if child is None:
            return path, token
        path.append(child)


class Sampler(ABC):
    """Chooses tokens, of one answer, at the nodes of draft trees."""

    def begin(self, prompt_ids: np.ndarray) -> Sampler:
        """For an answer to this prompt, int64 [m]: the sampler itself, unless it reads the text."""
        return self

    @abstractmethod
    def walk(self, tree: DraftTree, logits: torch.Tensor | None, position: int) -> tuple[list[int], int]:
        """(accepted path, bonus token).

        tree: n nodes.
        logits: float [n, vocabulary], or None from a target without weights.
        position: index in the answer of the first token that this step decides.
        """


class Greedy(Sampler):
    """The most probable token; the first of several equal ones, as argmax has it."""

    def draw(self, row: torch.Tensor, position: int) -> int:
        """row: logits [vocabulary]."""
        return argmax(row) if row.device.type == "cpu" else int(row.argmax())

    def walk(self, tree: DraftTree, logits: torch.Tensor | None, position: int) -> tuple[list[int], int]:
        assert logits is not None
        if logits.device.type == "cpu":
            return accepted_path(tree, lambda node: self.draw(logits[node], position))
        choices = logits.argmax(dim=-1).tolist()  # one transfer per step
        return accepted_path(tree, choices.__getitem__)


@dataclass(frozen=True)
class Sampled(Sampler):
    """One draw per node from softmax(logits / temperature), cut to its top-p nucleus (arXiv 1904.09751).

    Before it may be cut to the top_k most probable tokens, behind it to those with min_p of the most probable one's
    probability (arXiv 2407.01082), in the order and with the ties of transformers' `generate`. 0 turns either off.

    The uniform number of an output position depends on (seed, position) alone, so that a speculative run draws what
    the autoregressive run draws. The inverse distribution function runs over the vocabulary in its own order: a
    rounding difference between two forwards then moves no boundary by more than itself.
    """

    temperature: float
    top_p: float
    seed: int
    top_k: int = 0
    min_p: float = 0.0

    def uniform(self, position: int) -> float:
        """In [0, 1)."""
        return float(random_at(self.seed, position).random())

    def distribution(self, row: torch.Tensor) -> torch.Tensor:
        """float64 [vocabulary]: the filtered distribution that is drawn from. row: logits [vocabulary]."""
        import torch  # here, as most replays need none

        scores = row.double() / self.temperature
        if 0 < self.top_k < len(scores):
            scores = scores.masked_fill(scores < scores.topk(self.top_k).values[-1], -torch.inf)
        probabilities = torch.softmax(scores, dim=-1)
        if self.top_p < 1:
            ordered, order = probabilities.sort(descending=True, stable=True)
            # A token stays while the mass before it is below top_p, so the most probable token always stays.
            outside = ordered.cumsum(0) - ordered >= self.top_p
            probabilities = probabilities.index_fill(0, order[outside], 0.0)
        if self.min_p > 0:
            probabilities = probabilities.masked_fill(probabilities < self.min_p * probabilities.max(), 0.0)
        return probabilities / probabilities.sum()

    def draw(self, row: torch.Tensor, position: int) -> int:
        return pick(self.distribution(row), self.uniform(position))

    def walk(self, tree: DraftTree, logits: torch.Tensor | None, position: int) -> tuple[list[int], int]:
        assert logits is not None
        depths = tree.depths
        return accepted_path(tree, lambda node: self.draw(logits[node], position + int(depths[node])))


@dataclass
class Penalized(Sampler):
    """Makes tokens that the text holds, prompt included, less probable (CTRL, arXiv 1909.05858, section 4.1).

    Their logits are divided by the penalty, those below 0 multiplied, as by transformers' `repetition_penalty`.

    sampler: chooses from the changed logits.
    text: the prompt and the tokens chosen so far.
    """

    sampler: Greedy | Sampled
    penalty: float
    text: list[int] = field(default_factory=list)

    def begin(self, prompt_ids: np.ndarray) -> Penalized:
        """See Sampler."""
        return replace(self, text=prompt_ids.tolist())

    def walk(self, tree: DraftTree, logits: torch.Tensor | None, position: int) -> tuple[list[int], int]:
        assert logits is not None
        depths = tree.depths

        def choose(node: int) -> int:
            token = self.sampler.draw(self._penalized(logits[node]), position + int(depths[node]))
            self.text.append(token)
            return token

        return accepted_path(tree, choose)

    def _penalized(self, row: torch.Tensor) -> torch.Tensor:
        """row: logits [vocabulary]."""
        import torch

        row, seen = row.float().clone(), torch.tensor(self.text, device=row.device).unique()
        row[seen] = torch.where(row[seen] < 0, row[seen] * self.penalty, row[seen] / self.penalty)
        return row


def random_at(seed: int, position: int) -> np.random.Generator:
    """The random numbers of an output position, from the counter-based generator Philox, with the two as its key.

    Of a seed of 2**63 or more numpy takes the first 53 bits, since the two become float64.
    """
    return np.random.Generator(np.random.Philox(key=[seed, position]))


def pick(distribution: torch.Tensor, uniform: float) -> int:
    """The token at which the distribution function, over float64 [vocabulary], passes `uniform`, in [0, 1)."""
    import torch

    steps = distribution.cumsum(0)
    token = int(torch.searchsorted(steps, uniform * steps[-1], right=True))
    return min(token, int(torch.searchsorted(steps, steps[-1])))


@dataclass(frozen=True)
class Recorded(Sampler):
    """The recorded answer's token, whatever the logits say.

    Under greedy or match-the-sample verification the accepted path depends on the emitted text alone, so accepted
    lengths are those of the model that gave the answer. Where there are logits, as in trace mode, they are read as
    Greedy reads them, so that the step takes its time.
    """

    token_ids: Sequence[int]
    """The whole answer. The loop asks for no token behind its end: it knows how long the answer is."""

    def walk(self, tree: DraftTree, logits: torch.Tensor | None, position: int) -> tuple[list[int], int]:
        depths = tree.depths
        on_cpu = logits is not None and logits.device.type == "cpu"
        if logits is not None and not on_cpu:
            logits.argmax(dim=-1).tolist()

        def choose(node: int) -> int:
            if logits is not None and on_cpu:
                argmax(logits[node])
            return int(self.token_ids[position + int(depths[node])])

        return accepted_path(tree, choose)
