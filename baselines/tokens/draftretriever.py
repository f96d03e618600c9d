"""The original's drafter, the PyPI package draftretriever 0.1.1, as a peer.

A search of the package adapts its matrix and never frees the memory of its search tree, 80 to 140 kB. A child process
confines both: it opens the index once and forks. The searches run in the fork, which ends with its memory and its
adapted matrix when the adaptation scope ends. The package draws random numbers without a seed, so its drafts differ a
little from run to run. The time of a draft includes the communication with the child; scripts.bench.drafting times
the search alone.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import subprocess
import sys
from os.path import expanduser
from pathlib import Path
from typing import Any

import numpy as np

from aded.core.drafter import Drafter
from aded.core.tree import DraftTree
from aded.errors import BadInput
from aded.files.atomic import whole_file
from aded.files.datastores.ngram_file import NgramFile
from aded.settings import Budget, Count, LearningScope

PADDING = -2


class DraftRetriever(Drafter):
    """Raises BadInput if the package is not installed.

    datastore: an n-gram file with tri-grams
    cache: folder for the package's index of the tri-grams
    budget: most drafted tokens per step; a token counts in every sequence that contains it
    adaptation: how long the adapted matrix is kept: session (as in the original's runs) or prompt
    window: last tokens of the context that are passed to the package
    """

    learned_from = frozenset({"a corpus"})

    def __init__(
        self,
        datastore: NgramFile,
        *,
        cache: str,
        budget: Budget = 64,
        adaptation: LearningScope = "session",
        window: Count = 16,
    ) -> None:
        if importlib.util.find_spec("draftretriever") is None:
            raise BadInput("method", "draftretriever is not installed; pip install draftretriever==0.1.1")
        if not datastore.has_ngrams:
            raise BadInput("datastore", "must be given: draftretriever drafts from the n-grams of a corpus alone")
        self.budget, self.adaptation, self.window = budget, adaptation, window
        self.datastore = datastore
        self._index = write_index(datastore, Path(expanduser(cache)))
        self._child: subprocess.Popen[str] | None = None

    def begin(self, prompt_ids: np.ndarray, seed: int = 0) -> None:
        if self.adaptation == "prompt":
            self.reset()

    def draft(self, context: np.ndarray) -> DraftTree:
        root = int(context[-1])
        if len(context) < 2 or self.budget == 0:
            return DraftTree.root(root)
        # A sequence has at most four tokens, and the package panics if none fits the budget.
        sequences = self._request([context[-self.window :].tolist(), max(4, self.budget)])
        drafts = ([token for token in sequence if token != PADDING] for sequence in sequences)
        return DraftTree.from_sequences(root, drafts, self.budget)

    def reset(self) -> None:
        if self._child is not None:
            self._request(None)

    def describe(self) -> dict[str, str]:
        return self.datastore.describe()

    def close(self) -> None:
        """End the child. It also ends with this process, when its input ends."""
        if self._child is not None:
            self._child.communicate()
            self._child = None

    def _request(self, question: Any) -> Any:
        """Send a question to the child and return its answer. The first question starts the child."""
        if self._child is None:
            self._child = subprocess.Popen(
                [sys.executable, "-m", "baselines.tokens.draftretriever_server", str(self._index)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=Path(__file__).parents[2],  # where `-m` finds the server
                start_new_session=True,  # Ctrl-C interrupts the run; the child ends when its input ends
            )
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # the child has ended; the missing answer shows it
            print(json.dumps(question), file=self._child.stdin, flush=True)
        answer = self._child.stdout.readline()
        if not answer:
            raise BadInput(
                "method",
                "draftretriever's process ended; is there memory left? A session keeps 80 to 140 kB a search",
            )
        return json.loads(answer)


def write_index(datastore: NgramFile, cache: Path) -> Path:
    """The package's index of the datastore's tri-grams, in the folder `cache`; written if it is not there.

    The package's own Writer counts the tri-grams of token lists in memory. The datastore has the counts, so the same
    file is written from them: the number of pairs, and for each pair its two tokens, the number of its successors,
    and each successor with its probability. Tokens are uint32, numbers of pairs and successors uint64, probabilities
    float32.
    """
    path = cache / "draftretriever" / f"{datastore.header['fingerprint'][:16]}.idx"
    if not path.exists():
        with whole_file(path) as file:
            file.write(index_fields(datastore).data)
    return path


def index_fields(datastore: NgramFile) -> np.ndarray:
    """The index of write_index, uint32 [2 + 4 pairs + 2 tri-grams]; a uint64 is two fields, the lower half first.

    Raises BadInput if the file has no tri-grams or is damaged.
    """
    datastore.verify()
    pairs, trigrams, ngrams = datastore.level(2), datastore.level(3), datastore.ngrams
    first = ngrams.start[: datastore.vocabulary + 1].astype(np.int64)
    times = datastore.times(trigrams)
    begins = ngrams.start[pairs.start : pairs.stop + 1].astype(np.int64) - trigrams.start
    followed = begins[1:] > begins[:-1]  # what ends a document is no pair of the package
    sizes = (begins[1:] - begins[:-1])[followed]
    begins = begins[:-1][followed]
    total = np.add.reduceat(times, begins) if len(begins) else times
    fields = np.zeros(2 + 4 * len(sizes) + 2 * len(trigrams), np.uint32)
    fields[0] = len(sizes)
    starts = 2 + 4 * np.arange(len(sizes)) + 2 * begins
    fields[starts] = np.repeat(np.arange(datastore.vocabulary), first[1:] - first[:-1])[followed]
    fields[starts + 1] = datastore.tokens(pairs)[followed]
    fields[starts + 2] = sizes
    successors = np.arange(len(trigrams)) * 2 + np.repeat(4 * np.arange(1, len(sizes) + 1) + 2, sizes)
    fields[successors] = datastore.tokens(trigrams)
    probabilities = times.astype(np.float32) / np.repeat(total, sizes).astype(np.float32)
    fields[successors + 1] = probabilities.view(np.uint32)
    return fields
