"""The drafters' time per step for scripts.bench.drafting: `draft` and `observe`, on one stream of tokens.

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
from aded.drafters.backoff.drafter import BackoffDrafter
from aded.drafters.trigram.best_first import BestFirst
from aded.drafters.trigram.drafter import AdedDrafter
from aded.drafters.trigram.mcts import Mcts
from aded.files.datastores.suffix_file import SuffixFile
from aded.methods import method_config
from baselines.heads.medusa import OURS, Medusa, MedusaHeads, save_heads
from baselines.logits.logitspec import LogitSpec
from baselines.logits.lookahead import Lookahead
from baselines.logits.racer import Racer
from baselines.logits.token_recycling import RANKS, TokenRecycling
from baselines.tokens.prompt_lookup import PromptLookup
from baselines.tokens.rest import Rest
from datastore.builder import sorted_suffixes
from datastore.ngrams import count_ngrams

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
        return self.pairs.successors(token)[0][:RANKS].astype(np.int64)

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


def timer(drafter: Drafter, noise: Noise, warm_up: list[np.ndarray], advance: int) -> Timer:
    """A timer of one drafter.

    advance: tokens from one window of the stream to the next. `aded_backoff` learns from the tokens decided since the
    last step. So its context is not a window, but all tokens that the windows have passed over.
    """
    passed = warm_up[0]

    def time_steps(contexts: list[np.ndarray]) -> list[tuple[float, int]]:
        nonlocal passed
        times = []
        for context in contexts:
            if isinstance(drafter, BackoffDrafter):
                context = passed = np.concatenate([passed, context[-advance:]])
            start = perf_counter()
            tree = drafter.draft(context)
            seconds = perf_counter() - start
            seconds += noise.observed(drafter, tree, int(context[-1]))
            times.append((seconds, tree.drafted))
        return times

    drafter.begin(passed)
    noise.observed(drafter, DraftTree.root(int(passed[-1])), int(passed[-1]))
    time_steps(warm_up[1:])
    return time_steps


def drafters_of(stream: np.ndarray, noise: Noise, budget: int) -> dict[str, Drafter]:
    """ADED and its extension with a budget, each peer as published; Medusa's heads are of SmolLM2's size."""
    vocabulary, tokens = noise.vocabulary, stream.astype(np.int32)
    trigrams, fivegrams = (count_ngrams([stream], order, vocabulary) for order in (3, 5))
    backoff = BackoffDrafter(fivegrams, budget=budget, contexts=method_config("aded_backoff", {})["contexts"])
    backoff.requires = frozenset({"logits"})
    suffixes = SuffixFile(Path("synthetic"), {"vocabulary": str(vocabulary)}, tokens, sorted_suffixes(tokens))
    heads = MedusaHeads(4, 1, HIDDEN, tokens=torch.arange(KNOWN_TOKENS))
    with tempfile.TemporaryDirectory() as folder:
        save_heads(heads, Path(folder) / OURS, {})
        medusa = Medusa(folder)
        medusa.setup(noise)  # type: ignore[arg-type]
    return {
        "aded": AdedDrafter(trigrams, Mcts(), budget=budget),
        "best_first": AdedDrafter(trigrams, BestFirst(), budget=budget),
        "aded_backoff": backoff,
        "prompt_lookup": PromptLookup(),
        "rest": Rest(suffixes),
        "token_recycling": TokenRecycling(),
        "lookahead": Lookahead(),
        "logitspec": LogitSpec(),
        "racer": Racer(),
        "medusa": medusa,
    }
