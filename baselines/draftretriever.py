"""The original's drafter, the PyPI package draftretriever 0.1.1, to measure against.

A search changes the reader (it adapts the matrix) and never gives back its search tree, about 80 kB. Both are
confined: a child process opens the index once and forks; searches run in the fork, which ends, memory and adaptation
with it, when the adaptation's scope does. The package draws unseeded, so its drafts differ a little from run to run,
and the time of a draft has the way to the child in it (scripts.bench_drafting times the search alone).
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from aded.core.drafter import Drafter
from aded.core.settings import check_budget, check_scope
from aded.core.tree import DraftTree
from aded.errors import BadInput
from aded.files.ngram_file import Counts, NgramFile

SCOPES = ("prompt", "session")
PADDING = -2


class DraftRetriever(Drafter):
    """budget: most drafted tokens a step, each counted in every sequence that has it; adaptation: what the package's
    adapted matrix outlives, `session` as in the original's runs, or `prompt`; window: how many of the context's last
    tokens it is shown; cache: folder of the index. Raises BadInput when the package is not installed.
    """

    def __init__(
        self, datastore: NgramFile, *, cache: str, budget: int = 64, adaptation: str = "session", window: int = 16
    ) -> None:
        if importlib.util.find_spec("draftretriever") is None:
            raise BadInput("method", "draftretriever is not installed; pip install draftretriever==0.1.1")
        check_scope(adaptation, SCOPES)
        self.budget, self.adaptation, self.window = check_budget(budget), adaptation, window
        self.datastore = datastore
        self._index = index_of(datastore, Path(cache).expanduser())
        self._child: subprocess.Popen[str] | None = None

    def begin(self, prompt_ids: np.ndarray, seed: int = 0) -> None:
        if self.adaptation == "prompt":
            self.reset()

    def draft(self, context: np.ndarray) -> DraftTree:
        root = int(context[-1])
        if len(context) < 2 or self.budget == 0:
            return DraftTree.root(root)
        # It panics where not even one sequence fits, and none has more than four tokens.
        sequences = self._ask([context[-self.window :].tolist(), max(4, self.budget)])
        drafts = ([token for token in sequence if token != PADDING] for sequence in sequences)
        return DraftTree.from_sequences(root, drafts, self.budget)

    def reset(self) -> None:
        if self._child is not None:
            self._ask(None)

    def describe(self) -> dict[str, str]:
        return self.datastore.describe()

    def close(self) -> None:
        """End the child, which the end of this process does as well: its input ends."""
        if self._child is not None:
            self._child.communicate()
            self._child = None

    def _ask(self, question: Any) -> Any:
        """One question to the child, one answer; the child starts with the first."""
        if self._child is None:
            self._child = subprocess.Popen(
                [sys.executable, "-m", "baselines.draftretriever_server", str(self._index)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=Path(__file__).parent.parent,
                start_new_session=True,  # Ctrl-C is for the run; the child ends when its input does
            )
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # then it has ended, and there is no answer
            print(json.dumps(question), file=self._child.stdin, flush=True)
        answer = self._child.stdout.readline()
        if not answer:
            raise BadInput(
                "method", "draftretriever's process ended; is there memory left? A session keeps about 80 kB a search"
            )
        return json.loads(answer)


def index_of(datastore: NgramFile, cache: Path) -> Path:
    """The package's index of the datastore's tri-grams, written once.

    The package's Writer counts the tri-grams of token lists in memory; the datastore has them counted, so the same
    file is written from there: the number of pairs, then for each pair its two tokens, the number of successors, and
    each successor with its probability. Integers are 4 bytes, numbers of things 8, probabilities float32.
    """
    path = cache / "draftretriever" / f"{datastore.header['fingerprint'][:16]}.idx"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, scratch = tempfile.mkstemp(prefix=path.name, dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(index_bytes(datastore.counts(3)).data)
            os.replace(scratch, path)
        finally:
            Path(scratch).unlink(missing_ok=True)
    return path


def index_bytes(counts: Counts) -> np.ndarray:
    """uint32 [2 + 4 pairs + 2 tri-grams]: see index_of. Words of 8 bytes are two of 4, the lower half first."""
    sizes = np.diff(counts.offset)
    pairs = len(sizes)
    words = np.zeros(2 + 4 * pairs + 2 * len(counts.token), np.uint32)
    words[0] = pairs
    heads = 2 + 4 * np.arange(pairs) + 2 * counts.offset[:-1]
    words[heads] = np.repeat(np.arange(len(counts.first) - 1), np.diff(counts.first))
    words[heads + 1] = counts.rest
    words[heads + 2] = sizes
    places = np.arange(len(counts.token)) * 2 + np.repeat(4 * np.arange(1, pairs + 1) + 2, sizes)
    words[places] = counts.token
    probabilities = counts.times.astype(np.float32) / np.repeat(counts.total, sizes).astype(np.float32)
    words[places + 1] = probabilities.view(np.uint32)
    return words
