"""Hydra: heads that see the tokens drafted before them (Ankner et al. 2024, arXiv 2402.05109).

Head k predicts the token k positions after the root from the target's last hidden state and the embeddings of the
tokens between: the root and the k - 1 drafted tokens, joined. A block silu(W x + b) + V x + c brings them to the
hidden size, residual blocks x + silu(W x + b) follow, then a projection to the vocabulary of the head's own. Hydra++
reads the state through one more decoder layer over the states of all tokens so far, the prefix attention.

So each node of the tree has candidates of its own, and its probability is the product of its tokens' along the path.
The tree has the most probable nodes. (The published tree of 63 nodes is such a tree for average accuracies, and the
same at each step.)

The tensors of a published `hydra_lm_head.pt` (https://github.com/zankner/Hydra) have these names for block L of head
K: `hydra_mlp.K.L.linear`, in the first block `hydra_mlp.K.0.res_connection`, and `hydra_lm_head.K`, each `.weight`
and `.bias`. In Hydra++, whose blocks have dropout before them in training, L becomes 2 L + 1 and the projection
`hydra_lm_head.K.1`; `prefix_embeding_layer.` (sic) has the tensors of a Llama of one layer. Reading a file executes
nothing in it.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import torch
from transformers import DynamicCache
from transformers.models.llama.configuration_llama import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaModel

from aded.core.drafter import Drafter, Step
from aded.core.target import Target
from aded.core.tree import DraftTree
from aded.errors import BadInput
from aded.files.json_lines import json_value, read_text
from aded.kernels.attention import CACHE
from aded.settings import Budget, Count, FilePath
from baselines.growth import Growth, Shape
from baselines.heads.head_files import HEADS_KEY, find_file, read_tensors, with_numbers
from baselines.heads.layers import SharedLayers
from baselines.heads.medusa import ResBlock

PUBLISHED = "hydra_lm_head.pt"
PREFIX = "prefix_embeding_layer."
UNUSED = re.compile(re.escape(PREFIX) + r"(embed_tokens\.weight|.*rotary_emb\.inv_freq)")
"""Embeddings that nothing reads, since the layer gets states, and frequencies that follow from the model's config."""


class FirstBlock(torch.nn.Module):
    """silu(W x + b) + V x + c: from several vectors, joined, to one: [.., inputs * hidden] to [.., hidden]."""

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(inputs * hidden, hidden)
        self.res_connection = torch.nn.Linear(inputs * hidden, hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.res_connection(x) + torch.nn.functional.silu(self.linear(x))


class HydraHeads(torch.nn.Module):
    """All heads of a file; its tensors have the published names.

    heads, blocks: how many, and residual blocks of each, the first included
    hidden, vocabulary: the target's sizes
    prefix: the target's config, for the layer of Hydra++; None: without it
    """

    def __init__(self, heads: int, blocks: int, hidden: int, vocabulary: int, prefix: LlamaConfig | None) -> None:
        super().__init__()

        def named(*modules: torch.nn.Module) -> torch.nn.Sequential:
            """In Hydra++ each stands behind a dropout, which does nothing here."""
            between = [torch.nn.Identity()] if prefix is not None else []
            return torch.nn.Sequential(*(one for module in modules for one in (*between, module)))

        self.hydra_mlp = torch.nn.ModuleList(
            named(FirstBlock(head + 2, hidden), *(ResBlock(hidden) for _ in range(blocks - 1)))
            for head in range(heads)
        )
        projections = [torch.nn.Linear(hidden, vocabulary) for _ in range(heads)]
        self.hydra_lm_head = torch.nn.ModuleList(projections if prefix is None else map(named, projections))
        self.prefix_embeding_layer: LlamaModel | None = None
        if prefix is not None:
            one_layer = LlamaConfig(**{**prefix.to_dict(), "num_hidden_layers": 1})
            self.prefix_embeding_layer = LlamaModel(one_layer)
            del self.prefix_embeding_layer.embed_tokens

    def __len__(self) -> int:
        return len(self.hydra_mlp)

    def logits(self, head: int, inputs: torch.Tensor) -> torch.Tensor:
        """[n, vocabulary], of head 0, 1, .. for states and embeddings, joined: [n, (head + 2) * hidden]."""
        return self.hydra_lm_head[head](self.hydra_mlp[head](inputs))

    def read(self, states: torch.Tensor, cache: DynamicCache) -> torch.Tensor:
        """What the heads read of the target's states at the next tokens, [n, hidden], the same shape.

        cache: of the prefix attention, from the text's begin; it grows by n rows.
        """
        if self.prefix_embeding_layer is None:
            return states
        return self.prefix_embeding_layer(
            inputs_embeds=states[None], use_cache=True, **{CACHE: cache}
        ).last_hidden_state[0]


def load_hydra_heads(place: str | None, hidden: int, vocabulary: int, config: object) -> HydraHeads:
    """The heads of a file, or of the file in a folder, in float32.

    hidden, vocabulary: the target's sizes; config: of the target.

    Raises BadInput naming the file if there is none, if it cannot be read, or if its shapes do not fit.
    """
    path = find_file(place, (PUBLISHED,), f"a published {PUBLISHED}, made for this very model, or its folder")
    _check_offset(path.parent / "config.json")
    state = {name: value for name, value in read_tensors(path, frozenset()).items() if not UNUSED.fullmatch(name)}
    plus = any(name.startswith(PREFIX) for name in state)
    prefix = config if plus and isinstance(config, LlamaConfig) else None
    if plus and prefix is None:
        raise BadInput(HEADS_KEY, f"{path} was trained for another model: it has a layer of a Llama")
    blocks = [re.fullmatch(r"hydra_mlp\.(\d+)\.(\d+)\.linear\.weight", name) for name in state]
    count, each = len({one[1] for one in blocks if one}), sum(one[1] == "0" for one in blocks if one)
    return with_numbers(lambda: HydraHeads(count, each, hidden, vocabulary, prefix), state, path, "Hydra heads")


def _check_offset(path: Path) -> None:
    """Raise BadInput for heads that read a layer below the last one, by the config beside them."""
    if not path.is_file():
        return
    try:
        offset = json_value(read_text(path, HEADS_KEY), HEADS_KEY, str(path)).get("hidden_state_offset", 0)
    except (BadInput, AttributeError):
        raise BadInput(HEADS_KEY, f"{path} is no config of heads") from None
    if offset != 0:
        raise BadInput(
            HEADS_KEY, f"{path}: its heads read {offset!r} layers below the last hidden state, and Hydra here that"
        )


class Hydra(Drafter):
    """Drafts the most probable nodes.

    heads: a published file of heads, with or without prefix attention (Hydra++, Hydra: https://huggingface.co/ankner),
        or a folder with one; none comes along
    budget: most drafted nodes per step
    top_k: candidates below each node
    """

    learned_from = frozenset({"the target's answers"})
    requires = frozenset({"hidden"})
    adaptation = "off"

    def __init__(self, heads: FilePath | None = None, *, budget: Budget = 63, top_k: Count = 10) -> None:
        self.place, self.budget, self.top_k = heads, budget, top_k
        self.reset()

    def setup(self, target: Target) -> None:
        """Load the heads, which must have the target's sizes."""
        self.shared = shared = SharedLayers(target, "hydra")
        config = getattr(target, "config", None)
        heads = load_hydra_heads(self.place, shared.hidden, shared.vocabulary, config)
        self.heads = heads.to(shared.device, shared.dtype)
        prefix = {"prompt_hidden"} if heads.prefix_embeding_layer is not None else set()
        self.requires = frozenset({"hidden", *prefix})

    def reset(self) -> None:
        self._read: torch.Tensor | None = None
        self._cache = DynamicCache()

    def begin(self, prompt_ids: np.ndarray, seed: int = 0) -> None:
        self.reset()

    @torch.inference_mode()
    def observe(self, step: Step) -> None:
        """Read the states of the tokens that are decided: after a prompt all of its own, then the accepted path's."""
        self._read = self.heads.read(step.text_hidden.to(self.shared.dtype), self._cache)[-1:]

    @torch.inference_mode()
    def draft(self, context: np.ndarray) -> DraftTree:
        growth = Growth(int(context[-1]), Shape(self.budget, len(self.heads), [self.top_k], self.budget, 0.0))
        if self._read is None or self.budget == 0:
            return growth.draft()
        inputs = torch.cat([self._read, self.shared.embed(growth.tokens)], dim=-1)
        while True:
            probabilities = self.heads.logits(growth.level, inputs).float().softmax(dim=-1)
            best = probabilities.topk(min(self.top_k, probabilities.shape[-1]))
            growth.add(best.indices.cpu().numpy(), best.values.double().cpu().numpy())
            if growth.level == len(self.heads) or not growth.read_next():
                return growth.draft()
            above = inputs[torch.from_numpy(growth.above).to(inputs.device)]
            inputs = torch.cat([above, self.shared.embed(growth.tokens[growth.latest])], dim=-1)
