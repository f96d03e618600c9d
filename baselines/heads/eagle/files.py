"""The published files of EAGLE's heads: a folder with config.json and model.safetensors or pytorch_model.bin.

For instance yuhuili/EAGLE-Vicuna-7B-v1.3 (EAGLE-1 and EAGLE-2, one network) and yuhuili/EAGLE3-Vicuna1.3-13B. Names,
shapes and numbers are checked before anything is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from transformers.models.llama.configuration_llama import LlamaConfig

from aded.errors import BadInput
from baselines.heads.eagle.model import Eagle3Head, EagleHead
from baselines.heads.shared.head_files import CONFIG, WEIGHTS, are_layers, read_config, read_weights, write_head
from baselines.heads.shared.tensor_file import HEADS_KEY, find_file, with_numbers

PUBLISHED = "pytorch_model.bin"
LAYERS = "eagle_aux_hidden_state_layer_ids"
"""Key of the config for the layers that EAGLE-3 reads, as vLLM has it; where it is missing they are the published."""


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
    held = f"{CONFIG} and {WEIGHTS} or a published {PUBLISHED}"
    wanted = f"a folder that holds {held}: train one with python -m scripts.train.eagle"
    path = find_file(place, (WEIGHTS, PUBLISHED), wanted)
    settings, config = read_config(path.parent / CONFIG, LlamaConfig, vocabulary, num_hidden_layers=1)
    named = settings.get(LAYERS)
    if not (named is None or are_layers(named)):
        raise BadInput(HEADS_KEY, f"{path.parent / CONFIG}: {LAYERS} must be a list of layers")
    reads = tuple(named or published_layers(layers)) if kind is Eagle3Head else ()
    state = read_weights(path, vocabulary)
    state = {name: value for name, value in state.items() if not name.endswith("rotary_emb.inv_freq")}
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
    write_head(head, folder, metadata, {LAYERS: list(reads)} if reads else {})


def _built(kind: type[EagleHead], config: LlamaConfig, width: int, state: Mapping[str, torch.Tensor]) -> EagleHead:
    """The network whose parts the file's names tell."""
    has = {name for name in ("fc", "qkv") if any(_is_bias(name, key) for key in state)}
    own = {name for name in ("embed_tokens", "lm_head") if f"{name}.weight" in state}
    known = len(state["d2t"]) if "d2t" in state and state["d2t"].ndim == 1 else None
    return kind(config, width, biased=frozenset(has), own=frozenset(own), draft_vocabulary=known)


def _is_bias(part: str, key: str) -> bool:
    return key == "fc.bias" if part == "fc" else key.endswith(("q_proj.bias", "k_proj.bias", "v_proj.bias"))
