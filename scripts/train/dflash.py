"""A head of DFlash (arXiv 2602.06036) for a frozen target.

    python -m scripts.train.dflash [model=NAME] [out=FOLDER] [prompts=N] [KEY=VALUE ...]

conf/train_dflash.yaml explains every key. The target answers prompts as for scripts.train.eagle, whose answers are
used too, and reads them once more: a head learns to say the tokens behind any of them, a block at a time. Embedding
and output projection stay the target's, and the head uses the rows of the most frequent tokens. It begins as the
target's last layers. An interrupted run goes on after its last checkpoint; the head's file is written at each
checkpoint too.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import torch
from omegaconf import DictConfig
from pydantic import Field
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel
from transformers.models.qwen3.configuration_qwen3 import Qwen3Config

from aded.config.objects import Kinds
from aded.errors import BadInput
from aded.settings import Count, Positive, Rate
from aded.targets.eager import EagerTarget
from aded.targets.engine import Loaded
from baselines.heads.dflash import Block, DFlashHead, published_layers, save_head
from scripts.train.answers import most_frequent
from scripts.train.training import SHAPE, TAUGHT, Pair, ReadText, read_text, run_training, taught_and_unseen, train

FIRST_OUTPUTS = 0.2
"""An untaught head's outputs, as a part of the target's size."""


class BlockLesson:
    """What a head is taught (arXiv 2602.06036, section 4.2): blocks begin at random tokens of the target's answers.

    All blocks of a text are read in one forward; each sees the context before it, and itself. The published heads
    learn the answers' tokens. Here answers are few, so a head learns what the target held probable at each of them.

    projection: float [m, hidden], the target's output projection for the tokens that the head knows.
    anchors: most blocks of a text, each below another token of the answer.
    decay: the loss of the k-th drafted token weighs exp(-(k - 1) / decay).
    """

    def __init__(
        self,
        head: DFlashHead,
        embedding: torch.nn.Module,
        projection: torch.Tensor,
        anchors: int,
        decay: float,
    ) -> None:
        self.head, self.embedding, self.projection, self.anchors = head, embedding, projection, anchors
        self.weights = torch.exp(-torch.arange(head.block.size - 1) / decay)

    def __call__(self, text: ReadText, generator: torch.Generator) -> tuple[torch.Tensor, list[float]]:
        """(loss, per drafted token how often the head's first choice is the target's); nan where a text has none."""
        read, start = len(text.ids), text.start
        roots = start + torch.randperm(read - start, generator=generator)[: self.anchors]
        places = roots[:, None] + torch.arange(self.head.block.size)
        logits = self._outputs(text, places)[:, 1:] @ self.projection.T
        # The target's state at a token says what the next one is. Behind the text's end it says nothing.
        deciding = places[:, 1:] - 1
        known = deciding < read
        with torch.no_grad():
            wanted = (text.last[start:].float() @ self.projection.T).softmax(-1)[deciding[known] - start]
        losses = cross_entropy(logits[known], wanted, reduction="none")
        weights = self.weights.expand(known.shape)[known]
        right = torch.full(known.shape, torch.nan)
        right[known] = (logits[known].argmax(-1) == wanted.argmax(-1)).float()
        return (losses * weights).sum() / weights.sum(), right.nanmean(0).tolist()

    def _outputs(self, text: ReadText, places: torch.Tensor) -> torch.Tensor:
        """[blocks, size, hidden]. places: int64 [blocks, size], positions of the blocks' tokens."""
        blocks, size = places.shape
        read = torch.arange(len(text.ids))
        tokens = torch.full((blocks, size), self.head.block.mask)
        tokens[:, 0] = text.ids[places[:, 0]]
        before = (read < places[:, :1]).repeat_interleave(size, 0)
        own = torch.eye(blocks, dtype=torch.bool).repeat_interleave(size, 0).repeat_interleave(size, 1)
        with torch.no_grad():
            embedded = self.embedding(tokens.flatten()).float()
        out: torch.Tensor = self.head(
            text.features[None].float(),
            embedded[None],
            torch.cat([read, places.flatten()])[None],
            torch.cat([before, own], 1)[None, None],
        )
        return out[0].unflatten(0, (blocks, size))


@torch.no_grad()
def begin_as_last_layers(head: DFlashHead, model: PreTrainedModel) -> None:
    """Start from the target's last layers as far as the sizes go, so that an hour on a processor is enough.

    The context begins as what enters the layer behind the last that is read. A feed-forward layer of another size
    begins without effect, and all outputs begin small, since a block of masks is nothing that the layers know.
    """
    decoder, hidden = model.get_decoder(), head.config.hidden_size
    last = decoder.layers[len(decoder.layers) - len(head.layers) :]
    for layer, source in zip(head.layers, last, strict=True):
        for name, value in layer.named_parameters():
            part, _, kind = name.rpartition(".")
            if part not in dict(source.named_modules()):
                continue  # only Qwen3 has norms of queries and keys
            given = getattr(source.get_submodule(part), kind)
            small = tuple(slice(min(a, b)) for a, b in zip(value.shape, given.shape, strict=True))
            value[small] = given[small].to(value.dtype)
            if value.shape != given.shape and part.endswith("down_proj"):
                value.zero_()
    head.fc.weight[:] = 0
    head.fc.weight[:, -hidden:] = torch.eye(hidden)
    head.hidden_norm.weight.copy_(decoder.layers[head.block.layers[-1] + 1].input_layernorm.weight)
    head.norm.weight.copy_(FIRST_OUTPUTS * decoder.norm.weight)


DFLASH: Kinds = {
    **TAUGHT,
    **dict.fromkeys(("layers", "anchors"), Count),
    "block_size": Annotated[int, Field(ge=2, le=1 << 16)],
    "target_layers": list[int] | None,
    "mask_token_id": Positive,
    "decay": Rate,
}
"""The keys at the top of conf/train_dflash.yaml."""
FAMILIES = ("llama", "mistral", "qwen2", "qwen3")
"""Their layers have the names and shapes of a head's."""


def new_block(cfg: DictConfig, model: PreTrainedModel) -> Block:
    """The block of a head for this model. Raises BadInput where the model lacks its layers or its mask."""
    target: Any = model.config.get_text_config(decoder=True)
    count = target.num_hidden_layers
    reads = tuple(cfg.target_layers or published_layers(count, cfg.layers))
    if not all(0 <= layer < count - 1 for layer in reads):
        raise BadInput("target_layers", f"must be some of the target's layers 0 to {count - 2}, not {list(reads)}")
    if cfg.mask_token_id >= target.vocab_size:
        raise BadInput("mask_token_id", f"must be one of the target's {target.vocab_size} tokens")
    return Block(cfg.block_size, cfg.mask_token_id, reads)


def new_head(
    model: PreTrainedModel, tokens: torch.Tensor, block: Block, layers: int, intermediate_size: int | None
) -> DFlashHead:
    """A head of the target's shape that begins as its last layers. tokens: int64 [m], which it knows, increasing."""
    target: Any = model.config.get_text_config(decoder=True)
    if target.model_type not in FAMILIES:
        raise BadInput(
            "model", f"heads are trained for {', '.join(FAMILIES)}; this model is of type {target.model_type}"
        )
    if layers > target.num_hidden_layers:
        raise BadInput("layers", f"must be {target.num_hidden_layers} or less, as many as the target has")
    config = Qwen3Config(
        **{key: getattr(target, key) for key in SHAPE},
        num_hidden_layers=layers,
        intermediate_size=intermediate_size or target.intermediate_size,
    )
    torch.manual_seed(0)
    head = DFlashHead(config, block, draft_vocabulary=len(tokens))
    head.d2t.copy_(tokens - torch.arange(len(tokens)))
    begin_as_last_layers(head, model)
    return head


def teach(cfg: DictConfig, loaded: Loaded, pairs: list[Pair], facts: dict[str, str]) -> None:
    """Train a head on prompts with their answers, and write it."""
    assert isinstance(loaded.target, EagerTarget)
    model = loaded.target.model
    pairs = [(prompt, answer) for prompt, answer in pairs if len(answer) >= cfg.block_size]
    taught, unseen = taught_and_unseen(pairs, cfg.validation_every)
    tokens = most_frequent(torch.tensor([token for _, answer in taught for token in answer]), cfg.vocabulary)
    head = new_head(model, tokens, new_block(cfg, model), cfg.layers, cfg.intermediate_size)
    projection = model.get_output_embeddings().weight[tokens].detach().float()
    lesson = BlockLesson(head, model.get_input_embeddings(), projection, cfg.anchors, cfg.decay)
    count, reads = loaded.target.config.num_hidden_layers, [layer + 1 for layer in head.block.layers]

    def write(folder: Path, metadata: dict[str, str]) -> None:
        save_head(head, folder, metadata, count)

    train(lesson, cfg, taught, unseen, lambda pair: read_text(model, *pair, reads), write, facts)


def main() -> None:
    run_training("train_dflash", teach, __doc__ or "", DFLASH)


if __name__ == "__main__":
    main()
