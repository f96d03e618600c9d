"""Modules for multi-token prediction, with which a model was trained, draft for it (DeepSeek-V3, arXiv 2412.19437).

Each is a decoder layer that reads the hidden state of a token, and the token after it. GLM-4.5 and DeepSeek-V3 ship
one behind their own layers, as `model.layers.N` with `enorm`, `hnorm`, `eh_proj` and `shared_head`. Transformers
knows such names; its `MtpModel` loads the modules and runs each of them.

Of several modules, each drafts the token after that of the one before, as they were trained. The last goes on from
its own output, behind its norm: so SGLang drafts more tokens with the one module of DeepSeek-V3 and GLM-4.5.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import transformers

from aded.core.drafter import Drafter, Step
from aded.core.target import Target
from aded.core.tree import DraftTree
from aded.errors import BadInput, first_line
from aded.files.models.pretrained import check_weights
from aded.settings import Budget, Count
from baselines.heads.layers import SharedLayers


class Mtp(Drafter):
    """Drafts a chain.

    budget: most drafted tokens per step
    depth: length of the chain where the budget has room for it; each token is a forward of a module
    """

    learned_from = frozenset({"the target's weights"})
    requires = frozenset({"hidden", "prompt_hidden"})
    adaptation = "off"

    def __init__(self, *, budget: Budget = 3, depth: Count = 3) -> None:
        self.budget, self.depth = budget, min(budget, depth)
        self.modules: Any = None
        self.reset()

    def setup(self, target: Target) -> None:
        """Load the modules that stand beside the target's weights. Raises BadInput if there are none."""
        shared = SharedLayers(target, "mtp")
        self.modules = load_modules(shared.target.model)
        self.device, self._project = shared.target.device, shared.projection()
        self.reset()

    def reset(self) -> None:
        self._unread: list[tuple[torch.Tensor, list[int]]] = []
        """Hidden states [n, hidden], and the token after each, that no module has read yet."""
        self._above: dict[int, torch.Tensor] = {}
        """[1, hidden] by module: its output for the last token of the text."""
        if self.modules is not None:
            self._cache: Any = transformers.cache_utils.MtpCache(config=self.modules.config)
            self._cache.activate_past_recording()

    def begin(self, prompt_ids: np.ndarray, seed: int = 0) -> None:
        self.reset()
        self._following = prompt_ids[1:].tolist()

    def observe(self, step: Step) -> None:
        if self.depth > 0:
            self._unread.append((step.text_hidden, [*self._following, *step.new_tokens]))
            self._following = []

    @torch.inference_mode()
    def draft(self, context: np.ndarray) -> DraftTree:
        root = int(context[-1])
        if self.modules is None or not self._unread:
            return DraftTree.root(root)
        modules, position = len(self.modules.layers), len(context) - 1
        self._read_text(position)
        output, drafted, reached = self._above[0], list[int](), [1.0]
        for ahead in range(1, self.depth + 1):
            probability, token = self._project(output).float().softmax(dim=-1)[0].max(dim=-1)
            drafted.append(int(token))
            reached.append(reached[-1] * float(probability))
            if ahead < self.depth:
                output = self._read(min(ahead, modules - 1), drafted[-1:], output, position + ahead)
        self._forget_drafted(position)
        chain = DraftTree.chain(root, drafted)
        return DraftTree(chain.tokens, chain.parents, np.array(reached))

    def _read_text(self, position: int) -> None:
        """Let every module read what was decided. position: of the text's last token.

        A module's hidden states are the outputs of the one before it, for the tokens before those that it reads. The
        first has the target's.
        """
        hidden = torch.cat([states for states, _ in self._unread])
        tokens = [token for _, group in self._unread for token in group]
        self._unread.clear()
        for module in range(len(self.modules.layers)):
            if len(hidden) == 0:
                return
            outputs = self._read(module, tokens[-len(hidden) :], hidden, position)
            above = self._above.get(module, outputs[:0])
            hidden, self._above[module] = torch.cat([above, outputs[:-1]]), outputs[-1:]

    def _read(self, module: int, tokens: list[int], hidden: torch.Tensor, position: int) -> torch.Tensor:
        """[n, hidden]: the outputs for n tokens and the hidden states before them. position: of the last token."""
        positions = torch.arange(position + 1 - len(tokens), position + 1, device=self.device)
        ids = torch.tensor(tokens, device=self.device)
        output: torch.Tensor = self.modules.forward_layer(
            module, hidden[None], positions[None], self._cache, input_ids=ids[None]
        )
        return output[0]

    def _forget_drafted(self, position: int) -> None:
        """Drop the rows behind the text, whose last token has this position. Module m has none for tokens 0 to m."""
        for module, layer in enumerate(self._cache.layers):
            drafted = layer.get_seq_length() - max(position - module, 0)
            if layer.is_initialized:
                layer.crop(-drafted)


def load_modules(model: Any) -> Any:
    """The modules, an `MtpModel`, of a model of transformers, from the folder or Hub id that it was loaded from.

    Raises BadInput if its architecture has none that this transformers knows, or if the files have other tensors.
    """
    kind = getattr(transformers.modeling_layers, "MtpModel", None)
    if kind is None:
        raise BadInput(
            "method", f"mtp needs a transformers with MtpModel, as 5.23 is, not {transformers.__version__}"
        )
    name = type(model).__name__
    if not getattr(model.config.get_text_config(decoder=True), "num_mtp_layers", None):
        raise BadInput("method", f"mtp needs a model that ships modules for multi-token prediction; {name} has none")
    place = model.config.name_or_path

    class MtpModel(kind):  # type: ignore[misc, valid-type]  # it is a class
        """Its from_pretrained returns no report of what the files held, and shows it to the model alone."""

        __module__ = kind.__module__  # transformers finds the tensors' names by that of the class

        def _adjust_missing_and_unexpected_keys(self, loading_info: Any) -> None:
            super()._adjust_missing_and_unexpected_keys(loading_info)
            check_weights(self, vars(loading_info), f"{place}, for multi-token prediction,", "method")

    try:
        return MtpModel.from_pretrained(model, device_map={"": model.device}).eval()
    except BadInput:
        raise
    except (OSError, RuntimeError, ValueError, TypeError) as error:
        first = first_line(error)[:200]
        raise BadInput(
            "method",
            f"the modules for multi-token prediction in {place} cannot be loaded; transformers says: {first}",
        ) from error
