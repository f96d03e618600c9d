"""A small transformer that learns the next token from a corpus, as one more expert of aded_backoff.

    python -m scripts.train.transformer suffixes=FILE [out=FILE] [KEY=VALUE ...]

conf/train_transformer.yaml explains every key. It reads random pieces of the corpus; the last hundredth of the corpus
is set aside, and what the transformer makes of it is printed at the end. With the default settings it takes about
twenty minutes on one core.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from os.path import expanduser
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import torch
from omegaconf import DictConfig
from pydantic import Field
from safetensors.torch import save
from torch.nn.functional import cross_entropy, relu, rms_norm, scaled_dot_product_attention
from tqdm import tqdm

from aded.command_line import PATHS, run_config
from aded.config import Kinds
from aded.drafters.backoff.transformer.reader import BASE
from aded.drafters.backoff.transformer.weights import HEAD
from aded.errors import BadInput
from aded.files.atomic import check_outputs, whole_file
from aded.files.datastores.suffix_file import SuffixFile, open_suffixes
from aded.kernels import threads
from aded.settings import Count, FilePath, Positive, Rate, Seed

TRANSFORMER: Kinds = {
    **dict.fromkeys(("suffixes", "out"), FilePath),
    "paths": PATHS,
    "threads": Count | None,
    "dtype": Literal["float32", "bfloat16"],
    "outputs": Annotated[int, Field(ge=2)],
    **dict.fromkeys(("width", "layers", "batch_size", "length", "steps"), Positive),
    "learning_rate": Rate,
    "seed": Seed,
}
"""The keys at the top of conf/train_transformer.yaml."""
HOW = ("steps", "batch_size", "length", "learning_rate", "dtype", "seed")
"""Settings that the file keeps."""
IGNORED = -100


class Stream:
    """The corpus in the transformer's own numbers.

    tokens: int64 [outputs - 1], the most frequent ones, ascending
    inputs, targets: int64 [n]; len(tokens): any other token; a target that separates documents is IGNORED
    """

    def __init__(self, corpus: SuffixFile, outputs: int) -> None:
        corpus.verify()
        stream = np.asarray(corpus.tokens).astype(np.int64)
        times = np.bincount(stream, minlength=corpus.vocabulary + 1)[: corpus.vocabulary]
        self.tokens = np.sort(np.argsort(-times, kind="stable")[: outputs - 1])
        places = np.full(corpus.vocabulary + 1, len(self.tokens))
        places[self.tokens] = np.arange(len(self.tokens))
        self.inputs = torch.from_numpy(places[stream])
        self.targets = self.inputs.where(torch.from_numpy(stream != corpus.separator), IGNORED)

    def pieces(self, first: torch.Tensor, length: int) -> tuple[torch.Tensor, torch.Tensor]:
        """(inputs, the token after each), int64 [k, length], of the pieces that begin at first, int64 [k]."""
        places = first[:, None] + torch.arange(length)
        return self.inputs[places], self.targets[places + 1]


def first_weights(outputs: int, width: int, layers: int) -> dict[str, torch.nn.Parameter]:
    """See Weights. What ends a block and the output begin at zero, so at first each layer passes on what it reads."""

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(*shape) * shape[-2] ** -0.5

    weights = {
        "embedding": torch.randn(outputs, width) * 0.3,
        "qkv": random(layers, width, 3 * width),
        "out": torch.zeros(layers, width, width),
        "up": random(layers, width, 4 * width),
        "down": torch.zeros(layers, 4 * width, width),
        "output": torch.zeros(width, outputs),
    }
    return {name: torch.nn.Parameter(weight) for name, weight in weights.items()}


def norm(x: torch.Tensor) -> torch.Tensor:
    return rms_norm(x, x.shape[-1:], eps=1e-6)


def rotated(x: torch.Tensor) -> torch.Tensor:
    """x: float [..., length, HEAD]"""
    angles = torch.outer(torch.arange(x.shape[-2]), BASE ** (-torch.arange(0, HEAD, 2) / HEAD))
    a, b = x.chunk(2, -1)
    return torch.cat([a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()], -1)


def logits(weights: Mapping[str, torch.Tensor], ids: torch.Tensor) -> torch.Tensor:
    """float [k, length, outputs] of int64 [k, length]; the formula is in aded/drafters/backoff/transformer."""
    x = norm(weights["embedding"][ids])
    for qkv, out, up, down in zip(*(weights[name] for name in ("qkv", "out", "up", "down")), strict=True):
        q, k, v = (norm(x) @ qkv).unflatten(-1, (3, -1, HEAD)).permute(2, 0, 3, 1, 4)
        heads = scaled_dot_product_attention(rotated(norm(q)), rotated(norm(k)), v, is_causal=True, scale=1.0)
        x = x + heads.transpose(1, 2).flatten(2) @ out
        x = x + relu(norm(x) @ up).square() @ down
    return norm(x) @ weights["output"]


def loss(weights: Mapping[str, torch.Tensor], pieces: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """Mean -log p of the next token."""
    inputs, targets = pieces
    return cross_entropy(logits(weights, inputs).float().flatten(0, 1), targets.flatten(), ignore_index=IGNORED)


def train(weights: Mapping[str, torch.nn.Parameter], batches: Iterator[tuple[torch.Tensor, torch.Tensor]],
          steps: int, rate: float) -> None:  # fmt: skip
    """AdamW, `steps` batches."""
    at_the_ends = [weights["embedding"], weights["output"]]
    between = [weights[name] for name in ("qkv", "out", "up", "down")]
    groups = [{"params": between, "lr": rate}, {"params": at_the_ends, "lr": 2 * rate}]
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.97), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / 50, 1.0, (steps - step) / (steps * 2 / 3))
    )
    with tqdm(total=steps, desc="training", disable=not sys.stderr.isatty()) as bar:
        for _, batch in zip(range(steps), batches, strict=False):
            now = loss(weights, batch)
            optimizer.zero_grad()
            now.backward()
            torch.nn.utils.clip_grad_norm_(weights.values(), 1.0)
            optimizer.step()
            schedule.step()
            bar.update()
            bar.set_postfix_str(f"{now.item():.2f}")


@torch.no_grad()
def unseen_loss(weights: Mapping[str, torch.Tensor], stream: Stream, first: int, length: int) -> float:
    """Mean loss of up to 1,000 pieces from `first` on."""
    starts = torch.arange(first, len(stream.inputs) - length, length)[:1000]
    losses = [loss(weights, stream.pieces(some, length)) for some in starts.split(10)]
    return float(torch.stack(losses).mean())


def run(cfg: DictConfig) -> None:
    """The stream, training, the file; prints the loss on what was set aside."""
    if cfg.width % HEAD:
        raise BadInput("width", f"{cfg.width} must be a multiple of {HEAD}")
    out = Path(expanduser(cfg.out))
    check_outputs([("out", out)], [("suffixes", cfg.suffixes)])
    try:
        corpus = open_suffixes(expanduser(cfg.suffixes))
    except BadInput as error:
        raise BadInput("suffixes", error.problem) from None
    stream, length = Stream(corpus, cfg.outputs), cfg.length
    aside = max(len(stream.inputs) // 100, 2 * length)
    end = len(stream.inputs) - aside - length - 1
    if end < 1:
        raise BadInput("suffixes", f"{cfg.suffixes} has only {len(stream.inputs)} tokens; length={length} needs more")
    threads.use_torch(cfg.threads)
    generator = torch.Generator().manual_seed(cfg.seed)
    torch.manual_seed(cfg.seed)
    weights = first_weights(len(stream.tokens) + 1, cfg.width, cfg.layers)

    def batches() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        while True:
            yield stream.pieces(torch.randint(end, (cfg.batch_size,), generator=generator), length)

    # Without a cache: it would keep the first step's weights in bfloat16 for all steps.
    with torch.autocast("cpu", torch.bfloat16, enabled=cfg.dtype == "bfloat16", cache_enabled=False):
        train(weights, batches(), cfg.steps, cfg.learning_rate)
    print(f"on unseen text: {unseen_loss(weights, stream, end + length, length):.3f} nats a token")
    facts = {
        "tokenizer": corpus.header["tokenizer"],
        "learned_from": f"{corpus.path.name} ({corpus.header['fingerprint']})",
        "how": json.dumps({key: cfg[key] for key in HOW}),
    }
    tensors = {name: weight.detach().half().contiguous() for name, weight in weights.items()}
    with whole_file(out) as file:
        file.write(save(tensors | {"tokens": torch.from_numpy(stream.tokens).int()}, metadata=facts))
    print(f"transformer: {out}")


def main() -> None:
    run_config("train_transformer", run, "interrupted; nothing was written", TRANSFORMER)


if __name__ == "__main__":
    main()
