"""Hidden states for the drafters that read them, taken by hooks from a model that is itself unchanged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from transformers import PreTrainedModel

from aded.errors import BadInput


class HiddenStates:
    """Those of the last forward.

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
