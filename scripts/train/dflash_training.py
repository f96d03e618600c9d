"""How a head of DFlash learns (arXiv 2602.06036, section 4.2): blocks begin at random tokens of the target's answers.

All blocks of a text are read in one forward; each sees the context before it, and itself. The published heads learn
the answers' tokens. Here answers are few, so a head learns what the target held probable at each of them.
"""

from __future__ import annotations

import torch
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel

from baselines.heads.dflash import DFlashHead
from scripts.train.text import ReadText

FIRST_OUTPUTS = 0.2
"""An untaught head's outputs, as a part of the target's size."""


class BlockLesson:
    """What a head is taught.

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
