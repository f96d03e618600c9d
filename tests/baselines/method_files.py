"""The files that methods read, made for a tiny model: datastores of its answers, heads, a draft model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lookup_files import random_network, write_lookup
from shipped_modules import save_with_modules
from small_ngrams import write_small_ngrams, write_small_suffixes
from tiny import VOCABULARY, save_model, tiny_model, tiny_tokenizer

from aded.identity import tokenizer_fingerprint
from baselines.heads.dflash import Block
from baselines.heads.dflash import save_head as save_dflash
from baselines.heads.eagle_head import save_head
from baselines.heads.hydra import PUBLISHED, HydraHeads
from baselines.heads.medusa import MedusaHeads, save_heads
from scripts.train import dflash
from scripts.train.eagle import new_head


def make_files(folder: Path, model: Any, answers: Sequence[np.ndarray], layers: tuple[int, ...]) -> Path:
    """Write them all to `folder`, and return it. layers: what EAGLE-3's head reads beside the last one."""
    write_small_ngrams(folder / "tiny.ngrams", answers, VOCABULARY, tokenizer=tiny_tokenizer())
    write_small_suffixes(folder / "tiny.suffixes", answers, VOCABULARY, tiny_tokenizer())
    network = random_network(VOCABULARY)
    network.bias.data.fill_(-8.0)  # it proposes a token now and then; after unknown ones a drafter has nothing to say
    write_lookup(folder / "tiny.lookup", network, tokenizer=tokenizer_fingerprint(tiny_tokenizer()))
    hidden = model.config.hidden_size
    save_heads(MedusaHeads(3, 1, hidden), folder / "heads.safetensors", {})
    torch.save(HydraHeads(3, 1, hidden, VOCABULARY, None).state_dict(), folder / PUBLISHED)
    for kind, reads in {"eagle2": (), "eagle3": (*layers, 1)}.items():
        save_head(new_head(kind, model, torch.arange(VOCABULARY), None), folder / kind, {}, reads)
    block = dflash.new_head(model, torch.arange(VOCABULARY), Block(4, VOCABULARY - 1, layers[:1]), 1, None)
    save_dflash(block, folder / "dflash", {}, model.config.num_hidden_layers)
    save_model(folder / "draft", tiny_model(num_hidden_layers=1))
    # What `mtp` reads stands beside the target's weights. No Llama is published with it, so its names are set here.
    save_with_modules(tiny_model(num_hidden_layers=3), 1, folder / "modules")
    model.config.name_or_path, model.config.num_mtp_layers = str(folder / "modules"), 1
    model._keys_to_ignore_on_load_unexpected = [r"model\.layers\.2\."]
    return folder
