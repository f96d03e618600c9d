"""DFlash: a small head drafts a whole block of tokens in one forward, by block diffusion of one step.

In the place of each token that is not decided stands a mask, and the head says all of them at once, from what several
layers of the target computed at the tokens before (arXiv 2602.06036; z-lab/dflash, MIT, commit 44947fb). The most
probable token of each place is a chain. Places know nothing of each other's tokens, so a path's probability is the
product of its tokens': DDTree (arXiv 2604.12989, algorithm 1; liranringel/ddtree, MIT, commit c96427a) verifies the
most probable paths as a tree.

The network is of transformers' own Qwen3 layers. A block is the last decided token and masks behind it. Its rows see
each other in both directions, those of JetSpec (arXiv 2606.18394, hao-ai-lab/JetSpec, MIT, commit 2c7b3fa) only the
rows before them. In every layer they see the context: what the target's layers computed at each decided token, joined
by `fc` and `hidden_norm`. It enters a layer's attention as keys and values alone. Row i of the block says what token
i is. Embedding and output projection are the target's.

A published head is a folder with config.json and model.safetensors, for instance z-lab/Qwen3-8B-DFlash-b16, or
JetSpec/jetspec-qwen3-8b, whose config has one key more. Its tensors are named fc, hidden_norm, layers.N, norm. A file
may have `d2t`, as EAGLE-3's: the head then knows some of the target's tokens. Names, shapes and numbers are checked
before anything is used.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
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

from aded.core.drafter import Drafter, Step
from aded.core.target import Target
from aded.core.tree import DraftTree
from aded.errors import BadInput
from aded.kernels.attention import CACHE
from aded.settings import Budget, FilePath
from baselines.growth import tree_of_logits
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
from baselines.heads.layers import SharedLayers, side_by_side


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
    return rows * cosines[:, None, -count:] + rotate_half(rows) * sines[:, None, -count:]


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
        return self.norm(out)


OWN, SIZE, TARGET_LAYERS = "dflash_config", "block_size", "num_target_layers"
MASK, READS, CAUSAL = "mask_token_id", "target_layer_ids", "causal_head"
"""Keys of the config, and keys below the first of them."""


def published_layers(layers: int, draft_layers: int) -> tuple[int, ...]:
    """The layers that a head of so many layers reads where its config does not name them.

    Evenly from the second to the last but two, or the middle one (z-lab/dflash, model.py). layers: of the target.
    """
    if draft_layers == 1:
        return (layers // 2,)
    return tuple(round(1 + i * (layers - 4) / (draft_layers - 1)) for i in range(draft_layers))


def load_head(place: str | None, *, hidden: int, vocabulary: int, layers: int) -> DFlashHead:
    """The head in float32.

    place: a folder, in the working directory or else in the repository.
    hidden, vocabulary, layers: the target's sizes, and its number of layers.

    Raises BadInput naming the file if there is none, if it cannot be read, or if it was made for another model.
    """
    wanted = f"a folder that holds {CONFIG} and {WEIGHTS}: train one with python -m scripts.train.dflash"
    path = find_file(place, (WEIGHTS,), wanted)
    config_path = path.parent / CONFIG
    settings, config = read_config(config_path, Qwen3Config, vocabulary, ("attention_bias", "layer_types"))
    _check_sizes(settings, config, config_path, {"hidden_size": hidden, TARGET_LAYERS: layers})
    block = _block(settings, config, config_path, vocabulary, layers)
    state = read_weights(path, vocabulary)
    known = len(state["d2t"]) if "d2t" in state else None
    return with_numbers(lambda: DFlashHead(config, block, draft_vocabulary=known), state, path, "head of DFlash")


def save_head(head: DFlashHead, folder: Path, metadata: dict[str, str], target_layers: int) -> None:
    """Write a head in bfloat16 and its config. target_layers: how many the target has. Raises BadInput."""
    block = head.block
    inner = {MASK: block.mask, READS: list(block.layers), CAUSAL: block.causal}
    own = {SIZE: block.size, TARGET_LAYERS: target_layers, OWN: inner}
    write_head(head, folder, metadata, own)


def _check_sizes(settings: dict[str, Any], config: Qwen3Config, path: Path, target: dict[str, int]) -> None:
    for key, wanted in target.items():
        if settings.get(key, wanted) != wanted:
            raise BadInput(
                HEADS_KEY, f"{path} is of another model: its {key} is {settings[key]}, this target's {wanted}"
            )
    if set(config.layer_types) != {"full_attention"}:
        raise BadInput(
            HEADS_KEY, f"{path}: layer_types must be full_attention, for all layers; others are not drafted with"
        )


def _block(settings: dict[str, Any], config: Qwen3Config, path: Path, vocabulary: int, layers: int) -> Block:
    own = settings.get(OWN)
    if not isinstance(own, dict):
        raise BadInput(HEADS_KEY, f"{path} lacks {OWN}, a group of keys; it is no config of a head of DFlash")
    size, mask, causal = settings.get(SIZE), own.get(MASK), own.get(CAUSAL, False)
    reads = own.get(READS, list(published_layers(layers, config.num_hidden_layers)))
    if type(size) is not int or size < 2:
        raise BadInput(HEADS_KEY, f"{path}: {SIZE} must be a whole number of 2 or more")
    if type(mask) is not int or not 0 <= mask < vocabulary:
        raise BadInput(HEADS_KEY, f"{path}: {MASK} must be one of the target's {vocabulary} tokens")
    if type(causal) is not bool:
        raise BadInput(HEADS_KEY, f"{path}: {CAUSAL} must be true or false")
    # What a layer puts out is read as what enters the next; behind the last there is the norm.
    if not are_layers(reads) or not all(0 <= layer < layers - 1 for layer in reads):
        raise BadInput(HEADS_KEY, f"{path}: {READS} must be a list of the target's layers, 0 to {layers - 2}")
    return Block(size, mask, tuple(reads), causal)


class Dflash(Drafter):
    """Drafts the most probable tokens of a block.

    heads: a folder with config.json and model.safetensors, such as the files of z-lab/Qwen3-8B-DFlash-b16 or of
        JetSpec/jetspec-qwen3-8b
    shape: chain, the most probable token of each place; tree, the most probable paths (DDTree)
    budget: most drafted nodes per step; a chain has no more than the block, one less than its published size
    """

    learned_from = frozenset({"the target's answers"})
    requires = frozenset({"layers", "prompt_layers"})
    adaptation = "off"

    def __init__(
        self, heads: FilePath | None = None, *, shape: Literal["chain", "tree"] = "chain", budget: Budget = 64
    ) -> None:
        self.place, self.shape, self.budget = heads, shape, budget
        self.head: DFlashHead | None = None
        self.reset()

    def setup(self, target: Target) -> None:
        """Load the head, which must have the target's sizes."""
        self.shared = shared = SharedLayers(target, "dflash")
        layers = shared.target.config.num_hidden_layers
        head = load_head(self.place, hidden=shared.hidden, vocabulary=shared.vocabulary, layers=layers)
        self.tokens = head.tokens
        self._project = shared.projection(self.tokens)
        # What a layer puts out is what enters the next.
        self.reads = [layer + 1 for layer in head.block.layers]
        shared.target.read_layers(self.reads)
        self.head = head.to(shared.device, shared.dtype)
        self.reset()

    def reset(self) -> None:
        self._unread: list[torch.Tensor] = []
        self._cache = DynamicCache()

    def begin(self, prompt_ids: np.ndarray, seed: int = 0) -> None:
        self.reset()

    def observe(self, step: Step) -> None:
        """Keep the features of what was decided, until the next draft reads them."""
        self._unread.append(side_by_side(step.text_layers, self.reads))

    @torch.inference_mode()
    def draft(self, context: np.ndarray) -> DraftTree:
        root = int(context[-1])
        if self.head is None or not self._unread or self.budget == 0:
            return DraftTree.root(root)
        logits = self._logits(self.head, root)
        candidates = 1 if self.shape == "chain" else self.budget
        return tree_of_logits(root, logits, candidates, self.tokens, self.budget)

    def _logits(self, head: DFlashHead, root: int) -> torch.Tensor:
        """[block - 1, known tokens]: for each place behind the root. Reads what is unread."""
        features = torch.cat(self._unread).to(self.shared.device, self.shared.dtype)
        self._unread.clear()
        block, read = head.block, self._cache.get_seq_length()
        embedded = self.shared.embed(np.array([root] + [block.mask] * (block.size - 1)))
        positions = torch.arange(read, read + len(features) + block.size, device=self.shared.device)
        out = head(features[None], embedded[None], positions[None], cache=self._cache)[0]
        self._cache.crop(-block.size)
        return self._project(out[1:])
