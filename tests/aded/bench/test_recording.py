from __future__ import annotations

import json
import logging
from pathlib import Path

import numpy as np
import pytest
from answer_lines import fastchat, row, written
from hypothesis import given
from hypothesis import strategies as st
from tiny import random_tree
from transformers import PreTrainedTokenizerFast

from aded.bench.questions import Question
from aded.bench.recording import Recording, load_for_replay
from aded.core.decode import decode
from aded.core.drafter import Drafter
from aded.core.sampler import Recorded
from aded.core.tree import DraftTree
from aded.errors import BadInput
from aded.targets.weightless import WeightlessTarget

PROMPT = np.array([1, 9, 9], np.int64)


class RandomTrees(Drafter):
    """Trees over a small vocabulary, so that many paths are accepted."""

    def begin(self, prompt_ids: np.ndarray, seed: int = 0) -> None:
        self.rng, self.drafted = np.random.default_rng(seed), list[DraftTree]()

    def draft(self, context: np.ndarray) -> DraftTree:
        self.drafted.append(random_tree(self.rng, int(self.rng.integers(1, 12)), int(context[-1]), 4))
        return self.drafted[-1]


def paths(tree: DraftTree) -> set[tuple[int, ...]]:
    """Every path of drafted tokens from the root."""
    found: list[tuple[int, ...]] = [()]
    for node in range(1, len(tree)):
        found.append((*found[tree.parents[node]], int(tree.tokens[node])))
    return set(found)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=40), st.integers(1, 50), st.booleans(), st.integers(0, 99))
def test_the_longest_drafted_path_of_the_answer_is_accepted(
    answer: list[int], limit: int, ends: bool, seed: int
) -> None:
    """By brute force over all drafted paths; the tokens are those of the answer, up to the limit."""
    answer, limit = [*answer, 5] if ends else answer, min(limit, len(answer) + ends)
    drafter = RandomTrees()
    done = decode(
        WeightlessTarget(),
        drafter,
        PROMPT,
        Recorded(answer),
        max_new_tokens=limit,
        eos_token_ids={5},
        seed=seed,
    )
    assert done.token_ids == answer[:limit]
    assert done.stop_reason == ("eos" if ends and limit == len(answer) else "limit")
    at = 1
    for tree, accepted in zip(drafter.drafted, done.accept_lengths, strict=True):
        longest = max(len(path) for path in paths(tree) if tuple(answer[at : at + len(path)]) == path)
        assert accepted == min(longest + 1, limit - at)
        at += accepted
    assert at == limit


def test_a_text_is_its_tokens_and_eos(tmp_path: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    recording = Recording(written(tmp_path, fastchat(81, "a</s>", "b")), tokenizer)
    first = recording.answer("81", 0, prompt_tokens=7)
    assert tokenizer.convert_ids_to_tokens(list(first.token_ids)) == ["a", "<", "/", "s", ">", "</s>"]
    assert first.text == "a</s>", "what looks like a special token was not one"
    raw = recording.answer("81", 0, prompt_tokens=7, raw=True)
    assert tokenizer.convert_ids_to_tokens(list(raw.token_ids)) == ["a", "</s>"], "it was one, and ends the answer"
    assert recording.answer("81", 1, 7, raw=True) == recording.answer("81", 1, 7), "one that ended in none has it too"
    assert recording.eos_token_ids == {tokenizer.eos_token_id}


def test_a_runs_rows_say_what_ends_an_answer(tmp_path: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    lines = (row("q", 0, [5, 2, 40]), row("r", 0, [6], "limit"))
    recording = Recording(written(tmp_path, *lines), tokenizer)
    assert recording.eos_token_ids == {40}, "the tokenizer's own, 2, ended nothing"
    assert recording.answer("q", 0, prompt_tokens=9).token_ids == (5, 2, 40)
    with pytest.raises(
        BadInput, match=r"question r, turn 0, was recorded after a prompt of 9 tokens and has one of 8"
    ):
        recording.answer("r", 0, prompt_tokens=8)


def test_what_cannot_be_replayed_is_skipped_by_name(
    tmp_path: Path, tokenizer: PreTrainedTokenizerFast, caplog: pytest.LogCaptureFixture
) -> None:
    lines = [
        fastchat(1, "whole", "answer"),
        fastchat(2, "", "b"),
        fastchat(3, "a"),
        fastchat(5, "a", json.loads('"\\ud83d"')),
        fastchat(99, "a", "b"),
        fastchat(6, "later", "later"),
    ]
    recording = Recording(written(tmp_path, *lines), tokenizer)
    questions = [Question(str(number), "", ("?", "??")) for number in range(1, 7)]
    with caplog.at_level(logging.WARNING):
        kept = recording.answered(questions[:5], questions)
    assert [question.id for question in kept] == ["1"]
    warnings = [message.split("answers.jsonl: ")[1] for message in caplog.messages]
    assert warnings == [
        "answer without its question, skipped 1: 99",
        "empty answer, skipped 1: 2",
        "question without an answer to each turn, skipped 1: 3",
        "question without an answer, skipped 1: 4",
        "answer cut in the middle of a character, skipped 1: 5",
    ]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (fastchat(81, "a"), "answers none of the benchmark's questions, but 81"),
        (fastchat(1, "a", "b"), "has 2 turns for question 1, which has 1; it belongs to another benchmark"),
        (fastchat(1, ""), "has no whole answer"),
    ],
)
def test_the_answers_to_another_benchmark_are_refused(
    tmp_path: Path, tokenizer: PreTrainedTokenizerFast, line: object, problem: str
) -> None:
    questions = [Question("1", "", ("?",))]
    with pytest.raises(BadInput, match=r"^model.answers: ") as error:
        Recording(written(tmp_path, line), tokenizer).answered(questions, questions)
    assert problem in str(error.value)


def test_a_folder_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"^model.tokenizer: no folder"):
        load_for_replay("answers.jsonl", str(tmp_path / "nowhere"))
