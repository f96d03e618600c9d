"""The draft trees of a run's first questions, typed: a line a turn in trees.jsonl.

They are kept where `record.trees` asks for them, to look at: no number is made of them. Texts are whole Unicode: what
a tokenizer gives beside it is written as an escape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from aded.core.drafter import Drafter
from aded.core.target import Step
from aded.records.rows import STRICT, NonNegative, Number, Row, about, parse

NAME = "trees.jsonl"
MOST_NODES = 20_000
"""Of an answer; about 0.4 MB. Steps after them are left out."""
END_OF_PROMPT = 400
"""Tokens of the prompt that are kept as text."""


@dataclass(frozen=True)
class RecordedTree:
    """One step: the tree that was verified, and what the target decided."""

    __pydantic_config__ = STRICT
    tokens: list[NonNegative] = about("the token of each node, the root's first")
    parents: list[int] = about("the parent of each node, -1 for the root's")
    probabilities: list[Number] | None = about(
        "the drafter's probability that the walk reaches each node", null="the drafter has no probabilities"
    )
    parts: list[str] | None = about(
        "the part of the method that drafted each node, or several, with commas; the root's is empty",
        null="the method does not say",
    )
    path: list[NonNegative] = about("the accepted path: nodes, the root first")
    bonus: NonNegative = about("the bonus token")


@dataclass(frozen=True)
class AnswerTrees:
    """The trees of one turn: a line of trees.jsonl."""

    __pydantic_config__ = STRICT
    question_id: str = about("as in rows.jsonl")
    turn: NonNegative = about("as in rows.jsonl")
    prompt: str = about("the end of the prompt, as text")
    texts: dict[str, str] = about("the text of each token that occurs, by its id; empty: it has none of its own")
    steps: list[RecordedTree] = about(f"the steps in order, up to {MOST_NODES} nodes")
    steps_left_out: NonNegative = about("steps after them")


def read_trees(folder: Path, rows: Iterable[Row]) -> list[AnswerTrees]:
    """The trees of the rows, in their order; none where no file is. Raises OSError, or ValueError naming the line.

    Lines of other rows are passed over, and so is a last line that is half written: the run was broken off there.
    """
    path = folder / NAME
    if not path.exists():
        return []
    by_turn = {(row.question_id, row.turn): row for row in rows}
    found: dict[tuple[str, int], AnswerTrees] = {}
    for number, line in enumerate(path.read_bytes().splitlines(keepends=True), 1):
        if not line.endswith(b"\n"):
            break
        trees = parse(AnswerTrees, line, f"{path} line {number}")
        row = by_turn.get(key := (trees.question_id, trees.turn))
        if row is not None:
            if not _is_of(trees, row):
                raise ValueError(f"{path} line {number}: its trees are not of its row's steps; it is damaged")
            found[key] = trees
    return [found[key] for key in by_turn if key in found]


def _is_of(trees: AnswerTrees, row: Row) -> bool:
    """Are these whole trees that the row's steps verified?"""
    if len(trees.steps) + trees.steps_left_out != row.steps:
        return False
    at = 1
    for step, length, nodes in zip(trees.steps, row.accept_lengths, row.drafted_nodes, strict=False):
        if len(step.tokens) != nodes + 1 or not _is_tree(step):
            return False
        new = [*(step.tokens[node] for node in step.path[1:]), step.bonus]
        if new[:length] != row.token_ids[at : at + length]:
            return False
        at += length
    return True


def _is_tree(step: RecordedTree) -> bool:
    columns: tuple[Sequence[object] | None, ...] = (step.parents, step.probabilities, step.parts)
    return (
        all(one is None or len(one) == len(step.tokens) for one in columns)
        and step.parents[:1] == [-1]
        and all(0 <= parent < node for node, parent in enumerate(step.parents[1:], 1))
        and step.path[:1] == [0]
        and all(node < len(step.tokens) for node in step.path)
        and all(step.parents[node] == above for above, node in zip(step.path, step.path[1:], strict=False))
    )


class TreeRecorder:
    """questions: how many, from the first on."""

    def __init__(self, questions: int, tokenizer: Any) -> None:
        self.questions, self._tokenizer = questions, tokenizer
        self._answers: list[_Answer] = []

    def begin(self, question_id: str, turn: int, prompt: np.ndarray, drafter: Drafter) -> Callable[[Step], None]:
        """A turn begins; returns what is to be called with each of its steps. prompt: int64 [m]."""
        answer = _Answer(question_id, turn, prompt[-END_OF_PROMPT:].tolist(), drafter)
        self._answers.append(answer)
        return answer.see

    def take(self) -> list[AnswerTrees]:
        """The turns since the last call."""
        taken, self._answers = self._answers, []
        return [answer.trees(self._tokenizer) for answer in taken]


class _Answer:
    """The steps of one turn."""

    def __init__(self, question_id: str, turn: int, prompt: list[int], drafter: Drafter) -> None:
        self._place, self._prompt, self._drafter = (question_id, turn), prompt, drafter
        self._steps: list[RecordedTree] = []
        self._nodes = self._left_out = 0

    def see(self, step: Step) -> None:
        tree = step.tree
        self._nodes += len(tree)
        if self._nodes > MOST_NODES:
            self._left_out += 1
            return
        parts = self._drafter.node_parts(tree)
        probabilities = None if tree.probabilities is None else tree.probabilities.astype(float).round(4).tolist()
        self._steps.append(
            RecordedTree(
                tokens=tree.tokens.tolist(),
                parents=tree.parents.tolist(),
                probabilities=probabilities,
                parts=None if parts is None else list(parts),
                path=[int(node) for node in step.path],
                bonus=int(step.next_token),
            )
        )

    def trees(self, tokenizer: Any) -> AnswerTrees:
        tokens = {token for step in self._steps for token in (*step.tokens, step.bonus)}
        texts = {str(token): token_text(tokenizer, token) for token in sorted(tokens)}
        prompt = whole_unicode(str(tokenizer.decode(self._prompt)))
        return AnswerTrees(*self._place, prompt, texts, self._steps, self._left_out)


def token_text(tokenizer: Any, token: int) -> str:
    """A token's text as it stands within a text: some tokenizers drop the space before the first word."""
    twice, once = (str(tokenizer.decode(ids)) for ids in ([token, token], [token]))
    return whole_unicode(twice[len(once) :] if twice.startswith(once) else once)


def whole_unicode(text: str) -> str:
    """The text with lone surrogates, which no file can hold, as escapes."""
    return text.encode("utf-8", "backslashreplace").decode()
