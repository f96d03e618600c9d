"""Tensors of a downloaded file, by name. Reading executes nothing in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors.torch import load_file

from aded.errors import BadInput, first_line
from aded.files.places import here_or_shipped

HEADS_KEY = "method.heads"
Module = TypeVar("Module", bound=torch.nn.Module)


def find_file(place: str | None, names: Iterable[str], wanted: str) -> Path:
    """The file itself, or the first of these names in a folder. Looked for here, then in the repository.

    Raises BadInput, which says what is `wanted`, if there is none.
    """
    if place is None:
        raise BadInput(HEADS_KEY, f"no heads come along; it must be {wanted}")
    if path := here_or_shipped(place, names):
        return path
    raise BadInput(HEADS_KEY, f"no heads at {place}; it must be {wanted}")


def read_tensors(path: Path, whole_numbers: frozenset[str]) -> dict[str, torch.Tensor]:
    """The tensors of a safetensors file, or of torch's own: dense, on the processor, and their numbers finite.

    whole_numbers: names of those that hold no floating-point numbers.

    Raises BadInput naming the file.
    """
    try:
        if path.suffix == ".safetensors":
            state: Any = load_file(path)
        else:
            state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged zip or pickle fails in many ways
        raise BadInput(HEADS_KEY, f"{path} cannot be read as tensors ({first_line(error)[:120]})") from None
    if not isinstance(state, dict) or not all(
        isinstance(name, str) and isinstance(value, torch.Tensor) for name, value in state.items()
    ):
        raise BadInput(
            HEADS_KEY, f"{path} holds no tensors by name; name a published file of heads or a safetensors file"
        )
    for name, value in state.items():
        if value.layout != torch.strided or value.device.type != "cpu":
            raise BadInput(HEADS_KEY, f"{path}: {name} must be a dense tensor with values")
        if name not in whole_numbers and not (value.is_floating_point() and value.float().isfinite().all()):
            raise BadInput(HEADS_KEY, f"{path}: {name} must hold finite floating-point numbers")
    return state


def with_numbers(
    make: Callable[[], Module], state: Mapping[str, torch.Tensor], path: Path, kind: str, prefix: str = ""
) -> Module:
    """The module that `make` makes, with a file's tensors, in float32.

    kind: what it is, for the message
    prefix: of the module's names, which those in the file lack

    Raises BadInput where names or shapes are not the module's, or its config makes none.
    """
    try:
        with torch.device("meta"):
            shapes = {name.removeprefix(prefix): value.shape for name, value in make().state_dict().items()}
    except Exception as error:  # whatever layers say of sizes and names that are none
        raise BadInput(HEADS_KEY, f"the config beside {path} makes no {kind} ({first_line(error)[:120]})") from None
    if not state:
        raise BadInput(HEADS_KEY, f"{path} holds no {kind}: it is empty")
    if lacking := sorted(shapes.keys() - state.keys()):
        raise BadInput(HEADS_KEY, f"{path} holds no {kind}: it lacks {lacking[0]}")
    if beyond := sorted(state.keys() - shapes.keys()):
        raise BadInput(HEADS_KEY, f"{path} holds no {kind}: it has {beyond[0]}, which none has")
    for name, shape in shapes.items():
        if state[name].shape != shape:
            raise BadInput(
                HEADS_KEY,
                f"{path} was trained for another model: {name} is {list(state[name].shape)}, this target needs "
                f"{list(shape)}; name heads of this very model",
            )
    made = make()
    made.load_state_dict({prefix + name: value for name, value in state.items()})
    return made.eval()
