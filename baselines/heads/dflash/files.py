"""The published files of DFlash's heads: a folder with config.json and model.safetensors.

For instance z-lab/Qwen3-8B-DFlash-b16, or JetSpec/jetspec-qwen3-8b, whose config has one key more. Names, shapes and
numbers are checked before anything is used.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers.models.qwen3.configuration_qwen3 import Qwen3Config

from aded.errors import BadInput
from baselines.heads.dflash.model import Block, DFlashHead
from baselines.heads.shared.head_files import CONFIG, WEIGHTS, are_layers, read_config, read_weights, write_head
from baselines.heads.shared.tensor_file import HEADS_KEY, find_file, with_numbers

OWN, SIZE, TARGET_LAYERS = "dflash_config", "block_size", "num_target_layers"
MASK, READS, CAUSAL = "mask_token_id", "target_layer_ids", "causal_head"
"""Keys of the config, and keys below the first of them."""


def published_layers(layers: int, draft_layers: int) -> tuple[int, ...]:
    """The layers that a head of so many layers reads where its config does not name them.

    Evenly from the second to the last but two, or the middle one (z-lab/dflash, model.py). layers: of the target.
    """
    if draft_layers == 1:
        return (layers // 2,)
    return tuple(round(1 + i * (layers - 4) / (draft_layers - 1)) for i in range(draft_layers))


def load_head(place: str | None, *, hidden: int, vocabulary: int, layers: int) -> DFlashHead:
    """The head in float32.

    place: a folder, in the working directory or else in the repository.
    hidden, vocabulary, layers: the target's sizes, and its number of layers.

    Raises BadInput naming the file if there is none, if it cannot be read, or if it was made for another model.
    """
    wanted = f"a folder that holds {CONFIG} and {WEIGHTS}: train one with python -m scripts.train.dflash"
    path = find_file(place, (WEIGHTS,), wanted)
    config_path = path.parent / CONFIG
    settings, config = read_config(config_path, Qwen3Config, vocabulary, ("attention_bias", "layer_types"))
    _check_sizes(settings, config, config_path, {"hidden_size": hidden, TARGET_LAYERS: layers})
    block = _block(settings, config, config_path, vocabulary, layers)
    state = read_weights(path, vocabulary)
    known = len(state["d2t"]) if "d2t" in state else None
    return with_numbers(lambda: DFlashHead(config, block, draft_vocabulary=known), state, path, "head of DFlash")


def save_head(head: DFlashHead, folder: Path, metadata: dict[str, str], target_layers: int) -> None:
    """Write a head in bfloat16 and its config. target_layers: how many the target has. Raises BadInput."""
    block = head.block
    inner = {MASK: block.mask, READS: list(block.layers), CAUSAL: block.causal}
    own = {SIZE: block.size, TARGET_LAYERS: target_layers, OWN: inner}
    write_head(head, folder, metadata, own)


def _check_sizes(settings: dict[str, Any], config: Qwen3Config, path: Path, target: dict[str, int]) -> None:
    for key, wanted in target.items():
        if settings.get(key, wanted) != wanted:
            raise BadInput(
                HEADS_KEY, f"{path} is of another model: its {key} is {settings[key]}, this target's {wanted}"
            )
    if set(config.layer_types) != {"full_attention"}:
        raise BadInput(
            HEADS_KEY, f"{path}: layer_types must be full_attention, for all layers; others are not drafted with"
        )


def _block(settings: dict[str, Any], config: Qwen3Config, path: Path, vocabulary: int, layers: int) -> Block:
    own = settings.get(OWN)
    if not isinstance(own, dict):
        raise BadInput(HEADS_KEY, f"{path} lacks {OWN}, a group of keys; it is no config of a head of DFlash")
    size, mask, causal = settings.get(SIZE), own.get(MASK), own.get(CAUSAL, False)
    reads = own.get(READS, list(published_layers(layers, config.num_hidden_layers)))
    if type(size) is not int or size < 2:
        raise BadInput(HEADS_KEY, f"{path}: {SIZE} must be a whole number of 2 or more")
    if type(mask) is not int or not 0 <= mask < vocabulary:
        raise BadInput(HEADS_KEY, f"{path}: {MASK} must be one of the target's {vocabulary} tokens")
    if type(causal) is not bool:
        raise BadInput(HEADS_KEY, f"{path}: {CAUSAL} must be true or false")
    # What a layer puts out is read as what enters the next; behind the last there is the norm.
    if not are_layers(reads) or not all(0 <= layer < layers - 1 for layer in reads):
        raise BadInput(HEADS_KEY, f"{path}: {READS} must be a list of the target's layers, 0 to {layers - 2}")
    return Block(size, mask, tuple(reads), causal)
