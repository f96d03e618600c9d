"""The draft trees of a run's first questions: what is kept, how much of it, and that nothing else changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_up_run import row

from aded.core.step import Step
from aded.core.tree import DraftTree
from aded.records.rows import parse, to_json
from aded.records.trees import MOST_NODES, AnswerTrees, RecordedTree, TreeRecorder, read_trees, token_text
from baselines.autoregressive import Autoregressive

# Root 5 with the drafts "6 7" and "8": 6 and 7 are accepted, 9 is the bonus token; then a step without drafts.
STEPS = [
    RecordedTree([5, 6, 7, 8], [-1, 0, 1, 0], [1.0, 0.5, 0.25, 0.1], None, [0, 1, 2], 9),
    RecordedTree([9], [-1], None, None, [0], 2),
]
ROW = row(1, 0, [3, 1], token_ids=[5, 6, 7, 9, 2], drafted_nodes=[3, 0])
TREES = AnswerTrees("1", 0, "a prompt", {"5": "five"}, STEPS, 0)


class Letters:
    """A tokenizer of one letter per token, which drops the space at a text's beginning."""

    def decode(self, ids: list[int]) -> str:
        return "".join({0: " a", 1: "\ud800", 2: "\0<", 3: "\u202e"}[one] for one in ids).removeprefix(" ")


def write(folder: Path, *lines: AnswerTrees | str) -> Path:
    texts = [one if isinstance(one, str) else to_json(one) + "\n" for one in lines]
    (folder / "trees.jsonl").write_text("".join(texts))
    return folder


def test_trees_are_read_beside_their_rows(tmp_path: Path) -> None:
    assert read_trees(tmp_path, [ROW]) == []
    assert read_trees(write(tmp_path, TREES), [ROW]) == [TREES]
    assert read_trees(tmp_path, [row(2, 0, [1])]) == [], "of another question"
    assert read_trees(write(tmp_path, TREES, to_json(TREES)[:40]), [ROW]) == [TREES], "the last line is cut"


@pytest.mark.parametrize(
    "change",
    [
        {"tokens": [5, 6, 4, 8]},
        {"tokens": [5, 6, 7]},
        {"parents": [-1, 0, 0, 0]},
        {"path": [0, 9]},
        {"bonus": 8},
        {"probabilities": [1.0]},
        {"parts": ["corpus"]},
    ],
)
def test_trees_that_are_not_those_of_the_row_are_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    damaged: dict[str, Any] = json.loads(to_json(TREES))
    damaged["steps"][0] |= change
    write(tmp_path, json.dumps(damaged) + "\n")
    with pytest.raises(ValueError, match=r"trees.jsonl line 1: "):
        read_trees(tmp_path, [ROW])


def test_an_answer_s_trees_are_bounded() -> None:
    """Whole steps are kept up to the bound, and how many there were after them."""
    recorder = TreeRecorder(1, Letters())
    see = recorder.begin("q", 0, np.array([0, 0]), Autoregressive())
    tree = DraftTree.chain(0, [2] * 999)
    for _ in range(MOST_NODES // 1000 + 5):
        see(Step(tree, [0], 0))
    (trees,) = recorder.take()
    assert (len(trees.steps), trees.steps_left_out, trees.prompt) == (MOST_NODES // 1000, 5, "a a")
    assert recorder.take() == []


def test_a_step_keeps_what_the_drafter_says_of_its_nodes() -> None:
    class Sure(Autoregressive):
        def node_parts(self, tree: DraftTree) -> list[str]:
            return ["", *["corpus"] * tree.drafted]

    recorder = TreeRecorder(1, Letters())
    see = recorder.begin("q", 0, np.array([0]), Sure())
    see(Step(DraftTree(np.array([0, 2]), np.array([-1, 0]), np.array([1, 1 / 3], np.float32)), [0, 1], 3))
    see(Step(DraftTree.root(3), [0], 0))
    assert recorder.take()[0].steps == [
        RecordedTree([0, 2], [-1, 0], [1.0, 0.3333], ["", "corpus"], [0, 1], 3),
        RecordedTree([3], [-1], None, [""], [0], 0),
    ]


@pytest.mark.parametrize(("token", "text"), [(0, " a"), (1, "\\ud800"), (2, "\0<"), (3, "\u202e")])
def test_a_token_has_its_text_as_it_stands_within_a_text(token: int, text: str) -> None:
    assert token_text(Letters(), token) == text
    trees = AnswerTrees("\0<q>", 0, "", {str(token): text}, [], 0)
    assert parse(AnswerTrees, to_json(trees), "here") == trees
