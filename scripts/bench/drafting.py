"""How long one draft takes: ADED, draftretriever and the peers, on one synthetic token stream.

    python -m scripts.bench.drafting [pairs=1000000] [searches=3000]

    pairs      distinct token pairs of the stream
    searches   drafts timed for each drafter

Contexts are windows of 64 tokens of the stream, each two tokens further than the last, as in decoding. The time of
ADED is that of `AdedDrafter.draft`: what a decoding step pays, with Python and the tree's checks. The time of
`aded_backoff` and of a peer is that of `draft` and `observe`. Warm-up is left out. draftretriever runs in a process
of its own, since each of its searches leaks 80 to 140 kB. The drafters take turns, so that a busy machine slows all
of them alike. The last line of the output is JSON.
"""

from __future__ import annotations

import importlib.util
import json
import multiprocessing
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import numpy as np
import torch
from numba import njit
from pydantic import Field
from tabulate import tabulate

from aded.config.command_line import check_no_arguments, run_command
from aded.config.methods import method_config
from aded.core.drafter import Drafter, Step
from aded.core.tree import DraftTree
from aded.drafters.backoff.drafter import BackoffDrafter
from aded.drafters.trigram.best_first import BestFirst
from aded.drafters.trigram.drafter import AdedDrafter
from aded.drafters.trigram.mcts import Mcts
from aded.files.datastores.suffix_file import SuffixFile
from aded.settings import Positive
from aded.shown import say
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
    """Noise in place of a target's output, for trees of up to NODES nodes.

    In logits the most frequent followers of each node's token, in the stream, are most probable. The time of drafters
    that read hidden states does not depend on the values.
    """

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


VOCABULARY, CONTEXT, ADVANCE, BUDGET, WARM_UP, ROUNDS = 32_000, 64, 2, 64, 50, 10
reader: Any = None
"""draftretriever's, in the child."""


@dataclass
class BenchDraftingSettings:
    """See above."""

    pairs: Annotated[int, Field(ge=1000)] = 1_000_000
    searches: Positive = 3000


@njit(cache=True, inline="always")
def _mix(a: int, b: int, c: int) -> float:
    """[0, 1), fixed by the three numbers (splitmix64's finaliser over their sum)."""
    x = (
        np.uint64(a) * np.uint64(0x9E3779B97F4A7C15)
        + np.uint64(b) * np.uint64(0xC2B2AE3D27D4EB4F)
        + np.uint64(c) * np.uint64(0x165667B19E3779F9)
    )
    x = (x ^ (x >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(32))) * np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(29)
    return (x >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@njit(cache=True)
def synthetic_stream(pairs: int, seed: int) -> np.ndarray:
    """int64 tokens, until `pairs` distinct pairs have occurred.

    A token has up to 2048 followers, drawn from a Zipf law over the vocabulary; a pair picks 32 of them, the
    common ones oftener, and ranks them by another Zipf law. A pair of the result has 2.3 successors on average,
    5 at the 90th percentile and 16 at the 99th (a table of 3.4 M tokens of Python code: 2.7, 5 and 23).
    """
    np.random.seed(seed)  # noqa: NPY002 - numba's own generator, which this seeds
    zipf = np.cumsum(1.0 / (np.arange(VOCABULARY) + 2.7))
    ranks = np.cumsum(1.0 / np.arange(1, 33) ** 1.1)
    seen, distinct, stream = {(0, 0)}, 0, [1, 2]
    while distinct < pairs:
        a, b = stream[-2], stream[-1]
        rank = int(np.searchsorted(ranks, np.random.random() * ranks[-1]))  # noqa: NPY002
        follower = int(2048 * _mix(a + 1, b, rank) ** 5)
        token = int(np.searchsorted(zipf, _mix(0, b, follower) * zipf[-1]))
        if (b, token) not in seen:
            seen.add((b, token))
            distinct += 1
        stream.append(token)
    return np.array(stream)


def contexts_of(stream: np.ndarray, searches: int) -> list[np.ndarray]:
    """Windows from the middle of the stream; it starts anew where the stream is too short."""
    starts = (len(stream) // 2 + ADVANCE * np.arange(searches)) % (len(stream) - CONTEXT)
    return [stream[start : start + CONTEXT] for start in starts]


def open_index(stream: np.ndarray, warm_up: list[np.ndarray]) -> None:
    """In the child: build draftretriever's index and open it."""
    import draftretriever

    global reader
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "stream.idx")
        writer = draftretriever.Writer(path, vocab_size=VOCABULARY)
        writer.add_entry(stream.tolist())
        writer.finalize()
        del writer  # it writes once more when it goes, and the folder must still be there
        reader = draftretriever.Reader(path)
        time_searches(warm_up)


def time_searches(contexts: list[np.ndarray]) -> list[tuple[float, int]]:
    """In the child."""
    times = []
    for context in contexts:
        ids = context.tolist()
        start = perf_counter()
        found = reader.search(ids, choices=BUDGET)
        seconds = perf_counter() - start
        # found[1] is the tree's mask, the root's row included; nothing found is an empty answer.
        times.append((seconds, max(0, len(found[1]) - 1) if len(found) > 1 else 0))
    return times


def measure(timers: dict[str, Timer], contexts: list[np.ndarray]) -> dict[str, np.ndarray]:
    """Per drafter float64 [searches, 2]: milliseconds, drafted nodes. The drafters take turns, ROUNDS times."""
    found: dict[str, list[tuple[float, int]]] = {name: [] for name in timers}
    for part in np.array_split(np.arange(len(contexts)), ROUNDS):
        for name, drafter in timers.items():
            found[name] += drafter([contexts[i] for i in part])
    return {name: np.array(rows) * [1000.0, 1.0] for name, rows in found.items()}


def summary(results: dict[str, np.ndarray]) -> dict[str, dict[str, float]]:
    """Per drafter its numbers of the JSON line."""
    return {
        name: {
            "median_ms": round(float(np.median(rows[:, 0])), 4),
            "p99_ms": round(float(np.percentile(rows[:, 0], 99)), 4),
            "drafted_nodes": round(float(rows[:, 1].mean()), 2),
        }
        for name, rows in results.items()
    }


def run(arguments: list[str], settings: BenchDraftingSettings) -> None:
    check_no_arguments(arguments)
    stream = synthetic_stream(settings.pairs, 0)
    contexts = contexts_of(stream, settings.searches + WARM_UP)
    warm_up, contexts = contexts[:WARM_UP], contexts[WARM_UP:]
    noise = Noise(stream, VOCABULARY)
    timers = {
        name: timer(drafter, noise, warm_up, ADVANCE) for name, drafter in drafters_of(stream, noise, BUDGET).items()
    }
    if importlib.util.find_spec("draftretriever") is None:
        say("draftretriever is not installed, so its columns are empty: pip install draftretriever==0.1.1")
        results = measure(timers, contexts)
    else:
        spawn = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(1, spawn, initializer=open_index, initargs=(stream, warm_up)) as child:
            search: Timer = lambda some: child.submit(time_searches, some).result()  # noqa: E731
            results = measure({**timers, "draftretriever": search}, contexts)
    found = summary(results)
    say(f"{settings.pairs} pairs, {len(stream)} tokens, {settings.searches} searches, budget {BUDGET}")
    rows = [(name, *numbers.values()) for name, numbers in found.items()]
    say(tabulate(rows, ("drafter", "median ms", "p99 ms", "drafted nodes/step"), floatfmt=".3f"))
    theirs = found.get("draftretriever", dict.fromkeys(found["aded"]))
    ratio = theirs["median_ms"] and round(theirs["median_ms"] / found["aded"]["median_ms"], 2)
    flat = {
        f"{name}_{key}": number
        for name, numbers in {**found, "draftretriever": theirs}.items()
        for key, number in numbers.items()
    }
    sizes = {"pairs": len(noise.pairs.level(2)), "tokens": len(stream), "searches": settings.searches}
    say(json.dumps({**flat, "ratio": ratio, **sizes}))


def main() -> None:
    run_command(run, BenchDraftingSettings, __doc__ or "")


if __name__ == "__main__":
    main()
