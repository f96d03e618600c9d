"""The networks of EAGLE (arXiv 2401.15077, 2406.16858) and EAGLE-3 (2503.01840), of transformers' own Llama layers.

Both read pairs: the target's features at token i, and token i + 1. Row i predicts token i + 2, and its output takes
the place of the features at the next row, which the target has not computed yet.

The names of the tensors are those of the published files:

    EAGLE-1, EAGLE-2   fc, layers.N (layers.0 has no input_layernorm), embed_tokens
    EAGLE-3            fc, midlayer (with hidden_norm), norm, lm_head, d2t, t2d, embed_tokens

Any file may lack `embed_tokens` and `lm_head`, then those of the target are used, and may have `d2t`: the head then
knows some of the target's tokens only, its own token i is the target's i + d2t[i].
"""

from __future__ import annotations

import torch
from transformers import DynamicCache
from transformers.models.llama.configuration_llama import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRMSNorm, LlamaRotaryEmbedding

from aded.kernels.attention import CACHE

PROJECTIONS = ("q_proj", "k_proj", "v_proj")


class EagleHead(torch.nn.Module):
    """The network of EAGLE-1 and EAGLE-2. Its features are the target's last hidden states, as is its output.

    config: of its decoder layers.
    width: size of the target's features.
    biased: which layers have a bias, of "fc" and "qkv".
    draft_vocabulary: tokens that it knows; None: all.
    own: whether it has "embed_tokens" and "lm_head" of its own.
    """

    d2t: torch.Tensor

    def __init__(
        self,
        config: LlamaConfig,
        width: int,
        *,
        biased: frozenset[str] = frozenset(),
        draft_vocabulary: int | None = None,
        own: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__()
        self.config, self.width = config, width
        config._attn_implementation = "sdpa"
        self.rotary = LlamaRotaryEmbedding(config)
        self.known = draft_vocabulary or config.vocab_size
        if draft_vocabulary is not None:
            self.register_buffer("d2t", torch.zeros(draft_vocabulary, dtype=torch.int64))
        if "embed_tokens" in own:
            self.embed_tokens = torch.nn.Embedding(config.vocab_size, config.hidden_size)
        if "lm_head" in own:
            self.lm_head = torch.nn.Linear(config.hidden_size, self.known, bias=False)
        self._build(biased)

    def _build(self, biased: frozenset[str]) -> None:
        config = self.config
        self.fc = torch.nn.Linear(config.hidden_size + self.width, config.hidden_size, bias="fc" in biased)
        self.layers = torch.nn.ModuleList(LlamaDecoderLayer(config, i) for i in range(config.num_hidden_layers))
        self.layers[0].input_layernorm = torch.nn.Identity()
        for layer in self.layers:
            _widen(layer, config.hidden_size, "qkv" in biased)

    @property
    def tokens(self) -> torch.Tensor | None:
        """int64 [known]: the target's ids of the tokens that the head knows; None: all."""
        if not hasattr(self, "d2t"):
            return None
        return torch.arange(self.known, device=self.d2t.device) + self.d2t

    def features(self, taken: torch.Tensor) -> torch.Tensor:
        """What the head reads in the place of its own output: from the target's features, [.., width]."""
        return taken

    def forward(
        self,
        embedded: torch.Tensor,
        features: torch.Tensor,
        positions: torch.Tensor,
        mask: torch.Tensor,
        cache: DynamicCache | None = None,
    ) -> torch.Tensor:
        """The output of n rows, [1, n, hidden].

        embedded: [1, n, hidden], of the token of each row.
        features: [1, n, hidden], of the token before it, from the target or from the head.
        positions: int64 [1, n].
        mask: bool [1, 1, n, rows], which rows each sees: those of the cache, then these.
        """
        given = {
            "attention_mask": mask,
            CACHE: cache,
            "position_embeddings": self.rotary(embedded, positions),
        }
        return self._run(embedded, features, given)

    def _run(self, embedded: torch.Tensor, features: torch.Tensor, given: dict[str, object]) -> torch.Tensor:
        out = self.fc(torch.cat([embedded, features], dim=-1))
        for layer in self.layers:
            out = layer(out, **given)
        return out

    def before_projection(self, output: torch.Tensor) -> torch.Tensor:
        """What the output projection reads, from the head's output."""
        return output


class Eagle3Head(EagleHead):
    """The network of EAGLE-3: features are what enters three layers of the target, side by side; see EagleHead."""

    def _build(self, biased: frozenset[str]) -> None:
        config = self.config
        self.fc = torch.nn.Linear(self.width, config.hidden_size, bias="fc" in biased)
        self.midlayer = LlamaDecoderLayer(config, 0)
        self.midlayer.hidden_norm = LlamaRMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        _widen(self.midlayer, 2 * config.hidden_size, "qkv" in biased)
        self.norm = LlamaRMSNorm(config.hidden_size, eps=config.rms_norm_eps)

    def features(self, taken: torch.Tensor) -> torch.Tensor:
        projected: torch.Tensor = self.fc(taken)
        return projected

    def _run(self, embedded: torch.Tensor, features: torch.Tensor, given: dict[str, object]) -> torch.Tensor:
        layer = self.midlayer
        read = torch.cat([layer.input_layernorm(embedded), layer.hidden_norm(features)], dim=-1)
        out = features + layer.self_attn(read, **given)[0]
        return out + layer.mlp(layer.post_attention_layernorm(out))

    def before_projection(self, output: torch.Tensor) -> torch.Tensor:
        normed: torch.Tensor = self.norm(output)
        return normed


def _widen(layer: LlamaDecoderLayer, width: int, bias: bool) -> None:
    """Let a layer's attention read `width` numbers, with biases of queries, keys and values alone."""
    for name in PROJECTIONS:
        outputs = getattr(layer.self_attn, name).out_features
        setattr(layer.self_attn, name, torch.nn.Linear(width, outputs, bias=bias))
