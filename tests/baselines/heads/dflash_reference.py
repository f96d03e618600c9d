"""DFlash and JetSpec by the papers and the authors' code: nothing is kept, all is computed anew, in loops."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import torch

State = dict[str, torch.Tensor]
Row = torch.Tensor


class Reference:
    """A head by its published tensors. embedding, projection: the target's, [vocabulary, hidden]."""

    def __init__(self, state: State, config: dict[str, Any], embedding: Row, projection: Row) -> None:
        self.state, self.config, self.embedding, self.projection = state, config, embedding, projection

    def marginals(self, features: torch.Tensor, root: int) -> torch.Tensor:
        """[block - 1, known tokens]: log-probabilities. features: [m, width], of the text without the root."""
        context = [self.normed("hidden_norm", self.times("fc", row)) for row in features]
        mask = self.config["dflash_config"]["mask_token_id"]
        rows = [self.embedding[token] for token in [root] + [mask] * (self.config["block_size"] - 1)]
        for number in range(self.config["num_hidden_layers"]):
            rows = self.layer(f"layers.{number}", context, rows)
        logits = torch.stack([self.projection @ self.normed("norm", row) for row in rows[1:]])
        known = self.known()
        return (logits if known is None else logits[:, known]).log_softmax(-1)

    def known(self) -> torch.Tensor | None:
        d2t = self.state.get("d2t")
        return None if d2t is None else torch.arange(len(d2t)) + d2t

    def layer(self, name: str, context: list[Row], rows: list[Row]) -> list[Row]:
        normed = [self.normed(f"{name}.input_layernorm", row) for row in rows]
        seen = [*context, *normed]
        keys = [
            [self.turned(self.normed(f"{name}.self_attn.k_norm", head), place) for head in self.heads(name, "k", row)]
            for place, row in enumerate(seen)
        ]
        values = [self.heads(name, "v", row) for row in seen]
        after = []
        for place, (row, read) in enumerate(zip(rows, normed, strict=True), len(context)):
            mixed = []
            for number, head in enumerate(self.heads(name, "q", read)):
                query = self.turned(self.normed(f"{name}.self_attn.q_norm", head), place)
                group = number * self.config["num_key_value_heads"] // self.config["num_attention_heads"]
                rows_seen = place + 1 if self.config["dflash_config"].get("causal_head") else len(seen)
                scores = torch.stack([query @ key[group] for key in keys[:rows_seen]]) / math.sqrt(len(query))
                weights = scores.softmax(-1)
                pairs = zip(weights, values[:rows_seen], strict=True)
                mixed.append(sum(weight * value[group] for weight, value in pairs))
            out = row + self.times(f"{name}.self_attn.o_proj", torch.cat(mixed))
            y = self.normed(f"{name}.post_attention_layernorm", out)
            gate, up = self.times(f"{name}.mlp.gate_proj", y), self.times(f"{name}.mlp.up_proj", y)
            after.append(out + self.times(f"{name}.mlp.down_proj", gate * gate.sigmoid() * up))
        return after

    def heads(self, name: str, part: str, row: Row) -> tuple[Row, ...]:
        return self.times(f"{name}.self_attn.{part}_proj", row).split(self.config["head_dim"])

    def times(self, name: str, row: Row) -> Row:
        return self.state[f"{name}.weight"] @ row

    def normed(self, name: str, row: Row) -> Row:
        return row / (row.square().mean() + self.config["rms_norm_eps"]).sqrt() * self.state[f"{name}.weight"]

    def turned(self, row: Row, place: int) -> Row:
        """Pairs (i, i + size / 2) turn by place / theta ** (2 i / size)."""
        turned, half = row.clone(), len(row) // 2
        for i in range(half):
            angle = place / self.config["rope_theta"] ** (i / half)
            turned[i] = row[i] * math.cos(angle) - row[i + half] * math.sin(angle)
            turned[i + half] = row[i + half] * math.cos(angle) + row[i] * math.sin(angle)
        return turned


def chain(marginals: torch.Tensor, budget: int) -> dict[tuple[int, ...], float]:
    """Paths of ranks in the vocabulary with log-probabilities: the most probable token of each place."""
    best = marginals.argmax(-1).tolist()
    return {
        tuple(best[:depth]): float(sum(marginals[place, best[place]] for place in range(depth)))
        for depth in range(1, min(len(best), budget) + 1)
    }


def tree(marginals: torch.Tensor, budget: int) -> dict[tuple[int, ...], float]:
    paths = {
        path: float(sum(marginals[place, token] for place, token in enumerate(path)))
        for depth in range(1, len(marginals) + 1)
        for path in product(range(marginals.shape[1]), repeat=depth)
    }
    return dict(sorted(paths.items(), key=lambda entry: -entry[1])[:budget])
