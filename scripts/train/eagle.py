"""A head of EAGLE-2 (arXiv 2406.16858) or EAGLE-3 (2503.01840) for a frozen target.

    python -m scripts.train.eagle kind=eagle2|eagle3 [model=NAME] [out=FOLDER] [prompts=N] [KEY=VALUE ...]

conf/train_eagle.yaml explains every key. First the target answers prompts of the datastore's corpus, greedily, and
those of a corpus of conversations, if `chat` names one. It reads them once more: a head learns to continue its
features. Embedding and output projection stay the target's, and the head uses the rows of the most frequent tokens.
It begins as the target's last layer. An interrupted run goes on after its last checkpoint; the head's file is written
at each checkpoint too.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import torch
from omegaconf import DictConfig
from transformers import PreTrainedModel
from transformers.models.llama.configuration_llama import LlamaConfig

from aded.config.objects import Kinds
from aded.errors import BadInput
from aded.settings import Count
from aded.targets.eager import EagerTarget
from aded.targets.loaded import Loaded
from baselines.heads.eagle_head import Eagle3Head, EagleHead, published_layers, save_head
from scripts.train.answers import most_frequent
from scripts.train.eagle_training import EagleLesson, begin_as_last_layer
from scripts.train.text import read_text
from scripts.train.training import SHAPE, TAUGHT, Pair, run_training, taught_and_unseen, train

KINDS: dict[str, type[EagleHead]] = {"eagle2": EagleHead, "eagle3": Eagle3Head}
EAGLE: Kinds = {**TAUGHT, "kind": Literal["eagle2", "eagle3"], "steps": Count}
"""The keys at the top of conf/train_eagle.yaml."""


def new_head(kind: str, model: PreTrainedModel, tokens: torch.Tensor, intermediate_size: int | None) -> EagleHead:
    """A head of the target's shape that begins as its last layer. tokens: int64 [m], which it knows, increasing."""
    target: Any = model.config.get_text_config(decoder=True)
    if target.model_type != "llama":
        raise BadInput("model", f"heads are trained for Llama's layers; this model is of type {target.model_type}")
    config = LlamaConfig(
        **{key: getattr(target, key) for key in SHAPE},
        num_hidden_layers=1,
        intermediate_size=intermediate_size or target.intermediate_size,
    )
    torch.manual_seed(0)
    width = config.hidden_size * (3 if kind == "eagle3" else 1)
    head = KINDS[kind](config, width, draft_vocabulary=len(tokens))
    head.d2t.copy_(tokens - torch.arange(len(tokens)))
    begin_as_last_layer(head, model)
    return head


def teach(cfg: DictConfig, loaded: Loaded, pairs: list[Pair], facts: dict[str, str]) -> None:
    """Train a head on prompts with their answers, and write it."""
    assert isinstance(loaded.target, EagerTarget)
    model = loaded.target.model
    steps = cfg.steps if cfg.kind == "eagle3" else 1
    pairs = [(prompt, answer) for prompt, answer in pairs if len(answer) > steps]
    taught, unseen = taught_and_unseen(pairs, cfg.validation_every)
    tokens = most_frequent(torch.tensor([token for _, answer in taught for token in answer]), cfg.vocabulary)
    reads = published_layers(loaded.target.config.num_hidden_layers) if cfg.kind == "eagle3" else ()
    head = new_head(cfg.kind, model, tokens, cfg.intermediate_size)
    projection = model.get_output_embeddings().weight[tokens].detach().float()
    lesson = EagleLesson(head, model.get_input_embeddings(), projection, steps)

    def write(folder: Path, metadata: dict[str, str]) -> None:
        save_head(head, folder, metadata, reads)

    train(lesson, cfg, taught, unseen, lambda pair: read_text(model, *pair, reads), write, facts)


def main() -> None:
    run_training("train_eagle", teach, __doc__ or "", EAGLE)


if __name__ == "__main__":
    main()
