"""What the faults are tried on: a run over recorded answers, a sweep, and the making of datastores."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from answer_lines import replay_of, write_replay
from faulty import Command
from small_ngrams import write_small_ngrams
from tiny import tiny_tokenizer

from datastore.builder import build
from datastore.corpora.dataset_corpus import TextCorpus
from datastore.publish import PublishSettings, publish

QUESTIONS = 12
WORDS = ["cat", "rat", "mat", "hat", "the", "on"]
WORKS = ("run", "sweep", "build", "parts", "merge", "fetch")


def tried(seeds: int = 1) -> Any:
    """Parameters (work, seed): `run` once; for `make thorough` with all seeds, and the other works."""
    others = [*(("run", seed) for seed in range(1, seeds)), *((work, 0) for work in WORKS[1:])]
    cases = [("run", 0), *(pytest.param(*case, marks=pytest.mark.thorough) for case in others)]
    return pytest.mark.parametrize(("work", "seed"), cases)


class Works:
    """The works, on files in `place`."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self._uninterrupted: dict[str, tuple[int, dict[str, Any]]] = {}
        write_files(place)

    def uninterrupted(self, work: str) -> tuple[int, dict[str, Any]]:
        """How many file operations the work takes, and its results."""
        if work not in self._uninterrupted:
            command = self.command(work, self.place / work / "out")
            self._uninterrupted[work] = command.moments(), command.results()
        return self._uninterrupted[work]

    def command(self, work: str, folder: Path) -> Command:
        """The command of a work that writes into the folder."""
        out = f"out={folder / 'x.ngrams'}"
        corpus = ["corpus=text", f"corpus.path={self.place}/corpus.txt", f"tokenizer={self.place}/tok"]
        built = ["build", *corpus, out, "order=3", "progress=false"]
        methods = "method=aded_best_first,prompt_lookup,autoregressive"
        arguments = {
            "run": ["run", *self._replay(), "method=aded_best_first", f"output_dir={folder}"],
            "sweep": ["run", "-m", *self._replay(), methods, f"paths.output={folder}"],
            "build": [*built, f"suffixes={folder / 'x.suffixes'}"],
            "parts": [*built, "parts=3", "cluster=debug"],
            "merge": ["merge", out, str(self.place / "first"), str(self.place / "second")],
            "fetch": ["fetch", str(self.place / "shared"), out],
        }
        return Command(arguments[work], folder)

    def _replay(self) -> list[str]:
        files = [f"model.tokenizer={self.place}/tok", f"datastore.path={self.place}/tiny.ngrams"]
        return [*replay_of(self.place), *files, "progress=false"]


def write_files(place: Path) -> None:
    """A tokenizer, n-grams, questions of two turns, recorded answers, a corpus, and the n-grams of its halves."""
    tokenizer, draw = tiny_tokenizer(), random.Random(0)
    tokenizer.save_pretrained(place / "tok")
    texts = [" ".join(draw.choices(WORDS, k=12)) for _ in range(2 * QUESTIONS)]
    write_small_ngrams(place / "tiny.ngrams", texts[:3], 128, 3, tokenizer)
    write_replay(place, [texts[2 * n : 2 * n + 2] for n in range(QUESTIONS)])
    for name, part in (("corpus", texts), ("first", texts[::2]), ("second", texts[1::2])):
        (place / f"{name}.txt").write_text("\n\n".join(part))
    for name in ("first", "second"):
        build(TextCorpus(name, path=str(place / f"{name}.txt")), tokenizer, out=place / name, order=3)
    large = [np.random.default_rng(0).integers(128, size=9000)]
    write_small_ngrams(place / "large.ngrams", large, 128, tokenizer=tokenizer)
    publish(place / "large.ngrams", str(place / "shared"), PublishSettings())
