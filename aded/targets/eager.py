"""The eager target: a stock transformers model, decoder-only with standard attention; no forked modelling code."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any, Self

import numpy as np
import psutil
import torch
from transformers import PreTrainedModel

from aded.core.sampler import Sampler
from aded.core.target import Step
from aded.core.tree import DraftTree
from aded.errors import BadInput
from aded.kernels.attention import CACHE
from aded.targets.kv_cache import KVCache
from aded.targets.self_check import SelfCheck, context_length
from aded.targets.tree_attention import Mask, RopeSwitch, RowBias, TreeMask, visible

FIELDS = frozenset({"logits", "hidden", "layers", "prompt_hidden", "prompt_layers"})
"""The fields of a step that a target with weights offers."""


class HiddenStates:
    """Those of the last forward, for drafters that read them, by hooks on a model that is itself unchanged.

    last: [n, hidden], what the output projection read.
    layers: [n, hidden] by layer, what entered the decoder layers that are read.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        self._model = model
        self.last: torch.Tensor | None = None
        self.layers: dict[int, torch.Tensor] = {}
        self._layers: set[int] = set()
        # What the output projection reads is the last hidden state, whatever the architecture calls it.
        projection: torch.nn.Module = model.get_output_embeddings()
        self._hooks = [projection.register_forward_pre_hook(self._remember_last)]

    def read_layers(self, layers: Iterable[int]) -> bool:
        """Read these decoder layers too; is any of them new? Raises BadInput for one that is not there."""
        modules = getattr(self._model.get_decoder(), "layers", ())
        new = set(layers) - self._layers
        count = len(modules)
        for layer in sorted(new):
            if not 0 <= layer < count:
                raise BadInput(
                    "method",
                    f"it reads what enters layer {layer} of {type(self._model).__name__}, which has "
                    f"{f'layers 0 to {count - 1}' if count else 'no list of decoder layers'}",
                )
        for layer in sorted(new):
            hook = partial(self._remember_layer, layer)
            self._hooks.append(modules[layer].register_forward_pre_hook(hook, with_kwargs=True))
        self._layers |= new
        return bool(new)

    @contextmanager
    def of_all_rows(self) -> Iterator[None]:
        """A block in which `last` gets a row for every token, also where the projection reads the last alone."""
        hook = self._model.get_decoder().register_forward_hook(self._remember_output)
        try:
            yield
        finally:
            hook.remove()
        self.last = self._output

    def remove(self) -> None:
        for hook in self._hooks:
            hook.remove()

    def _remember_last(self, module: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
        self.last = inputs[0][0]

    def _remember_layer(
        self, layer: int, module: torch.nn.Module, inputs: tuple[torch.Tensor, ...], named: dict[str, Any]
    ) -> None:
        self.layers[layer] = (inputs[0] if inputs else named["hidden_states"])[0]

    def _remember_output(self, module: torch.nn.Module, inputs: tuple[torch.Tensor, ...], output: Any) -> None:
        self._output = output[0][0]


class EagerTarget:
    """Verifies draft trees with a 4-D mask, explicit positions and a compacted KV cache.

    trained: False for random weights, whose logits no drafter may read.
    check: what the model answered before kernels were installed; None: the model is untouched.
    Raises BadInput when the model's attention or cache is not the standard one (recurrent, linear, encoder-decoder).
    """

    cache_granularity = 256
    """The KV cache grows by whole multiples of this many rows."""
    first_position = 0
    """Position of a prompt's first token; only self-checks move it."""

    def __init__(self, model: PreTrainedModel, *, trained: bool = True, check: SelfCheck | None = None) -> None:
        self.check = check or SelfCheck(model)
        self.model, self.config = model.eval(), model.config.get_text_config(decoder=True)
        embedding = next(model.get_input_embeddings().parameters())
        self.device, self.vocabulary = embedding.device, embedding.shape[0]
        self.context_length = context_length(self.config)
        self.trained = trained
        self.provides = FIELDS | {"seconds"} if trained else frozenset({"seconds"})
        self.mask = TreeMask(self.config, model.dtype)
        self.row_bias = RowBias(model)
        self.switch = RopeSwitch(model)
        self._cache: KVCache | None = None
        self._wants: frozenset[str] = frozenset()
        self.states = HiddenStates(model)

    def release(self) -> None:
        """Take the target's hooks off the model, for another target."""
        self.states.remove()
        self.row_bias.remove()

    def fork(self) -> Self:
        """See Target.fork. Model, hooks and compiled steps are shared."""
        other = copy.copy(self)
        other._cache = None if self._cache is None else self._cache.larger(self._cache.capacity)
        return other

    def has_memory_for(self, rows: int) -> bool:
        """See Target.has_memory_for: half of what is free is left to others."""
        if self._cache is None or not self._cache.kv_layers:
            return True
        return rows * self._cache.bytes_per_row < _free_bytes(self.device) / 2

    @property
    def output_projection(self) -> torch.nn.Module:
        """From last hidden states to logits, [.., hidden] to [.., vocabulary]; `weight`: [vocabulary, hidden]."""
        projection: torch.nn.Module = self.model.get_output_embeddings()
        return projection

    def read_layers(self, layers: Iterable[int]) -> None:
        """Let steps hold what enters these decoder layers. Called between answers. Raises BadInput; see Target."""
        self.states.read_layers(layers)

    def describe(self) -> dict[str, object]:
        """For the run's record; see Target.describe."""
        bits, dtype = getattr(self.model.config, "weight_bits", None), str(self.model.dtype).removeprefix("torch.")
        facts = {"weights": f"weights of the {bits}-bit file, computed in {dtype}"} if bits else {}
        return {"engine": "eager", "trace": not self.trained, **facts}

    @torch.inference_mode()
    def prefill(self, prompt_ids: np.ndarray, sampler: Sampler, room: int, requires: Collection[str] = ()) -> Step:
        """Read the prompt in one forward; see Target.prefill."""
        if (most := int(prompt_ids.max())) >= self.vocabulary:
            problem = f"its tokenizer made token {most}, and the model's last one is {self.vocabulary - 1}"
            raise BadInput("model", f"{problem}; give it its own tokenizer")
        self._sampler, self._wants = sampler, frozenset(requires)
        self.prepare(len(prompt_ids) + room, sampler)
        self._prompt_length, self._tokens = len(prompt_ids), prompt_ids.tolist()
        with self.states.of_all_rows() if "prompt_hidden" in self._wants else nullcontext():
            logits = self._read(self._tokens)
        tree = DraftTree.root(int(prompt_ids[-1]))
        return self._step(tree, *sampler.walk(tree, logits, 0), logits, after_prompt=True)

    def _read(self, tokens: list[int]) -> torch.Tensor:
        """Read tokens into an empty cache; return the last one's logits, [1, vocabulary]."""
        self.cache.start()
        ids = torch.tensor(tokens, device=self.device)[None]
        positions = torch.arange(len(tokens), device=self.device)
        if self.row_bias.modules:
            seen = torch.ones(1, 1, len(tokens), len(tokens), dtype=torch.bool, device=self.device).tril()
            self.row_bias.step(seen, positions)
        logits = self._forward(ids, positions[None] + self.first_position, None, logits_to_keep=1)
        return logits[-1:]  # some models keep all

    @torch.inference_mode()
    def verify(self, tree: DraftTree) -> Step:
        """Rows: root, then drafts. Position of a node: committed length + depth. See Target.verify."""
        self.check_tokens(tree)
        committed = self.cache.length
        position = committed + self.first_position
        tree = tree.up_to_depth(self.switch.deepest(position))
        if self.switch.needs_prefill(position):
            # As a step of `generate` does at this position: the whole text is read anew, and no draft with it.
            tree = DraftTree.root(int(tree.tokens[0]))
            logits = self._read([*self._tokens, int(tree.tokens[0])])
        else:
            logits = self._read_tree(tree)
        # The root sits at `committed`, so the token chosen there is the answer's number committed - prompt + 1.
        path, token = self._sampler.walk(tree, logits, committed - self._prompt_length + 1)
        self._tokens += tree.tokens[path].tolist()
        self._keep(tree, committed, path)
        return self._step(tree, path, token, logits)

    def check_tokens(self, tree: DraftTree) -> None:
        """Raises BadInput for a token that the model does not have."""
        most = int(tree.tokens.max())
        if most >= self.vocabulary:
            raise BadInput("drafter", f"it drafted token {most}; the model's last one is {self.vocabulary - 1}")

    def _read_tree(self, tree: DraftTree) -> torch.Tensor:
        """[n, vocabulary]: the logits of all of a tree's nodes."""
        return self.read(tree)

    @torch.inference_mode()
    def read(self, tree: DraftTree, since: int = 0) -> torch.Tensor:
        """[n - since, vocabulary]: the logits of a tree's nodes from `since` on; those before are the last rows read.

        Its rows stay in the cache until `cache.keep` says which of them are the text's.
        """
        start = self.cache.length - since
        ids = torch.from_numpy(tree.tokens[since:]).to(self.device)[None]
        positions = torch.from_numpy(tree.depths[since:] + start + self.first_position).to(self.device)[None]
        return self._forward(ids, positions, self._mask_of(tree, start, since))

    def _mask_of(self, tree: DraftTree, committed: int, since: int) -> Mask | None:
        if not self.row_bias.modules:
            return self.mask(tree, committed, self.device, since)
        rows = torch.cat([torch.arange(committed), torch.from_numpy(tree.depths) + committed]).to(self.device)
        self.row_bias.step(visible(tree, committed, None, self.device)[:, :, since:], rows)
        return None

    def _keep(self, tree: DraftTree, committed: int, path: list[int]) -> None:
        """Compact the cache, where the tree's rows begin at `committed`, to the accepted path."""
        self.cache.keep(committed, path)

    def _forward(
        self, ids: torch.Tensor, positions: torch.Tensor, mask: Mask | None, logits_to_keep: int = 0
    ) -> torch.Tensor:
        """[1, n] ids to [n, vocabulary] logits (the last `logits_to_keep` rows, 0 for all)."""
        self.cache.extend(ids.shape[1], self.device)
        return self.call_model(self.cache, ids, positions, mask, logits_to_keep)

    def call_model(
        self, cache: KVCache, ids: torch.Tensor, positions: torch.Tensor, mask: Mask | None, logits_to_keep: int = 0
    ) -> torch.Tensor:
        output = self.model(
            input_ids=ids,
            position_ids=positions,
            attention_mask=mask,
            use_cache=True,
            logits_to_keep=logits_to_keep,
            **{CACHE: cache},
        )
        return output.logits[0]

    def _step(
        self, tree: DraftTree, path: list[int], token: int, logits: torch.Tensor, *, after_prompt: bool = False
    ) -> Step:
        """The step with the fields that are wanted. Where a text was read, its last rows are the tree's."""
        last, layers, wants = self.states.last, self.states.layers, self._wants
        nodes = len(tree)
        return Step(
            tree,
            path,
            token,
            logits=logits if "logits" in wants else None,
            hidden=last[-nodes:] if last is not None and "hidden" in wants else None,
            layers={layer: rows[-nodes:] for layer, rows in layers.items()} if "layers" in wants else None,
            prompt_hidden=last if after_prompt and "prompt_hidden" in wants else None,
            prompt_layers=dict(layers) if after_prompt and "prompt_layers" in wants else None,
        )

    @property
    def cache(self) -> KVCache:
        assert self._cache is not None, "prefill comes first"
        return self._cache

    def prepare(self, rows: int, sampler: Sampler) -> None:
        """Allocate a KV cache of at least `rows` rows; see Target.prepare."""
        if self._cache is None or self._cache.capacity < rows:
            capacity = -(-rows // self.cache_granularity) * self.cache_granularity
            self._cache = KVCache(capacity) if self._cache is None else self._cache.larger(capacity)

    def self_check(self) -> None:
        """Verify small trees against the untouched model; raise BadInput where they differ."""
        self.check.run(self)


def _free_bytes(device: torch.device) -> int:
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return int(psutil.virtual_memory().available)


def eos_token_ids(model: PreTrainedModel) -> frozenset[int]:
    """Every id that ends an answer, as `generate` has it: the generation config alone decides, and may name none."""
    ids = getattr(model.generation_config, "eos_token_id", None)
    return frozenset() if ids is None else frozenset(ids if isinstance(ids, list) else [ids])
