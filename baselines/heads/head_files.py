"""The files of heads, as published: tensors by name, and beside them a config.json with the sizes of a head's layers.

Reading executes nothing in them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors.torch import load_file, save
from transformers import PreTrainedConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from aded.errors import BadInput, first_line
from aded.files.atomic import write_outputs
from aded.files.json_lines import json_value, read_text
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


CONFIG = "config.json"
WEIGHTS = "model.safetensors"
SIZES = ("hidden_size", "intermediate_size", "num_attention_heads", "vocab_size")
LAYER_KEYS = (*SIZES, "num_key_value_heads", "head_dim", "num_hidden_layers", "rms_norm_eps", "hidden_act")
ROPE_KEYS = ("max_position_embeddings", "rope_theta", "rope_scaling", "rope_parameters")
Config = TypeVar("Config", bound=PreTrainedConfig)


def read_config(
    path: Path, kind: type[Config], vocabulary: int, keys: tuple[str, ...] = (), **defaults: Any
) -> tuple[dict[str, Any], Config]:
    """The file's settings, and those of the decoder layers among them.

    vocabulary: of the target, which must be the head's.
    keys: of the layers, beside LAYER_KEYS and ROPE_KEYS. defaults: for keys that are not there.

    Raises BadInput naming the file.
    """
    try:
        settings = json_value(read_text(path, HEADS_KEY), HEADS_KEY, str(path))
    except BadInput:
        settings = None
    if not isinstance(settings, dict):
        raise BadInput(HEADS_KEY, f"{path} is no config of a head; name a folder that holds one beside the weights")
    for key in SIZES:
        if type(settings.get(key)) is not int:
            raise BadInput(HEADS_KEY, f"{path} lacks {key}, a whole number")
    given = {key: settings[key] for key in (*LAYER_KEYS, *ROPE_KEYS, *keys) if settings.get(key) is not None}
    try:
        config = kind(**{**defaults, **given})
        rope = config.rope_parameters["rope_type"]
        if rope not in {"default", *ROPE_INIT_FUNCTIONS}:
            raise ValueError(f"rope_type {rope}")
    except Exception as error:  # transformers checks keys in ways of its own
        name = kind.__name__.removesuffix("Config")
        raise BadInput(HEADS_KEY, f"{path} is no config of {name} layers ({first_line(error)[:120]})") from None
    if config.vocab_size != vocabulary:
        raise BadInput(
            HEADS_KEY,
            f"{path} is of another model: its vocab_size is {config.vocab_size}, this target's {vocabulary}; name a "
            "head of this very model",
        )
    return settings, config


def are_layers(value: Any) -> bool:
    """Is it a list of layers' numbers?"""
    return isinstance(value, list) and bool(value) and all(type(layer) is int for layer in value)


def read_weights(path: Path, vocabulary: int) -> dict[str, torch.Tensor]:
    """The tensors of a head's file. vocabulary: of the target. Raises BadInput naming the file."""
    state = read_tensors(path, frozenset({"d2t", "t2d"}))
    _check_tokens(state, path, vocabulary)
    state.pop("t2d", None)  # which of the target's tokens d2t names, once more
    return state


def _check_tokens(state: Mapping[str, torch.Tensor], path: Path, vocabulary: int) -> None:
    """Does the file say which of the target's tokens its head knows? d2t: what to add to the head's own ids.

    Lookups check no bounds, a tree has no equal siblings, and drafts of other tokens than the head means are all
    rejected. Raises BadInput naming the file.
    """
    d2t, t2d, output = (state.get(name) for name in ("d2t", "t2d", "lm_head.weight"))
    rows = None if output is None or output.ndim == 0 else len(output)
    if t2d is not None and (t2d.dtype != torch.bool or t2d.shape != (vocabulary,)):
        raise BadInput(HEADS_KEY, f"{path}: t2d must be true or false for each of the target's {vocabulary} tokens")
    if d2t is None:
        if (rows or vocabulary) < vocabulary or not (t2d is None or t2d.all()):
            raise BadInput(
                HEADS_KEY,
                f"{path} is of a head that knows some of the target's {vocabulary} tokens only, and lacks d2t, which "
                "says which; name a file with it",
            )
        return
    if d2t.dtype not in (torch.int32, torch.int64) or d2t.ndim != 1 or len(d2t) == 0:
        raise BadInput(HEADS_KEY, f"{path}: d2t must be whole numbers, one for each token of the head")
    tokens = torch.arange(len(d2t)) + d2t
    if not ((tokens >= 0) & (tokens < vocabulary)).all() or len(tokens.unique()) < len(tokens):
        raise BadInput(
            HEADS_KEY, f"{path} was trained for another model: its d2t names no {len(d2t)} of {vocabulary} tokens"
        )
    if rows not in (None, len(d2t)):
        raise BadInput(
            HEADS_KEY, f"{path}: d2t names {len(d2t)} tokens, but lm_head has {rows} rows; they must agree"
        )
    if t2d is not None and not torch.equal(t2d.nonzero()[:, 0], tokens.sort().values):
        raise BadInput(
            HEADS_KEY, f"{path}: d2t and t2d name other tokens; name a file in which both are of this very head"
        )


def write_head(head: Any, folder: Path, metadata: dict[str, str], own: dict[str, Any]) -> None:
    """Write a head's weights in bfloat16, and its config.

    own: settings beside those of the layers. Raises BadInput.
    """
    settings: dict[str, Any] = {key: getattr(head.config, key) for key in (*LAYER_KEYS, *ROPE_KEYS[:1])}
    settings |= {"rope_parameters": head.config.rope_parameters, **own}
    state = {
        name: value.clone() if name == "d2t" else value.to(torch.bfloat16)
        for name, value in head.state_dict().items()
    }
    config = (json.dumps(settings, indent=2) + "\n").encode()
    write_outputs(folder, {CONFIG: config, WEIGHTS: save(state, metadata)}, "out")
