"""Whether rejection accepts what it must: drafted tokens of a chain, against sum(min(p, q)) of a model's own logits.

    python -m scripts.results.check_rejection method=draft_model method.model=qwen2.5-coder-0.5b \\
        model=qwen2.5-coder-1.5b [benchmark.limit=N] [decoding.temperature=T]

Takes the keys of `aded run`; the method must draw its drafts from a distribution (draft_model, layer_skip), a chain.
A drafted token is accepted with probability sum(min(p, q)), where p is the target's distribution there and q the
drafter's (arXiv 2211.17192, corollary 3.6). So the accepted tokens and the sum over all tokens that were tried agree,
up to chance: the standard deviation is given beside.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field

import numpy as np
import torch
from omegaconf import DictConfig
from tqdm import tqdm

from aded.bench.run import build_drafter, checked_config, load_model
from aded.config.command_line import NoSettings, compose_config, run_command
from aded.core.decode import decode
from aded.core.sampler import Rejection
from aded.core.tree import DraftTree
from aded.errors import BadInput
from aded.shown import say


@dataclass
class Tally:
    """Of drafted tokens that were tried: each after all before it were accepted."""

    accepted: int = 0
    chances: list[float] = field(default_factory=list)
    steps: int = 0

    def __str__(self) -> str:
        chances = np.array(self.chances)
        expected, deviation = chances.sum(), np.sqrt((chances * (1.0 - chances)).sum())
        return (
            f"{self.accepted} of {len(chances)} drafted tokens accepted; sum(min(p, q)) = {expected:.1f} "
            f"(standard deviation {deviation:.1f}), ratio {self.accepted / expected:.4f}\n"
            f"tokens per step: {1 + self.accepted / self.steps:.3f}, by the sum {1 + expected / self.steps:.3f}"
        )


@dataclass(frozen=True)
class Tallied(Rejection):
    """Rejection, which notes what it tried."""

    tally: Tally = field(default_factory=Tally)

    def walk(self, tree: DraftTree, logits: torch.Tensor | None, position: int) -> tuple[list[int], int]:
        path, bonus = super().walk(tree, logits, position)
        assert logits is not None
        self.tally.steps += 1
        self.tally.accepted += len(path) - 1
        for node in path:
            q = (tree.drawn or {}).get(node)
            if q is not None and node in tree.parents:
                p = self.distribution(logits[node]).cpu().numpy()
                self.tally.chances.append(float(np.minimum(p[: len(q)], q).sum()))
        return path, bonus


def tally_of(cfg: DictConfig) -> Tally:
    """Of all questions. Raises BadInput."""
    config = checked_config(cfg)
    loaded = load_model(config)
    drafter, prompts, tally = build_drafter(config, loaded), config.prompts(loaded.tokenizer), Tally()
    for number, prompt in enumerate(tqdm(prompts.values(), cfg.method.name, disable=not sys.stderr.isatty())):
        sampler = Tallied(cfg.decoding.temperature, cfg.decoding.top_p, cfg.decoding.seed + number, tally=tally)
        decode(
            loaded.target,
            drafter,
            prompt,
            sampler,
            max_new_tokens=cfg.benchmark.max_new_tokens,
            eos_token_ids=loaded.eos_token_ids,
            seed=cfg.decoding.seed + len(prompts) + number,  # draws are independent of what accepts them
        )
    if not tally.chances:
        raise BadInput(
            "method", f"{cfg.method.name} drew no drafts; name one that has a distribution, as draft_model"
        )
    return tally


def run(overrides: list[str], settings: NoSettings) -> None:
    chain = ["decoding=rejection", "method.branches=[1]", "method.beam=1", "method.least_probability=0"]
    say(tally_of(compose_config([*chain, "method.cost=none", "benchmark.max_new_tokens=64", *overrides])))


def main() -> None:
    run_command(run, NoSettings, __doc__ or "", hydra=True)


if __name__ == "__main__":
    main()
