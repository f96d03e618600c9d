"""The scorer of aded_backoff: which evidence is worth how much, learned from answers.

    python -m scripts.train.scorer [out=FILE] [KEY=VALUE ...]

conf/train_scorer.yaml explains every key. Drafters with several settings read the same answers: with a corpus and
without, over the session and cold, and with each part switched off. The features of all candidates at each token, and
which token it was, are the examples. All are kept in memory, about 2 GB, and learned in random order. This is done
four times: for drafters without and with retrieval, and without and with a look-up model. The file has all weights.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from itertools import chain
from os.path import expanduser
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import torch
from numba import njit
from omegaconf import DictConfig
from safetensors.numpy import save

from aded.api.replay import replay
from aded.config.command_line import run_config
from aded.config.objects import Kinds
from aded.core.drafter import Drafter
from aded.core.target import Step
from aded.core.tree import DraftTree
from aded.drafters.backoff.candidates import EXPERTS, UNITS, Candidates, new_candidates
from aded.drafters.backoff.drafter import BackoffDrafter
from aded.drafters.backoff.scorer import PREFIXES, SHAPES, ZERO, Scorer, new_scorer, score
from aded.files.atomic import check_ours, check_outputs, write_outputs
from aded.files.datastores.array_file import opened
from aded.files.datastores.lookup_file import LookupFile, open_lookup
from aded.files.datastores.ngram_file import NgramFile, open_ngrams
from aded.files.datastores.suffix_file import SuffixFile, open_suffixes
from aded.identity import file_fingerprint
from aded.kernels import threads
from aded.settings import FilePath, Positive, Rate, Seed, Share
from aded.shown import say
from aded.targets.eager import EagerTarget
from aded.targets.engine import Loaded
from datastore.cleaning.cleaning import is_degenerate
from scripts.train.answers import TRAINING, answered, read_answers, read_pairs, target_of
from scripts.train.scorer_examples import Examples, FeatureCollector, FeatureCollectors, joined

log = logging.getLogger(__name__)
EVERY = 64
"""Steps from one of the weights that are averaged to the next."""


class Sums(NamedTuple):
    """Of weights, float64, with the shapes of a scorer's."""

    bias: np.ndarray
    contexts: np.ndarray
    features: np.ndarray


def first_scorer(seed: int) -> Scorer:
    """Small random weights, with which scores lie near 0."""
    random = np.random.default_rng(seed)
    scales = {"bias": np.array([[0.1], [0.1], [UNITS**-0.5]]), "contexts": np.array(0.1), "features": np.array(0.2)}
    return new_scorer({name: random.standard_normal(shape) * scales[name] for name, shape in SHAPES.items()})


def learned(examples: Examples, *, passes: int, first_rate: float, last_rate: float, seed: int) -> Scorer:
    """By gradient descent on -log p of the decided tokens: the mean weights of the last of `passes` passes over all
    examples, in random order, at rates that fall geometrically."""
    scorer, candidates = first_scorer(seed), new_candidates()
    sums = Sums(*(np.zeros(shape) for shape in SHAPES.values()))
    random, count = np.random.default_rng(seed), len(examples.decided)
    rates = np.geomspace(first_rate, last_rate, passes * count)
    for number in range(passes):
        for weights in sums:
            weights[:] = 0
        order = random.permutation(count)
        loss = _pass(scorer, sums, candidates, examples, order, rates[number * count : (number + 1) * count])
        log.info("pass %d of %d: %.4f nats a token", number + 1, passes, loss / count)
    return new_scorer({name: weights / -(-count // EVERY) for name, weights in sums._asdict().items()})


@njit(cache=True)
def _pass(
    scorer: Scorer, sums: Sums, candidates: Candidates, examples: Examples, order: np.ndarray, rates: np.ndarray
) -> float:
    """A step of descent per example. Add every EVERY-th weights to `sums`; return the sum of -log p."""
    loss = 0.0
    for i in range(len(order)):
        p = order[i]
        start, end = examples.feature_starts[p], examples.feature_starts[p + 1]
        candidates.sizes[0], candidates.sizes[1] = examples.candidates[p], end - start
        candidates.seen[:], candidates.evidence[:] = examples.seen[p], examples.evidence[p]
        candidates.feature_candidates[: end - start] = examples.feature_candidates[start:end]
        candidates.feature_experts[: end - start] = examples.feature_experts[start:end]
        candidates.feature_values[: end - start] = examples.feature_values[start:end]
        score(scorer, candidates)
        loss += descend(scorer, candidates, examples.decided[p], rates[i])
        if i % EVERY == 0:
            sums.bias[:] += scorer.bias
            sums.contexts[:] += scorer.contexts
            sums.features[:] += scorer.features
    return loss


@njit(cache=True)
def descend(scorer: Scorer, candidates: Candidates, decided: int, rate: float) -> float:
    """One step of gradient descent after `score`; return -log p of the decided candidate, n for another token."""
    n, m = candidates.sizes[0], candidates.sizes[1]
    hidden, weights = candidates.hidden, scorer.bias[2]
    common, change = candidates.sums[0], candidates.sums[1]
    loss = -np.log(max(1e-30, candidates.probabilities[decided]))
    # The gradient of each candidate's hidden units takes their place.
    common[:], change[:] = ZERO, ZERO
    for i in range(n + 1):
        slope = np.float32((candidates.probabilities[i] - (1.0 if i == decided else 0.0)) * rate)
        for u in range(UNITS):
            value = hidden[i, u]
            change[u] += slope * max(ZERO, value)
            hidden[i, u] = slope * weights[u] if value > ZERO else ZERO
            common[u] += hidden[i, u]
    for u in range(UNITS):
        scorer.bias[0, u] -= common[u]
        scorer.bias[1, u] -= hidden[n, u]
        weights[u] -= change[u]
    for expert in range(EXPERTS):
        if candidates.seen[expert]:
            first, second, row = (
                candidates.evidence[expert, 0],
                candidates.evidence[expert, 1],
                scorer.contexts[expert],
            )
            for u in range(UNITS):
                row[0, u] -= common[u]
                row[1, u] -= first * common[u]
                row[2, u] -= second * common[u]
    for k in range(m):
        i, row = candidates.feature_candidates[k], scorer.features[candidates.feature_experts[k]]
        share, count = candidates.feature_values[k, 0], candidates.feature_values[k, 1]
        for u in range(UNITS):
            row[0, u] -= hidden[i, u]
            row[1, u] -= share * hidden[i, u]
            row[2, u] -= count * hidden[i, u]
    return loss


OF_A_CORPUS = Literal["corpus", "retrieval", "lookup"]
SCORER: Kinds = {
    **TRAINING,
    "recorded": list[dict[Literal["answers", "questions", "tokenizer", "template", OF_A_CORPUS], FilePath]],
    **dict.fromkeys((f"own_{name}" for name in get_args(OF_A_CORPUS)), FilePath),
    **dict.fromkeys(("share", "share_of_parts"), Share),
    "passes": Positive,
    **dict.fromkeys(("first_rate", "last_rate"), Rate),
    "seed": Seed,
}
"""The keys at the top of conf/train_scorer.yaml."""
CONTEXTS = {"corpus": 4, "target": 3, "session": 5, "prompt": 6, "nearest": 4}
USED: tuple[dict[str, Any], ...] = tuple(
    {"adaptation": adaptation, "contexts": {**CONTEXTS, **without}}
    for adaptation in ("session", "prompt")
    for without in ({}, {"corpus": 0})
)
"""Settings that people use."""
WITHOUT: tuple[dict[str, Any], ...] = (
    {"copy": False},
    {"skip_grams": False},
    {"unigrams": False},
    {"contexts": {**CONTEXTS, "prompt": 0}},
    {"contexts": {**CONTEXTS, "session": 0}},
    {"contexts": {**CONTEXTS, "target": 0}},
    {"adaptation": "off"},
)
"""Settings without a part."""


class CorpusFiles(NamedTuple):
    """retrieval, lookup: None: there is none"""

    ngrams: NgramFile
    retrieval: SuffixFile | None
    lookup: LookupFile | None


def collectors_of(corpus: CorpusFiles, cfg: DictConfig) -> FeatureCollectors:
    """Collectors with all settings."""
    retrieval = None if corpus.retrieval is None else str(corpus.retrieval.path)
    lookup = None if corpus.lookup is None else str(corpus.lookup.path)
    fixed = {"contexts": CONTEXTS, "retrieval": retrieval, "lookup": lookup}
    shares = [cfg.share] * len(USED) + [cfg.share_of_parts] * len(WITHOUT)
    return FeatureCollectors(
        [
            FeatureCollector(BackoffDrafter(corpus.ngrams, **{**fixed, **settings}), share, cfg.seed + number)
            for number, (settings, share) in enumerate(zip(USED + WITHOUT, shares, strict=True))
        ]
    )


def follow_answer(drafter: Drafter, prompt: Sequence[int], answer: Sequence[int], logits: torch.Tensor) -> None:
    """Go through an answer token by token. logits: float [m, vocabulary], those that decided each token."""
    context = np.array([*prompt, *answer])
    drafter.begin(context[: len(prompt)])
    for i, token in enumerate(answer):
        end = len(prompt) + i
        root = DraftTree(context[end - 1 : end], np.array([-1]), np.ones(1))
        drafter.observe(Step(root, [0], token, logits=logits[i : i + 1]))
        drafter.draft(context[: end + 1])


def open_corpora(cfg: DictConfig) -> list[CorpusFiles]:
    """The corpora of the recorded answers, then the model's own. Raises BadInput, naming the key."""
    own = {name: cfg[f"own_{name}"] for name in ("corpus", "retrieval", "lookup")}
    named = [*((f"recorded.{i}.", source) for i, source in enumerate(cfg.recorded)), ("own_", own)]
    return [
        CorpusFiles(
            opened(f"{where}corpus", source["corpus"], open_ngrams),
            opened(f"{where}retrieval", source["retrieval"], open_suffixes),
            opened(f"{where}lookup", source["lookup"], open_lookup),
        )
        for where, source in named
    ]


def without_loops(answers: Path, folder: Path) -> Path:
    """A file in the folder with those of the answers that end: endless repetition would teach to copy."""
    if not answers.is_file():
        return answers  # who reads it says what is wrong
    lines = answers.read_bytes().splitlines(keepends=True)
    kept = [line for line in lines if not is_degenerate(line.decode("utf-8", "replace"))]
    (folder / answers.name).write_bytes(b"".join(kept))
    return folder / answers.name


def from_recorded(cfg: DictConfig, corpora: Sequence[CorpusFiles]) -> Iterator[tuple[Examples, str]]:
    """Examples of each recorded file, and what it is."""
    for source, corpus in zip(cfg.recorded, corpora, strict=True):
        files = {key: Path(expanduser(source[key])) for key in ("answers", "questions", "tokenizer")}
        group = collectors_of(corpus, cfg)
        with TemporaryDirectory() as folder:
            kept = without_loops(files["answers"], Path(folder))
            replay(kept, files["tokenizer"], [group], questions=files["questions"], template=source.template)
        about = f"{files['answers'].parent.name}/{files['answers'].name} ({file_fingerprint(files['answers'])})"
        yield joined([collector.examples for collector in group.collectors]), about


def from_own(cfg: DictConfig, corpus: CorpusFiles, loaded: Loaded) -> Iterator[tuple[Examples, str]]:
    """Examples of what the model itself answers, with its distributions."""
    assert isinstance(loaded.target, EagerTarget)
    shards, facts = answered(cfg, loaded)
    group, head = collectors_of(corpus, cfg), loaded.target.model.lm_head
    group.setup(loaded.target)
    for (prompt, answer), (_, hidden) in zip(read_pairs(shards), read_answers(shards), strict=True):
        with torch.inference_mode():
            follow_answer(group, prompt, answer, head(hidden.to(head.weight.dtype)))
    about = f"answers of {cfg.model.path} to {cfg.prompts} prompts of {facts['corpus']}"
    yield joined([collector.examples for collector in group.collectors]), about


def examples_of(cfg: DictConfig, corpora: Sequence[CorpusFiles], loaded: Loaded) -> tuple[Examples, list[str]]:
    """All examples, and what they are of. corpora: those of the recorded answers, then the model's own"""
    groups, sources = [], []
    for examples, about in chain(from_recorded(cfg, corpora[:-1]), from_own(cfg, corpora[-1], loaded)):
        log.info("%d examples of %s", len(examples.decided), about)
        groups.append(examples)
        sources.append(about)
    return joined(groups), sources


def run(cfg: DictConfig) -> None:
    """Examples, learning, the file of weights."""
    inputs = {f"recorded.{i}.{key}": source[key] for i, source in enumerate(cfg.recorded) for key in source}
    out = Path(cfg.out).expanduser()
    check_outputs([("out", out)], inputs.items())
    check_ours([out], "out")
    corpora = open_corpora(cfg)
    loaded = target_of(cfg)
    threads.for_torch(cfg.threads)
    how = {"passes": cfg.passes, "first_rate": cfg.first_rate, "last_rate": cfg.last_rate, "seed": cfg.seed}
    weights: dict[str, np.ndarray] = {}
    facts = {"how": json.dumps(how)}
    for (retrieval, lookup), prefix in PREFIXES.items():
        read = [
            CorpusFiles(ngrams, suffixes if retrieval else None, model if lookup else None)
            for ngrams, suffixes, model in corpora
        ]
        examples, sources = examples_of(cfg, read, loaded)
        scorer = learned(examples, **how)
        weights |= {prefix + name: scorer[name] for name in SHAPES}
        facts[f"{prefix}learned_from"] = "; ".join(sources)
    write_outputs(out.parent, {out.name: save(weights, metadata=facts)}, "out")
    say(f"scorer: {cfg.out}")


def main() -> None:
    interrupted = "interrupted; the model's answers are kept: start the same command again"
    run_config("train_scorer", run, __doc__ or "", interrupted, SCORER)


if __name__ == "__main__":
    main()
