"""The sampler chooses the target's token at each node of a tree, and so the accepted path.

Each node is sampled once. The walk starts at the root; the target's choice there is the next token of the output,
whatever was drafted. If a child holds that token, the walk goes on from the child, whose logits the same forward
computed. The output is therefore that of autoregressive decoding; drafts only decide how many tokens one forward
yields.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import numpy as np
from numba import njit
from pydantic import AfterValidator, Field

from aded.core.tree import DraftTree
from aded.errors import BadInput
from aded.settings import checked_keys

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


def top_k(rows: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """(values float32 [n, k], indices int64 [n, k]) of float [n, size], the largest first."""
    if _ours(rows):
        import torch

        return torch.ops.aded.top_k(rows, k)
    found = rows.float().topk(k)
    return found.values, found.indices


def argmax(row: torch.Tensor) -> int:
    """The index of the largest of float [size], the first of several equal ones."""
    if _ours(row):
        import torch

        return int(torch.ops.aded.top_k(row[None], 1)[1])
    return int(row.float().argmax())  # on a processor torch is slow to compare bfloat16


def _ours(rows: torch.Tensor) -> bool:
    import torch  # here and above: what needs no logits needs no torch

    from aded.kernels import ops

    return rows.device.type == "cpu" and rows.dtype in (torch.float32, torch.bfloat16) and ops.loaded()


@njit(cache=True)
def accept(p: np.ndarray, q: np.ndarray, tokens: np.ndarray, uniforms: np.ndarray) -> int:
    """Which of the drawn tokens is accepted, or -1; then `p` is what the next token is to be drawn from.

    p, q: float64 [vocabulary], the target's and the drafter's distribution; both are changed
    tokens: int64 [m], drawn from q in this order, without replacement
    uniforms: float64 [m], in [0, 1)
    """
    for i, token in enumerate(tokens):
        if uniforms[i] * q[token] < p[token]:
            return i
        left = np.maximum(p - q, 0.0)
        mass = left.sum()
        if mass > 0.0:
            p[:] = left / mass
        else:  # p and q are equal but for rounding
            p[token] = 0.0
            p /= p.sum()
        q[token] = 0.0
        others = q.sum()
        if others > 0.0:
            q /= others
    return -1


def drawn(q: np.ndarray, count: int, random: np.random.Generator) -> np.ndarray:
    """int64 [m <= count]: different tokens, drawn one by one from q, float64 [vocabulary]."""
    # The largest sums of log q and Gumbel noise, in falling order, are draws without replacement.
    with np.errstate(divide="ignore"):
        keys = np.log(q) + random.gumbel(size=len(q))
    count = min(count, int(np.count_nonzero(q)))
    best = np.argpartition(-keys, count - 1)[:count]
    return best[np.argsort(-keys[best])]


@dataclass(frozen=True)
class Rejection(Sampled):
    """Verification by rejection: random drafts, accepted so that the output has the target's distribution.

    A drafter that knows its own distribution q draws its tokens from it. A drafted token x is then accepted with
    probability min(1, p(x) / q(x)), where p is the target's; where none is accepted, the next token is drawn from
    what p has left, the normalised max(0, p - q) (Leviathan et al., arXiv 2211.17192; Chen et al., arXiv 2302.01318).
    Siblings were drawn without replacement, and each is held against what those before it left of p and q (SpecInfer,
    arXiv 2305.09781, algorithm 2; without replacement as in arXiv 2402.14160). The output is distributed as that of
    autoregressive decoding, and other random numbers than its decide it: it is not the same, token by token.

    Of a chain each token is accepted with probability sum(min(p, q)). A drafter without a distribution drafts trees
    that are no random draw: then one draw from p, which accepts with the sum of p over the children, is the best
    there is, and it is what happens here too. The random numbers of an output position depend on (seed, position)
    alone.
    """

    def walk(self, tree: DraftTree, logits: torch.Tensor | None, position: int) -> tuple[list[int], int]:
        assert logits is not None
        if tree.drawn is None:
            return super().walk(tree, logits, position)
        path = [0]
        while True:
            node = path[-1]
            p = self.distribution(logits[node]).cpu()
            random = random_at(self.seed, position + len(path) - 1)
            children = np.flatnonzero(tree.parents == node)
            if len(children):
                q = np.zeros(len(p))
                q[: len(tree.drawn[node])] = tree.drawn[node]
                found = accept(p.numpy(), q, tree.tokens[children], random.random(len(children)))
                if found >= 0:
                    path.append(int(children[found]))
                    continue
            return path, pick(p, float(random.random()))


COLDEST = 1e-6
"""The lowest temperature above 0: logits divided by it are still numbers."""


def _warm_enough(temperature: float) -> float:
    if 0 < temperature < COLDEST:
        raise ValueError(f"must be 0 (greedy), or {COLDEST} or more")
    return temperature


@dataclass(frozen=True)
class Decoding:
    """Temperature 0 is greedy."""

    temperature: Annotated[float, Field(ge=0), AfterValidator(_warm_enough)] = 0.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    """1 turns the filter off."""
    seed: Annotated[int, Field(ge=0, lt=1 << 63)] = 0
    verification: Literal["match", "rejection"] = "match"
    """match: a draft is accepted that equals the target's own draw, so the output is that of autoregressive decoding
    with the same seed. rejection: drafters that know their distribution draw from it, and the output has the target's
    distribution (see Rejection)."""
    top_k: Annotated[int, Field(ge=0)] = 0
    """0 turns the filter off."""
    min_p: Annotated[float, Field(ge=0, le=1)] = 0.0
    """0 turns the filter off."""
    repetition_penalty: Annotated[float, Field(gt=0)] = 1.0
    """1 leaves the logits as they are."""
    ignore_eos: bool = False
    """Answers do not end at a token that ends texts, but at their limit, as benchmarks of servers have it."""

    @property
    def repeats_the_baseline(self) -> bool:
        """Is each answer that of autoregressive decoding, token for token?"""
        return self.temperature == 0 or self.verification == "match"

    def sampler(self, *stream: int) -> Sampler:
        """The sampler of one answer. `stream` (question, turn) separates the draws of one answer from all others."""
        chosen = self._one_draw(stream)
        return chosen if self.repetition_penalty == 1 else Penalized(chosen, self.repetition_penalty)

    def _one_draw(self, stream: tuple[int, ...]) -> Greedy | Sampled:
        if self.temperature == 0:
            return Greedy()
        seed = int(np.random.SeedSequence([self.seed, *stream]).generate_state(1, np.uint64)[0])
        kind = Sampled if self.repeats_the_baseline else Rejection
        return kind(self.temperature, self.top_p, seed, self.top_k, self.min_p)


_SETTINGS = get_type_hints(Decoding, include_extras=True)
"""The types of its settings, read once: aded.settings keeps what it makes of each."""


def checked_decoding(given: Mapping[str, Any], key: str) -> Decoding:
    """Raises BadInput naming the key that is unknown or wrong. key: of them all."""
    found = Decoding(**checked_keys(given, _SETTINGS, key, optional=_SETTINGS))
    if found.repetition_penalty != 1 and not found.repeats_the_baseline:
        place = f"{key}.repetition_penalty".lstrip(".")
        raise BadInput(place, "goes with verification=match: a drafter that draws its tokens knows no penalty")
    return found
