"""Memory and drafting time of the back-off drafter in a session that does not end.

    python -m scripts.bench_endless --datastore FILE --answers FILE --tokenizer DIR [--millions 10 --changed 0.1]
    python -m scripts.bench_endless --datastore FILE --random

Recorded answers are replayed round after round, each time in another order and with some of their tokens changed, so
that there is always something new to remember; --random replays tokens that nothing can predict. A line for each
million tokens: mean accepted tokens, what a draft takes, and how much of the process's memory is its own and how
much is mapped from the datastore (Linux).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

import numpy as np

from aded.core.tree import DraftTree
from aded.drafters.backoff.drafter import BackoffDrafter
from aded.files.answer_file import read_answers
from aded.files.ngram_file import open_ngrams

CONTEXTS = {"corpus": 4, "target": 3, "session": 5, "prompt": 6}
PROMPT, LENGTH, PART = 16, 512, 1_000_000
COLUMNS = ("tokens", "mean_accepted_tokens", "draft_ms_median", "draft_ms_p99", "own_mb", "mapped_mb")


def answers_of(path: Path, tokenizer: str) -> list[np.ndarray]:
    """The recorded answers' tokens, int64 [m], those that are longer than a prompt."""
    from transformers import AutoTokenizer

    ids = AutoTokenizer.from_pretrained(tokenizer)
    texts = [turn.text for turns in read_answers(path).values() for turn in turns if turn.text]
    tokens = [np.array(ids(text, add_special_tokens=False)["input_ids"], np.int64) for text in texts]
    return [answer for answer in tokens if len(answer) > PROMPT + 1]


def endless(answers: list[np.ndarray], changed: float, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """The answers again and again, shuffled, a part of their tokens drawn anew from all of theirs."""
    pool = np.concatenate(answers)
    while True:
        for i in rng.permutation(len(answers)):
            anew = rng.random(len(answers[i])) < changed
            yield np.where(anew, rng.choice(pool, len(anew)), answers[i])


def unpredictable(vocabulary: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    while True:
        yield rng.integers(vocabulary, size=LENGTH)


def accepted(tree: DraftTree, said: np.ndarray) -> int:
    """Tokens that a step decides when the target goes on with `said`."""
    node, length, parents, tokens = 0, 0, tree.parents.tolist(), tree.tokens.tolist()
    for token in said.tolist():
        length += 1
        child = next((i for i in range(node + 1, len(tokens)) if parents[i] == node and tokens[i] == token), None)
        if child is None:
            break
        node = child
    return length


def memory() -> tuple[float, float]:
    """MB of this process's own and of mapped files that are resident."""
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datastore", required=True, help="n-gram file of orders 2 to 5")
    parser.add_argument("--answers", type=Path, help="recorded answers, as model.answers takes them")
    parser.add_argument("--tokenizer", help="their tokenizer, that of the datastore")
    parser.add_argument("--random", action="store_true", help="random tokens in place of answers")
    parser.add_argument("--millions", type=int, default=10, help="tokens to replay, in millions")
    parser.add_argument("--changed", type=float, default=0.1, help="part of the answers' tokens that is drawn anew")
    parser.add_argument("--budget", type=int, default=64, help="most drafted nodes")
    options = parser.parse_args()
    if options.random == bool(options.answers) or bool(options.answers) != bool(options.tokenizer):
        parser.error("give either --random or both --answers and --tokenizer")
    datastore, rng = open_ngrams(options.datastore), np.random.default_rng(0)
    if options.random:
        texts = unpredictable(datastore.vocabulary, rng)
    else:
        texts = endless(answers_of(options.answers, options.tokenizer), options.changed, rng)
    drafter = BackoffDrafter(datastore, budget=options.budget, contexts=CONTEXTS, cost="none")
    rows = []
    print(*COLUMNS)
    for row in replay(drafter, texts, options.millions, PART):
        rows.append(row)
        print(*row.values(), flush=True)
    print(json.dumps({"rows": rows}))


if __name__ == "__main__":
    main()
