"""The eager target: a stock transformers model, decoder-only with standard attention; no forked modelling code."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import torch
from transformers import PreTrainedModel

from aded.core.sampler import Greedy, Sampler
from aded.core.step import Step
from aded.core.tree import DraftTree
from aded.errors import BadInput
from aded.targets.kv_cache import KVCache
from aded.targets.tree_mask import Mask, TreeMask

STANDARD_LAYERS = {"full_attention", "sliding_attention"}


class EagerTarget:
    """Verifies draft trees with a 4-D mask, explicit positions and a compacted KV cache.

    trained: False for random weights, whose logits no drafter may read.
    Raises BadInput when the model's attention or cache is not the standard one (recurrent, linear, encoder-decoder).
    """

    cache_granularity = 256
    """The KV cache grows by whole multiples of this many rows."""

    def __init__(self, model: PreTrainedModel, *, trained: bool = True) -> None:
        config = model.config.get_text_config(decoder=True)
        kinds = set(getattr(config, "layer_types", None) or []) - STANDARD_LAYERS
        if model.config.is_encoder_decoder or model._is_stateful or kinds or not hasattr(model, "lm_head"):
            raise BadInput(
                "model",
                f"{type(model).__name__} has no KV cache that a tree can be verified in; "
                "choose a decoder-only model with standard (full or sliding-window) attention",
            )
        self.model, self.config = model.eval(), config
        self.device: torch.device = next(model.get_input_embeddings().parameters()).device
        self.context_length = int(config.max_position_embeddings)
        self.trained = trained
        self.provides = frozenset({"logits", "hidden", "seconds"} if trained else {"seconds"})
        self.mask = TreeMask(config, model.dtype)
        self._cache: KVCache | None = None
        self._wants: frozenset[str] = frozenset()
        self._hidden: torch.Tensor | None = None
        # What the output projection reads is the last hidden state, whatever the architecture calls it.
        model.lm_head.register_forward_pre_hook(self._remember_hidden)

    @property
    def output_projection(self) -> torch.nn.Module:
        """From last hidden states to logits, [.., hidden] to [.., vocabulary]; `weight`: [vocabulary, hidden]."""
        return self.model.lm_head

    def describe(self) -> dict[str, object]:
        """For the run's record; see Target.describe."""
        return {"engine": "eager", "trace": not self.trained}

    def _remember_hidden(self, module: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
        self._hidden = inputs[0][0]

    @torch.inference_mode()
    def prefill(self, prompt_ids: np.ndarray, sampler: Sampler, room: int, requires: Collection[str] = ()) -> Step:
        """Read the prompt in one forward; see Target.prefill."""
        self._sampler, self._wants = sampler, frozenset(requires)
        self.prepare(len(prompt_ids) + room, sampler)
        self.cache.start()
        ids = torch.from_numpy(prompt_ids).to(self.device)[None]
        positions = torch.arange(len(prompt_ids), device=self.device)[None]
        logits = self._forward(ids, positions, None, logits_to_keep=1)
        self._prompt_length = len(prompt_ids)
        tree = DraftTree.root(int(prompt_ids[-1]))
        return self._step(tree, *sampler.walk(tree, logits, 0), logits)

    @torch.inference_mode()
    def verify(self, tree: DraftTree) -> Step:
        """Rows: root, then drafts. Position of a node: committed length + depth."""
        committed = self.cache.length
        ids = torch.from_numpy(tree.tokens).to(self.device)[None]
        positions = torch.from_numpy(tree.depths + committed).to(self.device)[None]
        logits = self._forward(ids, positions, self.mask(tree, committed, self.device))
        # The root sits at `committed`, so the token chosen there is the answer's number committed - prompt + 1.
        path, token = self._sampler.walk(tree, logits, committed - self._prompt_length + 1)
        self.cache.keep(committed, path)
        return self._step(tree, path, token, logits)

    def _forward(
        self, ids: torch.Tensor, positions: torch.Tensor, mask: Mask | None, logits_to_keep: int = 0
    ) -> torch.Tensor:
        """[1, n] ids to [n, vocabulary] logits (the last `logits_to_keep` rows, 0 for all)."""
        self.cache.extend(ids.shape[1], self.device)
        return self._call_model(ids, positions, mask, logits_to_keep)

    def _call_model(
        self, ids: torch.Tensor, positions: torch.Tensor, mask: Mask | None, logits_to_keep: int = 0
    ) -> torch.Tensor:
        output = self.model(
            input_ids=ids,
            position_ids=positions,
            attention_mask=mask,
            past_key_values=self._cache,
            use_cache=True,
            logits_to_keep=logits_to_keep,
        )
        return output.logits[0]

    def _step(self, tree: DraftTree, path: list[int], token: int, logits: torch.Tensor) -> Step:
        return Step(
            tree,
            path,
            token,
            logits if "logits" in self._wants else None,
            self._hidden if "hidden" in self._wants else None,
        )

    @property
    def cache(self) -> KVCache:
        assert self._cache is not None, "prefill comes first"
        return self._cache

    def prepare(self, rows: int, sampler: Sampler) -> None:
        """Allocate a KV cache of at least `rows` rows; see Target.prepare."""
        if self._cache is None or self._cache.capacity < rows:
            granularity = self.cache_granularity
            self._cache = KVCache(self.config.num_hidden_layers, -(-rows // granularity) * granularity)

    def self_check(self) -> None:
        """Verify one small tree against plain forwards; raise BadInput when the model ignores mask or positions."""
        root, tree = np.array([1, 2, 3]), DraftTree(np.array([4, 5, 6, 7]), np.array([-1, 0, 0, 2]))
        self.prefill(root, Greedy(), len(tree), {"logits"})
        step = self.verify(tree)
        assert step.logits is not None
        with torch.inference_mode():
            ids = torch.tensor([[1, 2, 3, 4, 6, 7]], device=self.device)
            plain = self.model(input_ids=ids, use_cache=False).logits[0, -1]
        gap = float((step.logits[-1].float() - plain.float()).abs().max() / plain.float().abs().max())
        tolerance = 1e-3 if self.model.dtype == torch.float32 else 0.1
        if not gap < tolerance:
            raise BadInput(
                "model",
                f"{type(self.model).__name__} does not honour a 4-D mask with explicit positions (logits of one "
                f"path differ by {gap:.1e} of their range); choose a model with standard attention",
            )


def eos_token_ids(model: PreTrainedModel) -> frozenset[int]:
    """Every id that ends an answer, from the generation config first, as `generate` has it."""
    for config in (model.generation_config, model.config):
        ids = getattr(config, "eos_token_id", None)
        if ids is not None:
            return frozenset(ids if isinstance(ids, list) else [ids])
    return frozenset()
