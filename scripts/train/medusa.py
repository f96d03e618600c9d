"""Medusa heads for a frozen target (Medusa-1, arXiv 2401.10774, section 2.2.1).

    python -m scripts.train.medusa [model=NAME] [out=FOLDER] [prompts=N] [KEY=VALUE ...]

conf/train_medusa.yaml explains every key. First the target answers prompts of the datastore's corpus, greedily, and
those of a corpus of conversations, if `chat` names one. Then head k learns, from the hidden state that decided a
token of such an answer, the token k places further. The answers are kept in the cache, and an interrupted run goes on
after the last whole batch. The target's output projection stays as it is, and all heads share it. The loss runs over
the `vocabulary` most frequent tokens of the answers, which are nearly all that occur.
"""

from __future__ import annotations

import logging
import math
import sys
from pathlib import Path

import torch
from omegaconf import DictConfig
from tqdm import tqdm

from aded.config.command_line import run_config
from aded.config.objects import Kinds
from aded.core.sampler import accepted_path
from aded.core.tree import DraftTree
from aded.errors import BadInput
from aded.files.atomic import check_ours, check_outputs
from aded.kernels import threads
from aded.settings import Count
from aded.shown import say
from aded.targets.eager import EagerTarget
from baselines.growth import most_probable_paths
from baselines.heads.medusa import OURS, MedusaHeads, save_heads
from scripts.train.answers import HEADS, IGNORED, answered, inputs, most_frequent, read_answers, target_of

MEDUSA: Kinds = {**HEADS, **dict.fromkeys(("heads", "blocks"), Count)}
"""The keys at the top of conf/train_medusa.yaml."""
log = logging.getLogger(__name__)


def examples(shards: list[Path], heads: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(states float16 [n, hidden], targets int64 [n, heads], numbers int64 [n]) of all answers.

    The state that decided token i is paired with tokens i + 1 .. i + heads; IGNORED after the answer's end.
    numbers: of the answer, so that whole answers can be set aside for validation.
    """
    states, targets, numbers = [], [], []
    for number, (ids, hidden) in enumerate(read_answers(shards)):
        padded = torch.nn.functional.pad(ids, (0, heads), value=IGNORED)
        states.append(hidden)
        targets.append(padded.unfold(0, heads, 1)[1 : len(ids) + 1])
        numbers.append(torch.full((len(ids),), number))
    if not states:
        raise BadInput("prompts", "there are no answers to train on; ask 1 or more")
    return torch.cat(states), torch.cat(targets), torch.cat(numbers)


def renumbered(targets: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
    """Targets as indices into `kept`; IGNORED where it lacks them."""
    at = torch.searchsorted(kept, targets).clamp(max=len(kept) - 1)
    return torch.where(kept[at] == targets, at, IGNORED)


def train(
    heads: MedusaHeads,
    states: torch.Tensor,
    targets: torch.Tensor,
    projection: torch.Tensor,
    *,
    epochs: int,
    batch_size: int,
    learning_rate: float,
    decay: float = 0.8,
) -> None:
    """AdamW with a cosine schedule, as published.

    states: float [n, hidden].
    targets: int64 [n, heads], rows of the projection.
    projection: float [vocabulary, hidden].
    decay: head k's loss has the weight decay ** k.
    """
    optimizer = torch.optim.AdamW(heads.parameters(), lr=learning_rate)
    steps = epochs * math.ceil(len(states) / batch_size)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, learning_rate, steps, pct_start=0.05)
    weight = torch.tensor([decay**k for k in range(len(heads))])
    generator = torch.Generator().manual_seed(0)
    with tqdm(total=steps, desc="training", disable=not sys.stderr.isatty()) as bar:
        for _ in range(epochs):
            for rows in torch.randperm(len(states), generator=generator).split(batch_size):
                guessed = heads(states[rows].float()) @ projection.T
                losses = torch.stack(
                    [
                        torch.nn.functional.cross_entropy(guess, target, ignore_index=IGNORED)
                        for guess, target in zip(guessed, targets[rows].T, strict=True)
                    ]
                )
                optimizer.zero_grad()
                (losses.nan_to_num() * weight).sum().backward()
                optimizer.step()
                schedule.step()
                bar.update()
                bar.set_postfix_str(" ".join(f"{loss:.2f}" for loss in losses.tolist()))


@torch.no_grad()
def accepted(
    heads: MedusaHeads, states: torch.Tensor, targets: torch.Tensor, projection: torch.Tensor, budget: int = 63
) -> float:
    """Mean accepted tokens if the heads drafted these answers, with `budget` nodes per step."""
    steps = at = 0
    while at < len(states):
        best = (heads(states[at].float()) @ projection.T).softmax(dim=-1).topk(10)
        tree = DraftTree(*most_probable_paths(best.indices.numpy(), best.values.numpy(), 0, budget))
        answer = [*targets[at].tolist(), IGNORED]
        path, _ = accepted_path(tree, lambda node: answer[tree.depths[node]])  # noqa: B023 - called at once
        at += len(path)
        steps += 1
    return len(states) / steps


def run(cfg: DictConfig) -> None:
    """Answers, training, the heads' file; prints what they are worth on the answers set aside for validation."""
    out = Path(cfg.out).expanduser() / OURS
    check_outputs([("out", out)], inputs(cfg).items())
    check_ours([out], "out")
    loaded = target_of(cfg)
    threads.for_torch(cfg.threads)
    shards, facts = answered(cfg, loaded)

    assert isinstance(loaded.target, EagerTarget)
    weight = loaded.target.model.lm_head.weight.detach().float()
    heads = MedusaHeads(cfg.heads, cfg.blocks, weight.shape[1])
    states, tokens, numbers = examples(shards, cfg.heads)
    validation = numbers % cfg.validation_every == cfg.validation_every - 1
    if validation.all():
        raise BadInput("validation_every", "leaves no answer to train on; raise it, or ask more prompts")
    kept = most_frequent(tokens[~validation], cfg.vocabulary)
    targets = renumbered(tokens, kept)
    log.info("%d states of %d answers, %d distinct tokens", len(states), int(numbers[-1]) + 1, len(kept))
    heads.tokens, projection = kept, weight[kept]
    train(
        heads,
        states[~validation],
        targets[~validation],
        projection,
        epochs=cfg.epochs,
        batch_size=cfg.batch_size,
        learning_rate=cfg.learning_rate,
    )
    if validation.any():
        rate = accepted(heads, states[validation], targets[validation], projection)
        say(f"mean accepted tokens on validation answers: {rate:.2f}")
    save_heads(heads, out, {**facts, "states": str(len(states))})
    say(f"heads: {out}")


def main() -> None:
    interrupted = "interrupted; whole batches of answers are kept: start the same command again"
    run_config("train_medusa", run, __doc__ or "", interrupted, MEDUSA)


if __name__ == "__main__":
    main()
