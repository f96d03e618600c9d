"""Memory and drafting time of the back-off drafter in a session that does not end.

    python -m scripts.bench.endless datastore=FILE answers=FILE tokenizer=DIR [KEY=VALUE ...]
    python -m scripts.bench.endless datastore=FILE random=true [KEY=VALUE ...]

    datastore=FILE    n-gram file of order 5
    answers=FILE      recorded answers, as model.answers takes them
    tokenizer=DIR     their tokenizer, that of the datastore
    retrieval=FILE    a suffix file to retrieve from; by default nothing is retrieved
    random=true       random tokens in place of answers: nothing can predict them
    millions=10       tokens to replay, in millions
    changed=0.1       share of the answers' tokens that is drawn anew in each round
    budget=64         most drafted nodes per step

The answers are replayed round after round, each time in another order and with other tokens changed, so that there is
always something new to remember. The table has a line per million tokens: mean accepted tokens, milliseconds per
draft, and how many MB of the process's memory are its own and how many are mapped from the datastore (Linux). The
last line of the output is JSON.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Annotated

import numpy as np
from pydantic import Field

from aded.command_line import run_command
from aded.core.tree import DraftTree
from aded.drafters.backoff.drafter import BackoffDrafter
from aded.errors import BadInput
from aded.files.answer_file import read_answers
from aded.files.datastores.ngram_file import open_ngrams
from aded.files.tokenizer import load_tokenizer
from aded.settings import Budget, FilePath, Share
from scripts import check_no_arguments

CONTEXTS = {"corpus": 4, "target": 3, "session": 5, "prompt": 6, "nearest": 4}
PROMPT, LENGTH, PART = 16, 512, 1_000_000
COLUMNS = ("tokens", "mean_accepted_tokens", "draft_ms_median", "draft_ms_p99", "own_mb", "mapped_mb")


@dataclass
class BenchEndlessSettings:
    """See above."""

    datastore: str | None = None
    answers: str | None = None
    tokenizer: str | None = None
    retrieval: FilePath | None = None
    random: bool = False
    millions: Annotated[float, Field(gt=0)] = 10
    changed: Share = 0.1
    budget: Budget = 64

    def __post_init__(self) -> None:
        if not self.datastore:
            raise BadInput("datastore", "is missing; name an n-gram file of order 5")
        if self.random == bool(self.answers) or bool(self.answers) != bool(self.tokenizer):
            raise BadInput("answers", "give either random=true or both answers=FILE and tokenizer=DIR")


def answers_of(path: Path, tokenizer: str) -> list[np.ndarray]:
    """The tokens, int64 [m], of each recorded answer that is longer than a prompt."""
    ids = load_tokenizer(tokenizer)
    texts = [turn.text for turns in read_answers(path).values() for turn in turns if turn.text]
    tokens = [np.array(ids(text, add_special_tokens=False)["input_ids"], np.int64) for text in texts]
    return [answer for answer in tokens if len(answer) > PROMPT + 1]


def endless(answers: list[np.ndarray], changed: float, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """The answers in endless rounds, shuffled, a share of their tokens drawn anew from the tokens of all."""
    pool = np.concatenate(answers)
    while True:
        for i in rng.permutation(len(answers)):
            anew = rng.random(len(answers[i])) < changed
            yield np.where(anew, rng.choice(pool, len(anew)), answers[i])


def unpredictable(vocabulary: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    while True:
        yield rng.integers(vocabulary, size=LENGTH)


def accepted(tree: DraftTree, continuation: np.ndarray) -> int:
    """Tokens that a step decides when the target's own next tokens are `continuation`."""
    node, length, parents, tokens = 0, 0, tree.parents.tolist(), tree.tokens.tolist()
    for token in continuation.tolist():
        length += 1
        child = next((i for i in range(node + 1, len(tokens)) if parents[i] == node and tokens[i] == token), None)
        if child is None:
            break
        node = child
    return length


def memory() -> tuple[float, float]:
    """Resident MB: of this process alone, and of mapped files."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines["RssAnon"].split()[0]) / 1024, int(lines["RssFile"].split()[0]) / 1024


def replay(drafter: BackoffDrafter, texts: Iterator[np.ndarray], parts: int, size: int) -> Iterator[dict[str, float]]:
    """A row of COLUMNS for each `size` tokens."""
    done = 0
    for part in range(1, parts + 1):
        times, began = [], done
        while done < part * size:
            text = next(texts)
            drafter.begin(text[:PROMPT])
            n = PROMPT + 1
            while n < len(text):
                start = perf_counter()
                tree = drafter.draft(text[:n])
                times.append(perf_counter() - start)
                n += accepted(tree, text[n : n + drafter.depth + 1])
            done += len(text) - PROMPT - 1
        milliseconds = 1000.0 * np.array(times)
        row = (done, (done - began) / len(times), np.median(milliseconds), np.percentile(milliseconds, 99), *memory())
        yield {name: round(float(number), 4) for name, number in zip(COLUMNS, row, strict=True)}


def run(arguments: list[str], settings: BenchEndlessSettings) -> None:
    check_no_arguments(arguments)
    datastore, rng = open_ngrams(str(settings.datastore)), np.random.default_rng(0)
    if settings.answers:
        texts = endless(answers_of(Path(settings.answers), str(settings.tokenizer)), settings.changed, rng)
    else:
        texts = unpredictable(datastore.vocabulary, rng)
    drafter = BackoffDrafter(
        datastore, budget=settings.budget, contexts=CONTEXTS, retrieval=settings.retrieval, cost="none"
    )
    parts = math.ceil(settings.millions)
    rows = []
    print(*COLUMNS)
    for row in replay(drafter, texts, parts, round(settings.millions * PART / parts)):
        rows.append(row)
        print(*row.values(), flush=True)
    print(json.dumps({"rows": rows}))


def main() -> None:
    run_command(run, BenchEndlessSettings, __doc__ or "")


if __name__ == "__main__":
    main()
