"""EAGLE's heads by the formulas of the papers: nothing is kept, every row is computed anew."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn.functional import linear, rms_norm, silu

from baselines.heads.eagle import MC_SIM_7B_63, smaller

State = dict[str, torch.Tensor]
HEADS, SIZE = 4, 8


def rotated(x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """x: [heads, n, size]; pairs (i, i + size / 2) turn by position / theta ** (2 i / size)."""
    angles = positions[:, None] / 500.0 ** (torch.arange(0, SIZE, 2) / SIZE)
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], dim=-1)


def attention(state: State, name: str, read: torch.Tensor) -> torch.Tensor:
    """Causal, over rows [n, width] whose positions count from 0."""
    positions = torch.arange(len(read))
    q, k, v = (
        linear(read, state[f"{name}.self_attn.{part}_proj.weight"]).view(len(read), -1, SIZE).transpose(0, 1)
        for part in "qkv"
    )
    q, k = rotated(q, positions), rotated(k, positions)
    k, v = k.repeat_interleave(HEADS // len(k), 0), v.repeat_interleave(HEADS // len(v), 0)
    later = torch.ones(len(read), len(read), dtype=torch.bool).triu(1)
    scores = (q @ k.transpose(1, 2) / math.sqrt(SIZE)).masked_fill(later, -1e9)
    out = (scores.softmax(-1) @ v).transpose(0, 1).reshape(len(read), -1)
    return linear(out, state[f"{name}.self_attn.o_proj.weight"])


def after_attention(state: State, name: str, x: torch.Tensor) -> torch.Tensor:
    y = rms_norm(x, x.shape[-1:], state[f"{name}.post_attention_layernorm.weight"], 1e-5)
    gate, up = (linear(y, state[f"{name}.mlp.{part}_proj.weight"]) for part in ("gate", "up"))
    return x + linear(silu(gate) * up, state[f"{name}.mlp.down_proj.weight"])


class Reference:
    """An EAGLE head, by its published tensors. features: [m, width], of the text's m + 1 tokens without the root."""

    def __init__(self, state: State, model: Any, text: list[int], features: torch.Tensor) -> None:
        self.state, self.model, self.text, self.features = state, model, text, features

    def best(self, drafted: list[int], k: int) -> list[tuple[int, float]]:
        rows = self.first_rows()
        for count in range(len(drafted) + 1):
            tokens = torch.tensor([*self.text[1:], *drafted[:count]])
            out = self.outputs(tokens, rows)
            rows = torch.cat([rows, out[-1:]])
        top = self.logits(out[-1]).log_softmax(-1).topk(k)
        return list(zip(self.ids(top.indices).tolist(), top.values.tolist(), strict=True))

    def first_rows(self) -> torch.Tensor:
        return self.features

    def ids(self, tokens: torch.Tensor) -> torch.Tensor:
        return tokens

    def outputs(self, tokens: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        read = torch.cat([self.state["embed_tokens.weight"][tokens], rows], -1)
        x = linear(read, self.state["fc.weight"], self.state["fc.bias"])
        return after_attention(self.state, "layers.0", x + attention(self.state, "layers.0", x))

    def logits(self, output: torch.Tensor) -> torch.Tensor:
        return linear(output, self.model.lm_head.weight)


class Reference3(Reference):
    def first_rows(self) -> torch.Tensor:
        return linear(self.features, self.state["fc.weight"])

    def ids(self, tokens: torch.Tensor) -> torch.Tensor:
        return tokens + self.state["d2t"][tokens]

    def outputs(self, tokens: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        embedded = self.model.get_input_embeddings()(tokens)
        parts = ((embedded, "input_layernorm"), (rows, "hidden_norm"))
        normed = [rms_norm(x, x.shape[-1:], self.state[f"midlayer.{name}.weight"], 1e-5) for x, name in parts]
        x = rows + attention(self.state, "midlayer", torch.cat(normed, -1))
        return after_attention(self.state, "midlayer", x)

    def logits(self, output: torch.Tensor) -> torch.Tensor:
        normed = rms_norm(output, output.shape[-1:], self.state["norm.weight"], 1e-5)
        return linear(normed, self.state["lm_head.weight"])


def beam_paths(reference: Reference, depth: int, k: int, budget: int) -> set[tuple[int, ...]]:
    beam: list[tuple[float, list[int]]] = [(0.0, [])]
    every: list[tuple[float, list[int]]] = []
    for _ in range(depth):
        level = [(score + more, [*path, token]) for score, path in beam for token, more in reference.best(path, k)]
        every += level
        beam = sorted(level, key=lambda entry: -entry[0])[:k]
    return {tuple(path) for _, path in sorted(every, key=lambda entry: -entry[0])[:budget]}


def chosen_paths(reference: Reference, budget: int) -> set[tuple[int, ...]]:
    paths = set()
    for choice in smaller(MC_SIM_7B_63, budget):
        path: list[int] = []
        for rank in choice:
            path.append(reference.best(path, rank + 1)[rank][0])
        paths.add(tuple(path))
    return paths
