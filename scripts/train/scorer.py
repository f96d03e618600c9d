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
from omegaconf import DictConfig
from safetensors.numpy import save

from aded.api.replay import replay
from aded.config.command_line import run_config
from aded.config.objects import Kinds
from aded.core.drafter import Drafter
from aded.core.step import Step
from aded.core.tree import DraftTree
from aded.drafters.backoff.drafter import BackoffDrafter
from aded.drafters.backoff.scorer import PREFIXES, SHAPES
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
from aded.targets.loaded import Loaded
from datastore.cleaning.cleaning import is_degenerate
from scripts.train.answers import TRAINING, answered, read_answers, read_pairs, target_of
from scripts.train.scorer_examples import Examples, FeatureCollector, FeatureCollectors, joined
from scripts.train.scorer_gradient import learned

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
log = logging.getLogger(__name__)


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
