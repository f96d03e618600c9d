"""The look-up language model while it learns. aded.drafters.backoff.lookup has the formula, computed from tables."""

from __future__ import annotations

import numpy as np
import torch
from torch.nn.functional import layer_norm, relu

from aded.files.datastores.lookup_file import HIDDEN, PAST, WEIGHTS, WIDTH

INPUT_SCALE = 4.0
"""Of embeddings as inputs: as outputs they are smaller."""


class LookupNetwork(torch.nn.Module):
    """log_unigram: float32 [R], where the biases begin"""

    def __init__(self, log_unigram: torch.Tensor) -> None:
        super().__init__()

        def random(*shape: int, scale: float) -> torch.nn.Parameter:
            return torch.nn.Parameter(torch.randn(*shape) * scale)

        def constant(values: torch.Tensor) -> torch.nn.Parameter:
            return torch.nn.Parameter(values.clone())

        self.embedding = random(len(log_unigram), WIDTH, scale=0.05)
        self.bias = constant(log_unigram)
        self.before = random(WIDTH, PAST * HIDDEN, scale=(WIDTH * PAST) ** -0.5)
        self.keep = constant(torch.zeros(WIDTH, HIDDEN))
        self.keep_bias = constant(torch.linspace(1, 5, HIDDEN))
        self.add = random(WIDTH, HIDDEN, scale=WIDTH**-0.5)
        self.b = constant(torch.zeros(HIDDEN))
        self.c = constant(torch.full((HIDDEN,), 0.5))
        self.w1 = random(HIDDEN, HIDDEN, scale=(2 / HIDDEN) ** 0.5)
        self.b1 = constant(torch.zeros(HIDDEN))
        self.w2 = random(2 * HIDDEN, WIDTH, scale=(2 * HIDDEN) ** -0.5)
        self.b2 = constant(torch.zeros(WIDTH))
        self.level = constant(torch.zeros(2 * HIDDEN))
        self.gain = constant(torch.ones(WIDTH))
        self.shift = constant(torch.zeros(WIDTH))

    def forward(self, rows: torch.Tensor, memory: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """(y, float32 [B, T, WIDTH]; the level, float32 [B, T]; the memory at the end). The score of a next token is
        y . embedding(token) + bias(token) + level.

        rows: int64 [B, PAST - 1 + T], the rows of tokens, with those before the first that is predicted from
        memory: float32 [B, HIDDEN], before rows[:, PAST - 1]
        """
        x = self.embedding[rows] * INPUT_SCALE
        length = x.shape[1]
        places = (x @ self.before).unflatten(-1, (PAST, HIDDEN)).unbind(-2)
        summed = self.b + sum(place[:, PAST - 1 - i : length - i] for i, place in enumerate(places))
        keep, added = self.memory_tables(x[:, PAST - 1 :])
        memories = []
        for k, v in zip(keep.unbind(1), added.unbind(1), strict=True):
            memory = k * memory + v
            memories.append(memory)
        first = relu(summed + self.c * torch.stack(memories, 1))
        second = relu(first @ self.w1 + self.b1)
        hidden = torch.cat([first, second], -1)
        y = hidden @ self.w2 + self.b2
        level = (hidden @ self.level).float()
        return layer_norm(y.float(), (WIDTH,), self.gain, self.shift), level, memory.detach()

    def memory_tables(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """What the memory keeps of itself, and what a token adds to it: float32 [..., HIDDEN] of x [..., WIDTH]."""
        keep = torch.sigmoid((x @ self.keep).float() + self.keep_bias)
        return keep, (1 - keep) * (x @ self.add).float()

    @torch.no_grad()
    def tables(self) -> dict[str, np.ndarray]:
        """The arrays of a look-up file but `rows`."""
        x = self.embedding * INPUT_SCALE
        before = (x @ self.before).unflatten(-1, (PAST, HIDDEN))
        tables = torch.cat([before, torch.stack(self.memory_tables(x), 1)], 1)
        return {
            "tables": _bfloat16(tables),
            "output": _bfloat16(self.embedding * self.gain),
            "bias": (self.bias + self.embedding @ self.shift).numpy(),
            **{name: getattr(self, name).numpy().ravel() for name in WEIGHTS},
        }


def _bfloat16(numbers: torch.Tensor) -> np.ndarray:
    """Their bits, uint16 [all]."""
    bits: np.ndarray = numbers.to(torch.bfloat16).view(torch.uint16).numpy()
    return bits.ravel()
