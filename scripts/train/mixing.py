"""Where the first weights of mixing come from: what a hybrid learns on prompts of no benchmark.

    python -m scripts.train.mixing method.parts=[aded_backoff,medusa] [KEY=VALUE ...]

Takes the keys of `aded run`, but for `method`. The target answers prompts of the datastore's corpus that no head of
this project was trained on. The hybrid begins with plain weights, which take each part's probabilities as they
are, and learns as it always does. What was drafted beside others is then learned again and again, until the weights
no longer depend on where they began. Rows and columns are as in aded.drafters.mixing.Mixing.

Those of aded_backoff, on the embedded model with engine=compiled model.dtype=bfloat16:

    beside medusa, with +method.settings.medusa.budget=256 +method.settings.medusa.top_k=64, from 36645 tokens:
        [[0.80, 0, -1.40], [0, 0.74, -2.68], [0.52, 0.47, 1.32]]
    beside eagle2, from 11604 tokens:
        [[0.78, 0, -1.14], [0, 0.65, -2.59], [0.50, 0.54, 1.08]]

The base of aded_backoff is built from the same corpus, so here it may know more than elsewhere.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from aded.bench.run import build_drafter, checked_config, load_model
from aded.config.command_line import NoSettings, compose_config, plain, run_command
from aded.config.objects import instantiate
from aded.core.decode import decode
from aded.core.drafter import Drafter
from aded.core.sampler import Greedy
from aded.drafters.hybrid import Hybrid, HybridPart
from aded.drafters.mixing import EVIDENCE, Mixing, learn_mixing
from aded.errors import BadInput
from aded.shown import say
from datastore.corpora.corpus import Corpus
from scripts.train.answers import prompts

if TYPE_CHECKING:
    from omegaconf import DictConfig

READ_BY_HEADS = 1024
"""Prompts that scripts.train.medusa and scripts.train.eagle read by default."""
PROMPTS, PASSES = 24, 100
PLAIN = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.5, 0.5, 0.0))


class KeepingPart(HybridPart):
    """Keeps what its mixing learned from: probabilities of both sides, and what the target chose."""

    def __init__(self, drafter: Drafter) -> None:
        super().__init__(drafter)
        self.mixing = Mixing(np.array(PLAIN), np.full((3, 3), EVIDENCE))
        self.kept: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def learn(self, decided: np.ndarray, reachable: np.ndarray, chosen: np.ndarray) -> None:
        known = np.flatnonzero(self.both & reachable[: len(self.both)])
        self.kept.append((self.own[known], self.others[known], chosen[known]))
        super().learn(decided, reachable, chosen)

    def learn_again(self) -> tuple[np.ndarray, int]:
        """The weights, and how many tokens they are from."""
        own, others, chosen = (np.concatenate(arrays) for arrays in zip(*self.kept, strict=True))
        for _ in range(PASSES):
            self.mixing.evidence[:] = EVIDENCE
            learn_mixing(self.mixing, own, others, chosen)
        return self.mixing.weights, len(own)


def learn(cfg: DictConfig) -> None:
    config = checked_config(cfg)
    loaded = load_model(config)
    hybrid = build_drafter(config, loaded)
    if not isinstance(hybrid, Hybrid):
        raise BadInput(
            "method", "the weights are those of method=hybrid with method.cost=none; leave both as they are"
        )
    parts = {name: KeepingPart(part.drafter) for name, part in hybrid.parts.items()}
    hybrid.parts = {**parts}
    corpus = instantiate(plain(cfg.datastore.corpus), "datastore.corpus", Corpus)
    stream = prompts(corpus.documents(), loaded.tokenizer, longest=128, raw_share=0.2, seed=0)
    for prompt in itertools.islice(stream, READ_BY_HEADS, READ_BY_HEADS + PROMPTS):
        eos, ids = loaded.eos_token_ids, np.array(prompt, np.int64)
        decode(loaded.target, hybrid, ids, Greedy(), max_new_tokens=128, eos_token_ids=eos)
    for name, part in parts.items():
        weights, tokens = part.learn_again()
        if tokens:
            say(f"{name}, from {tokens} tokens that it or others drafted beside it:\n{weights.round(2)}")


def run(overrides: list[str], settings: NoSettings) -> None:
    learn(compose_config(["method=hybrid", "method.cost=none", "method.budget=16", *overrides]))


def main() -> None:
    run_command(run, NoSettings, __doc__ or "", hydra=True)


if __name__ == "__main__":
    main()
