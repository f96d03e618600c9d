"""The endless session in small."""

import json
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from command import Command
from small_ngrams import write_small_ngrams
from tiny import tiny_tokenizer

from aded.core.tree import DraftTree
from aded.drafters.backoff.drafter import BackoffDrafter
from datastore.ngrams import count_ngrams
from scripts.bench.endless import COLUMNS, CONTEXTS, accepted, endless, main, replay, unpredictable

VOCABULARY = 40


def drafter() -> BackoffDrafter:
    stream = np.tile(np.arange(10), 30)
    file = count_ngrams([stream], 5, VOCABULARY)
    return BackoffDrafter(file, budget=8, contexts=CONTEXTS, cost="none", max_contexts=1024, max_history=1024)


def test_a_step_decides_the_walk_and_one_token_more() -> None:
    tree = DraftTree(np.array([1, 2, 3, 4, 4]), np.array([-1, 0, 1, 0, 2]))
    assert accepted(tree, np.array([2, 3, 4, 5])) == 4
    assert accepted(tree, np.array([4, 4, 4])) == 2
    assert accepted(tree, np.array([9])) == 1


def test_answers_come_again_with_some_of_their_tokens_changed() -> None:
    answers = [np.arange(300), np.arange(500, 700)]
    rounds = list(islice(endless(answers, 0.2, np.random.default_rng(0)), 4))
    assert sorted(map(len, rounds)) == [200, 200, 300, 300]
    for text in rounds:
        same = (text == answers[0 if len(text) == 300 else 1]).mean()
        assert 0.6 < same < 0.95


def test_a_row_per_part() -> None:
    rng = np.random.default_rng(0)
    rows = list(replay(drafter(), endless([np.arange(10).repeat(9) % 7], 0.0, rng), 2, 500))
    assert [tuple(row) for row in rows] == [COLUMNS, COLUMNS]
    assert rows[1]["tokens"] >= 1000
    assert rows[1]["mean_accepted_tokens"] > 2, "it repeats"
    assert rows[1]["own_mb"] > 0
    nothing = list(replay(drafter(), unpredictable(VOCABULARY, rng), 1, 1500))
    assert nothing[0]["mean_accepted_tokens"] < 1.5


def test_the_command_ends_in_a_line_of_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    write_small_ngrams(tmp_path / "tiny.ngrams", [np.tile(np.arange(10), 30)], 128)
    tiny_tokenizer().save_pretrained(tmp_path / "tokenizer")
    answer = {"question_id": 1, "choices": [{"turns": ["the cat sat on the mat and the rat sat on the cat"]}]}
    (tmp_path / "answers.jsonl").write_text(json.dumps(answer) + "\n")
    monkeypatch.chdir(tmp_path)
    from_answers = ["answers=answers.jsonl", "tokenizer=tokenizer", "changed=0.2"]
    for arguments in (["random=true"], ["--random"], from_answers):
        done = command(main, "datastore=tiny.ngrams", "millions=0.001", *arguments)
        *_, numbers, last = done.out.splitlines()
        (row,) = json.loads(last)["rows"]
        assert list(row) == list(COLUMNS)
        assert row["tokens"] >= 1000
        assert numbers.split() == [str(value) for value in row.values()]


@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        (["random=true"], "datastore"),
        (["datastore=nowhere"], "answers"),
        (["datastore=nowhere", "random=true", "answers=a"], "answers"),
        (["datastore=nowhere", "answers=a"], "answers"),
        (["datastore=nowhere", "random=true", "millions=0"], "millions"),
        (["datastore=nowhere", "random=true", "changed=2"], "changed"),
    ],
)
def test_bad_settings_are_reported_in_one_line(arguments: list[str], key: str, command: Command) -> None:
    assert command.refusal(main, *arguments).startswith(f"{key}: ")
