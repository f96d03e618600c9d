"""The networks of EAGLE (arXiv 2401.15077, 2406.16858) and EAGLE-3 (2503.01840), of transformers' own Llama layers.

Both read pairs: the target's features at token i, and token i + 1. Row i predicts token i + 2, and its output takes
the place of the features at the next row, which the target has not computed yet.

The names of the tensors are those of the published files:

    EAGLE-1, EAGLE-2   fc, layers.N (layers.0 has no input_layernorm), embed_tokens
    EAGLE-3            fc, midlayer (with hidden_norm), norm, lm_head, d2t, t2d, embed_tokens

Any file may lack `embed_tokens` and `lm_head`, then those of the target are used, and may have `d2t`: the head then
knows some of the target's tokens only, its own token i is the target's i + d2t[i].

A published head is a folder with config.json and model.safetensors or pytorch_model.bin, for instance
yuhuili/EAGLE-Vicuna-7B-v1.3 (EAGLE-1 and EAGLE-2, one network) and yuhuili/EAGLE3-Vicuna1.3-13B. Names, shapes and
numbers are checked before anything is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from transformers import DynamicCache
from transformers.models.llama.configuration_llama import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRMSNorm, LlamaRotaryEmbedding

from aded.errors import BadInput
from aded.kernels.attention import CACHE
from baselines.heads.head_files import (
    CONFIG,
    HEADS_KEY,
    WEIGHTS,
    are_layers,
    find_file,
    read_config,
    read_weights,
    with_numbers,
    write_head,
)

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
        return self.fc(taken)

    def _run(self, embedded: torch.Tensor, features: torch.Tensor, given: dict[str, object]) -> torch.Tensor:
        layer = self.midlayer
        read = torch.cat([layer.input_layernorm(embedded), layer.hidden_norm(features)], dim=-1)
        out = features + layer.self_attn(read, **given)[0]
        return out + layer.mlp(layer.post_attention_layernorm(out))

    def before_projection(self, output: torch.Tensor) -> torch.Tensor:
        return self.norm(output)


def _widen(layer: LlamaDecoderLayer, width: int, bias: bool) -> None:
    """Let a layer's attention read `width` numbers, with biases of queries, keys and values alone."""
    for name in PROJECTIONS:
        outputs = getattr(layer.self_attn, name).out_features
        setattr(layer.self_attn, name, torch.nn.Linear(width, outputs, bias=bias))


PUBLISHED = "pytorch_model.bin"
LAYERS = "eagle_aux_hidden_state_layer_ids"
"""Key of the config for the layers that EAGLE-3 reads, as vLLM has it; where it is missing they are the published."""


def published_layers(count: int) -> tuple[int, ...]:
    """The layers whose inputs EAGLE-3 reads: low, middle, high, of `count` layers (SafeAILab/EAGLE, its models).

    Of fewer than five layers, the nearest that there are.
    """
    return min(2, count - 1), count // 2, max(count - 3, 0)


def load_head(
    place: str, kind: type[EagleHead], *, hidden: int, vocabulary: int, layers: int
) -> tuple[EagleHead, tuple[int, ...]]:
    """(the head in float32, the target's layers that it reads).

    place: a folder, in the working directory or else in the repository.
    hidden, vocabulary, layers: the target's sizes, and its number of layers.

    Raises BadInput naming the file if there is none, if it cannot be read, or if it was made for another model.
    """
    held = f"{CONFIG} and {WEIGHTS} or a published {PUBLISHED}"
    wanted = f"a folder that holds {held}: train one with python -m scripts.train.eagle"
    path = find_file(place, (WEIGHTS, PUBLISHED), wanted)
    settings, config = read_config(path.parent / CONFIG, LlamaConfig, vocabulary, num_hidden_layers=1)
    named = settings.get(LAYERS)
    if not (named is None or are_layers(named)):
        raise BadInput(HEADS_KEY, f"{path.parent / CONFIG}: {LAYERS} must be a list of layers")
    reads = tuple(named or published_layers(layers)) if kind is Eagle3Head else ()
    state = read_weights(path, vocabulary)
    state = {name: value for name, value in state.items() if not name.endswith("rotary_emb.inv_freq")}
    name = kind.__name__.removesuffix("Head").upper().replace("3", "-3")
    width = len(reads) * hidden or hidden
    head = with_numbers(lambda: _built(kind, config, width, state), state, path, f"head of {name}")
    for name in ("embed_tokens", "lm_head"):
        if not hasattr(head, name) and config.hidden_size != hidden:
            raise BadInput(
                HEADS_KEY, f"{path} was trained for another model: it lacks {name}, and the target's is of {hidden}"
            )
    return head, reads


def save_head(head: EagleHead, folder: Path, metadata: dict[str, str], reads: tuple[int, ...] = ()) -> None:
    """Write a head in bfloat16 and its config. Raises BadInput."""
    write_head(head, folder, metadata, {LAYERS: list(reads)} if reads else {})


def _built(kind: type[EagleHead], config: LlamaConfig, width: int, state: Mapping[str, torch.Tensor]) -> EagleHead:
    """The network whose parts the file's names tell."""
    has = {name for name in ("fc", "qkv") if any(_is_bias(name, key) for key in state)}
    own = {name for name in ("embed_tokens", "lm_head") if f"{name}.weight" in state}
    known = len(state["d2t"]) if "d2t" in state and state["d2t"].ndim == 1 else None
    return kind(config, width, biased=frozenset(has), own=frozenset(own), draft_vocabulary=known)


def _is_bias(part: str, key: str) -> bool:
    return key == "fc.bias" if part == "fc" else key.endswith(("q_proj.bias", "k_proj.bias", "v_proj.bias"))
