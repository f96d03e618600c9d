"""The network of DFlash (arXiv 2602.06036, z-lab/dflash, MIT, commit 44947fb), of transformers' own Qwen3 layers.

A block is the last decided token and masks behind it. Its rows see each other in both directions, those of JetSpec
(arXiv 2606.18394, hao-ai-lab/JetSpec, MIT, commit 2c7b3fa) only the rows before them. In every layer they see the
context: what several layers of the target computed at each decided token, joined by `fc` and `hidden_norm`. It enters
a layer's attention as keys and values alone. Row i of the block says what token i is.

The names of the tensors are those of the published files: fc, hidden_norm, layers.N, norm. Embedding and output
projection are the target's. A file may have `d2t`, as EAGLE-3's: the head then knows some of the target's tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import DynamicCache
from transformers.models.qwen3.configuration_qwen3 import Qwen3Config
from transformers.models.qwen3.modeling_qwen3 import (
    Qwen3Attention,
    Qwen3DecoderLayer,
    Qwen3RMSNorm,
    Qwen3RotaryEmbedding,
    rotate_half,
)

from aded.kernels.attention import CACHE


@dataclass(frozen=True)
class Block:
    """What a block is made of.

    size: its tokens, the last decided one among them.
    mask: the token in the place of those that are not decided.
    layers: of the target, counted from 0; their outputs are the context.
    causal: each row sees the rows before it alone, as JetSpec's do.
    """

    size: int
    mask: int
    layers: tuple[int, ...]
    causal: bool = False


class BlockAttention(Qwen3Attention):
    """Attention of a block's rows to the context and to each other."""

    def forward(self, hidden_states: torch.Tensor, context: torch.Tensor, **given: Any) -> tuple[torch.Tensor, None]:
        """[1, rows, hidden], for a decoder layer that hands its arguments on.

        hidden_states: [1, rows, hidden], of the block. context: [1, m, hidden], not read before.
        given: of DFlashHead.forward: positions' cosines and sines, the mask and the cache.
        """
        both = torch.cat([context, hidden_states], dim=1)
        queries = self.q_norm(self._by_head(self.q_proj(hidden_states)))
        keys, values = self.k_norm(self._by_head(self.k_proj(both))), self._by_head(self.v_proj(both))
        queries, keys = (_turned(rows, *given["position_embeddings"]) for rows in (queries, keys))
        if given[CACHE] is not None:
            keys, values = given[CACHE].update(keys, values, self.layer_idx)
        mixed = scaled_dot_product_attention(
            queries, keys, values, given["attention_mask"], scale=self.scaling, enable_gqa=True
        )
        return self.o_proj(mixed.transpose(1, 2).flatten(2)), None

    def _by_head(self, rows: torch.Tensor) -> torch.Tensor:
        """[1, heads, n, head_dim]"""
        return rows.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)


def _turned(rows: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor) -> torch.Tensor:
    """Rotary positions, of which rows without context have the last."""
    count = rows.shape[2]
    turned: torch.Tensor = rows * cosines[:, None, -count:] + rotate_half(rows) * sines[:, None, -count:]
    return turned


class DFlashHead(torch.nn.Module):
    """config: of its layers. draft_vocabulary: tokens that it knows; None: all."""

    d2t: torch.Tensor

    def __init__(self, config: Qwen3Config, block: Block, *, draft_vocabulary: int | None = None) -> None:
        super().__init__()
        self.config, self.block = config, block
        hidden = config.hidden_size
        self.rotary = Qwen3RotaryEmbedding(config)
        if draft_vocabulary is not None:
            self.register_buffer("d2t", torch.zeros(draft_vocabulary, dtype=torch.int64))
        self.fc = torch.nn.Linear(len(block.layers) * hidden, hidden, bias=False)
        self.hidden_norm = Qwen3RMSNorm(hidden, eps=config.rms_norm_eps)
        self.layers = torch.nn.ModuleList(Qwen3DecoderLayer(config, i) for i in range(config.num_hidden_layers))
        for number, layer in enumerate(self.layers):
            layer.self_attn = BlockAttention(config, number)
        self.norm = Qwen3RMSNorm(hidden, eps=config.rms_norm_eps)

    @property
    def tokens(self) -> torch.Tensor | None:
        """int64 [known]: the target's ids of the tokens that the head knows; None: all."""
        return torch.arange(len(self.d2t), device=self.d2t.device) + self.d2t if hasattr(self, "d2t") else None

    def forward(
        self,
        features: torch.Tensor,
        embedded: torch.Tensor,
        positions: torch.Tensor,
        mask: torch.Tensor | None = None,
        cache: DynamicCache | None = None,
    ) -> torch.Tensor:
        """[1, rows, hidden]: what the output projection reads, for each row of the block.

        features: [1, m, width], of decided tokens that are not in the cache: outputs of the target's layers.
        embedded: [1, rows, hidden], the block's tokens.
        positions: int64 [1, m + rows].
        mask: bool [1, 1, rows, all], which rows each sees: of the cache, the context and the block; None: those that
            the head was made to see.
        cache: gets the keys and values of all rows; the block's are to be dropped.
        """
        context, out = self.hidden_norm(self.fc(features)), embedded
        if mask is None and self.block.causal:
            rows, every = embedded.shape[1], positions.shape[1] + (cache.get_seq_length() if cache is not None else 0)
            mask = torch.ones(1, 1, rows, every, dtype=torch.bool, device=embedded.device).tril(every - rows)
        given = {"attention_mask": mask, CACHE: cache, "position_embeddings": self.rotary(embedded, positions)}
        for layer in self.layers:
            out = layer(out, context=context, **given)
        normed: torch.Tensor = self.norm(out)
        return normed
