"""The peers' time per step for scripts.bench.drafting: `draft` and `observe`, on the same stream as ADED's.

No model runs. Drafters that read logits get noise in which the most frequent followers of each node's token, in the
stream, are most probable. Drafters that read hidden states get noise: their time does not depend on the values.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import numpy as np
import torch

from aded.core.drafter import Drafter, Step
from aded.core.tree import DraftTree
from aded.files.datastores.suffix_file import SuffixFile
from baselines.heads.medusa import Medusa
from baselines.heads.medusa_heads import OURS, MedusaHeads, save_heads
from baselines.logits.logitspec import LogitSpec
from baselines.logits.lookahead import Lookahead
from baselines.logits.racer import Racer
from baselines.logits.token_recycling import CANDIDATES, TokenRecycling
from baselines.tokens.prompt_lookup import PromptLookup
from baselines.tokens.rest import Rest
from datastore.ngrams import count_ngrams
from datastore.suffix_array import sorted_suffixes

NODES, HIDDEN, KNOWN_TOKENS = 256, 576, 4096

Timer = Callable[[list[np.ndarray]], list[tuple[float, int]]]
"""Contexts -> (seconds, drafted nodes) of each."""


class Noise:
    """Noise in place of a target's output, for trees of up to NODES nodes."""

    def __init__(self, stream: np.ndarray, vocabulary: int) -> None:
        generator = torch.Generator().manual_seed(0)
        self.vocabulary = vocabulary
        self.pairs = count_ngrams([stream], 2, vocabulary)
        self.logits = torch.randn(NODES, vocabulary, generator=generator)
        self.hidden = torch.randn(NODES, HIDDEN, generator=generator)
        self.output_projection = torch.nn.Linear(HIDDEN, vocabulary, bias=False)

    def followers(self, token: int) -> np.ndarray:
        """The tokens that most often follow a token, up to eight, the most frequent first."""
        return self.pairs.successors(token)[0][:CANDIDATES].astype(np.int64)

    def observed(self, drafter: Drafter, tree: DraftTree, token: int) -> float:
        """Seconds that the drafter needs to observe a step over the tree, of which the root alone is accepted."""
        n = len(tree)
        places = [(node, self.followers(int(tree.tokens[node]))) for node in range(n)]
        before = [self.logits[node, found].clone() for node, found in places]
        for node, found in places:
            self.logits[node, found] = torch.arange(20.0, 20.0 - len(found), -1)
        step = Step(tree, [0], token, self.logits[:n], self.hidden[:n])
        start = perf_counter()
        drafter.observe(step)
        seconds = perf_counter() - start
        for (node, found), values in zip(places, before, strict=True):
            self.logits[node, found] = values
        return seconds


def peer_timer(drafter: Drafter, noise: Noise, warm_up: list[np.ndarray]) -> Timer:
    def time_steps(contexts: list[np.ndarray]) -> list[tuple[float, int]]:
        times = []
        for context in contexts:
            start = perf_counter()
            tree = drafter.draft(context)
            seconds = perf_counter() - start
            if drafter.requires:
                seconds += noise.observed(drafter, tree, int(context[-1]))
            times.append((seconds, tree.drafted))
        return times

    drafter.begin(warm_up[0])
    if drafter.requires:
        noise.observed(drafter, DraftTree.root(int(warm_up[0][-1])), int(warm_up[0][-1]))
    time_steps(warm_up)
    return time_steps


def peer_timers(stream: np.ndarray, noise: Noise, warm_up: list[np.ndarray]) -> dict[str, Timer]:
    """A timer for each peer, with its published settings; Medusa's heads are of SmolLM2's size."""
    tokens = stream.astype(np.int32)
    suffixes = SuffixFile(Path("synthetic"), {"vocabulary": str(noise.vocabulary)}, tokens, sorted_suffixes(tokens))
    heads = MedusaHeads(4, 1, HIDDEN, tokens=torch.arange(KNOWN_TOKENS))
    with tempfile.TemporaryDirectory() as folder:
        save_heads(heads, Path(folder) / OURS, {})
        medusa = Medusa(folder)
        medusa.setup(noise)  # type: ignore[arg-type]
    drafters = {
        "prompt_lookup": PromptLookup(),
        "rest": Rest(suffixes),
        "token_recycling": TokenRecycling(),
        "lookahead": Lookahead(),
        "logitspec": LogitSpec(),
        "racer": Racer(),
        "medusa": medusa,
    }
    return {name: peer_timer(drafter, noise, warm_up) for name, drafter in drafters.items()}
