"""A made-up sweep of runs, for tests of plots and reports: long names, marks, trees, two baselines, short answers."""

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from made_up_run import row, times, timing, write_run

from aded.records.rows import Calibration, Row, to_json
from aded.records.trees import AnswerTrees, RecordedTree

MODELS = ("SmolLM2-135M-Instruct", "vicuna-7b-v1.5")
BENCHMARKS = ("human_eval", "mt_bench")
METHODS = {"aded_backoff": 3, "medusa": 2, "prompt_lookup": 1}
"""Each with the most tokens that its steps add, less one."""
PART = "session 2, prompt, unigram, corpus of chat answers"
"""A node's parts: more than a node of a drawn tree has room for."""


def write_sweep(folder: Path) -> Path:
    """2 models, 2 benchmarks and 3 methods; further a scope of the first and, compiled, a sweep of the budget."""
    for at, (model, benchmark, method) in enumerate(product(MODELS, BENCHMARKS, METHODS)):
        rows = _rows(METHODS[method], 40, seed=at, busy=0.3 + at / 20)
        settings: dict[str, Any] = {"benchmark.default._partial_": benchmark == "mt_bench", "method.budget": 64}
        settings |= {"method.adaptation": "session"} if method == "aded_backoff" else {}
        known: dict[str, Any] = {"model": model, "benchmark": benchmark, "method": method, "settings": settings}
        path = folder / f"{model}-{benchmark}-{method}"
        write_trees(write_run(path, rows, answers=None, engine="eager", **known), rows[0])
    cold = {"method.budget": 64, "method.adaptation": "prompt", "benchmark.default._partial_": False}
    known = {"model": MODELS[0], "benchmark": BENCHMARKS[0], "answers": None}
    rows = _rows(2, 40, seed=100)
    write_run(folder / "more-0", rows, method="aded_backoff", settings=cold, engine="eager", **known)
    for most in range(1, 5):
        rows = _rows(most, 40, seed=100 + most, plain=0.03)
        write_run(folder / f"more-{most}", rows, settings={"method.budget": 4**most}, engine="compiled", **known)
    return folder


def write_short_sweep(folder: Path) -> Path:
    for at, method in enumerate(METHODS):
        rows = _rows(METHODS[method], 12, seed=200 + at, questions=2)
        write_run(folder / method, rows, method=method, benchmark=BENCHMARKS[0], answers=None)
    return folder


def _rows(most: int, steps: int, *, seed: int, questions: int = 6, plain: float = 0.06, busy: float = 0) -> list[Row]:
    """plain: seconds of autoregressive decoding per token; busy: share of slices that others disturbed."""
    generator = np.random.default_rng(seed)
    made = []
    for question in range(questions):
        lengths = generator.integers(1, most + 2, steps).tolist()
        new, seconds = sum(lengths), 0.07 * steps
        nodes = generator.integers(10, 200, 20)
        probabilities = nodes * (np.arange(20) + 0.5) / 20
        accepted = [int(one) for one in probabilities * generator.uniform(0.7, 1)]
        calibration = Calibration(nodes.tolist(), probabilities.tolist(), accepted)
        others = (generator.random(20) < busy).astype(float).tolist()
        drafted = generator.integers(3, 9, steps).tolist()
        known = {"calibration": calibration, **times(seconds, plain * new, new)}
        timings = [timing(steps, seconds, new, plain * new, others=others)]
        made.append(row(question, 0, lengths, drafted_nodes=drafted, timings=timings, **known))
    return made


def write_trees(run: Path, answer: Row, texts: dict[str, str] | None = None) -> None:
    """The trees of a row, each a chain of what was accepted beside nodes that were not. texts: of tokens."""
    steps, at = [], 1
    for length, nodes in zip(answer.accept_lengths, answer.drafted_nodes, strict=True):
        tokens = [*answer.token_ids[at - 1 : at - 1 + length], *range(nodes + 1 - length)]
        parents = [*range(-1, length - 1), *[0] * (nodes + 1 - length)]
        parts = ["", *[PART] * nodes]
        bonus = answer.token_ids[at + length - 1]
        steps.append(RecordedTree(tokens, parents, [0.5] * (nodes + 1), parts, list(range(length)), bonus))
        at += length
    texts = texts or {str(token): f" a rather long token {token}" for token in answer.token_ids}
    trees = AnswerTrees(answer.question_id, 0, "Write it.", texts, steps, 0)
    (run / "trees.jsonl").write_text(to_json(trees) + "\n")
