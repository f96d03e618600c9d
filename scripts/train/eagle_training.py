"""How a head of EAGLE learns: from the target's features at each token of its own answers."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch.nn.functional import cross_entropy, smooth_l1_loss
from transformers import DynamicCache, PreTrainedModel

from baselines.heads.eagle_head import Eagle3Head, EagleHead
from scripts.train.text import ReadText

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
    """What a head is taught.

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
