"""The published files of EAGLE's heads: a folder with config.json and model.safetensors or pytorch_model.bin.

For instance yuhuili/EAGLE-Vicuna-7B-v1.3 (EAGLE-1 and EAGLE-2, one network) and yuhuili/EAGLE3-Vicuna1.3-13B. Names,
shapes and numbers are checked before anything is used.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from transformers.models.llama.configuration_llama import LlamaConfig

from aded.errors import BadInput
from aded.files.atomic import write_bytes
from baselines.heads.eagle.model import Eagle3Head, EagleHead
from baselines.heads.tensor_file import HEADS_KEY, find_file, read_tensors, with_numbers

WEIGHTS = "model.safetensors"
PUBLISHED = "pytorch_model.bin"
CONFIG = "config.json"
SIZES = ("hidden_size", "intermediate_size", "num_attention_heads", "vocab_size")
LAYERS = "eagle_aux_hidden_state_layer_ids"
"""Key of the config for the layers that EAGLE-3 reads, as vLLM has it; where it is missing they are the published."""
CONFIG_KEYS = (*SIZES, "num_key_value_heads", "head_dim", "num_hidden_layers", "rms_norm_eps", "hidden_act")
ROPE_KEYS = ("max_position_embeddings", "rope_theta", "rope_scaling", "rope_parameters")
WHOLE_NUMBERS = frozenset({"d2t", "t2d"})


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
    path = find_file(place, (WEIGHTS, PUBLISHED))
    if path is None:
        raise BadInput(
            HEADS_KEY,
            f"no head at {place}; it must be a folder that holds {CONFIG} and {WEIGHTS} or a published {PUBLISHED}: "
            "train one with python -m scripts.train.eagle",
        )
    settings, config = _config(path.parent / CONFIG)
    if config.vocab_size != vocabulary:
        raise BadInput(
            HEADS_KEY,
            f"{path.parent / CONFIG} is of another model: its vocab_size is {config.vocab_size}, this target's "
            f"{vocabulary}; name a head of this very model",
        )
    reads = tuple(settings.get(LAYERS) or published_layers(layers)) if kind is Eagle3Head else ()
    state = read_tensors(path, WHOLE_NUMBERS)
    state.pop("t2d", None)  # which of the target's tokens d2t names, once more
    state = {name: value for name, value in state.items() if not name.endswith("rotary_emb.inv_freq")}
    _check_tokens(state.get("d2t"), path, vocabulary)
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
    settings: dict[str, Any] = {key: getattr(head.config, key) for key in (*CONFIG_KEYS, *ROPE_KEYS[:1])}
    settings |= {"rope_parameters": head.config.rope_parameters, **({LAYERS: list(reads)} if reads else {})}
    state = {
        name: value.clone() if name == "d2t" else value.to(torch.bfloat16)
        for name, value in head.state_dict().items()
    }
    write_bytes(folder / CONFIG, (json.dumps(settings, indent=2) + "\n").encode(), "out")
    write_bytes(folder / WEIGHTS, save(state, metadata), "out")


def _config(path: Path) -> tuple[dict[str, Any], LlamaConfig]:
    """The file's settings, and those of the decoder layers among them."""
    try:
        settings = json.loads(path.read_text())
        assert isinstance(settings, dict)
        missing = [key for key in SIZES if not isinstance(settings.get(key), int)]
        reads = settings.get(LAYERS)
        assert reads is None or (isinstance(reads, list) and reads and all(type(layer) is int for layer in reads))
    except (OSError, ValueError, AssertionError):
        raise BadInput(
            HEADS_KEY, f"{path} is no config of a head; name a folder that holds one beside the weights"
        ) from None
    if missing:
        raise BadInput(HEADS_KEY, f"{path} lacks {missing[0]}, a whole number")
    given = {key: settings[key] for key in (*CONFIG_KEYS, *ROPE_KEYS) if settings.get(key) is not None}
    given.setdefault("num_hidden_layers", 1)
    try:
        return settings, LlamaConfig(**given)
    except Exception as error:  # transformers checks keys in ways of its own
        problem = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise BadInput(HEADS_KEY, f"{path} is no config of Llama layers ({problem[:120]})") from None


def _built(kind: type[EagleHead], config: LlamaConfig, width: int, state: Mapping[str, torch.Tensor]) -> EagleHead:
    """The network whose parts the file's names tell."""
    has = {name for name in ("fc", "qkv") if any(_is_bias(name, key) for key in state)}
    own = {name for name in ("embed_tokens", "lm_head") if f"{name}.weight" in state}
    known = len(state["d2t"]) if "d2t" in state and state["d2t"].ndim == 1 else None
    return kind(config, width, biased=frozenset(has), own=frozenset(own), draft_vocabulary=known)


def _is_bias(part: str, key: str) -> bool:
    return key == "fc.bias" if part == "fc" else key.endswith(("q_proj.bias", "k_proj.bias", "v_proj.bias"))


def _check_tokens(d2t: torch.Tensor | None, path: Path, vocabulary: int) -> None:
    """Lookups check no bounds, and a tree has no equal siblings."""
    if d2t is None:
        return
    if d2t.dtype not in (torch.int32, torch.int64):
        raise BadInput(HEADS_KEY, f"{path}: d2t must be whole numbers")
    tokens = torch.arange(len(d2t)) + d2t
    if not ((tokens >= 0) & (tokens < vocabulary)).all() or len(tokens.unique()) < len(tokens):
        raise BadInput(
            HEADS_KEY, f"{path} was trained for another model: its d2t names no {len(d2t)} of {vocabulary} tokens"
        )
