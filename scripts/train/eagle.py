"""A head of EAGLE-2 (arXiv 2406.16858) or EAGLE-3 (2503.01840) for a frozen target.

    python -m scripts.train.eagle kind=eagle2|eagle3 [model=NAME] [out=FOLDER] [prompts=N] [KEY=VALUE ...]

conf/train_eagle.yaml explains every key. First the target answers prompts of the datastore's corpus, greedily, and
those of a corpus of conversations, if `chat` names one. It reads them once more: a head learns to continue its
features. Embedding and output projection stay the target's, and the head uses the rows of the most frequent tokens.
It begins as the target's last layer. An interrupted run goes on after its last checkpoint; the head's file is written
at each checkpoint too.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import torch
from omegaconf import DictConfig
from torch.nn.functional import cross_entropy, smooth_l1_loss
from transformers import DynamicCache, PreTrainedModel
from transformers.models.llama.configuration_llama import LlamaConfig

from aded.config.objects import Kinds
from aded.errors import BadInput
from aded.settings import Count
from aded.targets.eager import EagerTarget
from aded.targets.engine import Loaded
from baselines.heads.eagle_head import Eagle3Head, EagleHead, published_layers, save_head
from scripts.train.answers import most_frequent
from scripts.train.training import SHAPE, TAUGHT, Pair, ReadText, read_text, run_training, taught_and_unseen, train

NOISE = 0.2
"""EAGLE's features are learned with uniform noise of this width (times 512 tokens / length), since at drafting they
are the head's own; EAGLE-3 reads its own output while it learns."""
DECAY = 0.8
"""The loss of each further drafted token weighs so much less."""


def drafted_rows(rows: int, steps: int) -> Iterator[torch.Tensor]:
    """bool [rows, k * rows] for the k-th step: which rows each sees.

    Row i of the k-th step has read i tokens of the text with the target's features, then k - 1 drafted ones.
    """
    own = torch.eye(rows, dtype=torch.bool)
    seen = torch.ones(rows, rows, dtype=torch.bool).tril()
    for _ in range(steps):
        yield seen
        seen = torch.cat([seen, own], dim=1)


class EagleLesson:
    """What a head is taught, from the target's features at each token of its own answers.

    projection: float [m, hidden], the target's output projection for the tokens that the head knows.
    steps: tokens in a row that the head drafts while it learns; 1: the target's features are all it reads.
    """

    def __init__(self, head: EagleHead, embedding: torch.nn.Module, projection: torch.Tensor, steps: int) -> None:
        self.head, self.embedding, self.projection, self.steps = head, embedding, projection, steps

    def __call__(self, text: ReadText, generator: torch.Generator) -> tuple[torch.Tensor, list[float]]:
        """(loss, per step how often the head's first choice is the target's), over the answer."""
        head, rows = self.head, len(text.ids) - 1
        with torch.no_grad():
            wanted = (text.last[text.start :].float() @ self.projection.T).softmax(-1)
            embedded = self.embedding(text.ids).float()
        taken = text.features[:rows].float()
        if not isinstance(head, Eagle3Head):
            width = NOISE * 512 / rows
            taken = taken + (torch.rand(taken.shape, generator=generator) - 0.5) * width
        features, cache = head.features(taken), DynamicCache()
        loss, right = torch.zeros(()), []
        for step, seen in enumerate(drafted_rows(rows, self.steps)):
            # Row i has token i + 1 + step; rows near the text's end have none, and nothing is learned there.
            ids = torch.arange(1 + step, 1 + step + rows).clamp(max=rows)
            positions = torch.arange(step, step + rows)[None]
            output = head(embedded[ids][None], features[None], positions, seen[None, None], cache)[0]
            taught = slice(text.start - 1, rows - step)
            # Row i predicts what the target says at token i + 1 + step.
            truth = wanted[step:]
            logits = head.before_projection(output[taught]) @ self.projection.T
            part = cross_entropy(logits, truth)
            if not isinstance(head, Eagle3Head):
                part = 0.1 * part + smooth_l1_loss(output[taught], text.last[1 + step :][taught].float())
            loss = loss + DECAY**step * part
            right.append(float((logits.argmax(-1) == truth.argmax(-1)).float().mean()))
            features = output
        return loss, right


@torch.no_grad()
def begin_as_last_layer(head: EagleHead, model: PreTrainedModel) -> None:
    """Start from the target's last layer as far as the sizes go, so that an hour on a processor is enough.

    The features pass through to the layer, and what EAGLE-3 normalises at its end begins as the target does.
    """
    decoder = model.get_decoder()
    hidden = head.config.hidden_size
    layer = head.midlayer if isinstance(head, Eagle3Head) else head.layers[0]
    source = decoder.layers[-1].state_dict()
    for name, value in layer.state_dict().items():
        # EAGLE-3 reads embeddings through input_layernorm, and features through hidden_norm.
        given = source.get(name.replace("input_layernorm", "").replace("hidden_norm", "input_layernorm"))
        if given is not None:
            part = value[..., -given.shape[-1] :] if "attn" in name else value  # the features' half
            small = tuple(slice(min(a, b)) for a, b in zip(part.shape, given.shape, strict=True))
            part[small] = given[small].to(value.dtype)
    head.fc.weight[:, -hidden:] = torch.eye(hidden)
    if isinstance(head, Eagle3Head):
        head.fc.weight[:, :-hidden] = 0
        head.norm.weight.copy_(decoder.norm.weight)


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
