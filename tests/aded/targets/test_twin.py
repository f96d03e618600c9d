from __future__ import annotations

import pytest
import torch
from tiny import VOCABULARY, tiny_model

from aded.errors import BadInput
from aded.targets.eager import EagerTarget
from aded.targets.twin import twin_of, twin_with_layers

IDS = torch.arange(12)[None] % VOCABULARY


def logits_of(model: torch.nn.Module) -> torch.Tensor:
    with torch.inference_mode():
        return model(input_ids=IDS).logits


@pytest.mark.parametrize("name", ["llama", "qwen2-window", "gemma3-window"])
@pytest.mark.parametrize("chosen", [[0], [0, 1], [1, 3], [3]], ids=str)
def test_chosen_layers_are_a_model_of_those_layers(name: str, chosen: list[int]) -> None:
    """The same as a model that was built with so few layers and given their weights."""
    kinds = {"layer_types": ["sliding_attention", "full_attention"] * 2} if name == "gemma3-window" else {}
    model = tiny_model(name, num_hidden_layers=4, **kinds)
    before = logits_of(model)
    twin = twin_with_layers(model, chosen)
    own = {key: [kinds["layer_types"][number] for number in chosen] for key in kinds}
    if name == "qwen2-window":  # its layers slide from max_window_layers on
        own = {"layer_types": [model.config.layer_types[number] for number in chosen]}
    few = tiny_model(name, num_hidden_layers=len(chosen), **own)
    weights = model.state_dict()
    for key in few.state_dict():
        parts = key.split(".")
        if "layers" in parts:
            at = parts.index("layers") + 1
            parts[at] = str(chosen[int(parts[at])])
        few.get_parameter(key).data = weights[".".join(parts)]
    torch.testing.assert_close(logits_of(twin), logits_of(few), rtol=0, atol=0)
    torch.testing.assert_close(logits_of(model), before, rtol=0, atol=0)
    EagerTarget(twin).self_check()


def test_a_twin_has_the_same_memory_and_hooks_of_its_own() -> None:
    model = tiny_model()
    places = {parameter.data_ptr() for parameter in model.parameters()}
    target = EagerTarget(model)
    for twin in (twin_of(model), twin_with_layers(model, [1])):
        assert {parameter.data_ptr() for parameter in twin.parameters()} <= places
        with torch.inference_mode():
            target.states.last = None
            twin(input_ids=IDS)
        assert target.states.last is None


def test_a_model_whose_layers_are_no_list_is_refused() -> None:
    model = tiny_model()
    model.config.num_hidden_layers = 7
    with pytest.raises(BadInput, match=r"^model: LlamaForCausalLM has no list of its 7 layers"):
        twin_with_layers(model, [0])
