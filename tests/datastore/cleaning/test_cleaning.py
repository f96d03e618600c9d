"""Cleaned corpora, their files, and what merges and runs say of them."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from texts import Texts
from transformers import PreTrainedTokenizerFast

from aded.config.objects import instantiate
from aded.errors import BadInput
from aded.files.datastores.contamination import held_of
from aded.files.datastores.ngram_file import open_ngrams
from aded.identity import file_fingerprint
from datastore import info
from datastore.builder import build
from datastore.corpora.dataset_corpus import DatasetCorpus, TextCorpus
from datastore.merge import merge

QUESTIONS = [
    {"id": "q1", "prompt": "how many roads must a man walk down before they call him a man at last"},
    {"id": "q2", "prompt": "what is it"},
    {"id": "q3", "prompt": "a question that nobody asks in this small corpus of ours here today"},
]


@pytest.fixture
def questions(tmp_path: Path) -> str:
    path = tmp_path / "questions.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in QUESTIONS))
    return f"prompts:{path}"


def sentence(rng: random.Random, length: int = 12) -> str:
    return " ".join(rng.choice(["the", "cat", "sat", "on", "mat", "log", "dog", "ran"]) for _ in range(length))


def talk(*messages: str) -> dict[str, Any]:
    return {"conversations": [{"from": ("human", "gpt")[n % 2], "value": text} for n, text in enumerate(messages)]}


def rows(seed: int) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    made = [talk(f"tell me {rng.randrange(6)}", sentence(rng, 40)) for _ in range(8)]
    return [*made, talk(QUESTIONS[0]["prompt"] + "?", sentence(rng)), talk("What is it?", "that"), talk("ha " * 500)]


def corpus(path: Path, values: list[Any], **keys: Any) -> DatasetCorpus:
    path.write_text("".join(json.dumps(value) + "\n" for value in values))
    return DatasetCorpus("chat", path=str(path), **keys)


def test_conversations_of_every_form_are_read(tmp_path: Path) -> None:
    said = [("system", "be kind"), ("user", "Q"), ("assistant", "A")]
    values = [
        talk("Q", "A"),
        {"conversations": [{"from": "gpt", "value": "A"}, {"from": "human", "value": "Q"}]},
        {"data": ["Q", "A"]},
        {"conversation": [{"role": role, "content": text} for role, text in said]},
        {"messages": [{"role": role, "content": text, "value": None} for role, text in said]},
        {"text": "Q"},
    ]
    found = [(one.messages, one.prompt) for one in corpus(tmp_path / "c", values).conversations()]
    assert found == [
        (["Q", "A"], 0),
        (["A", "Q"], None),
        (["Q", "A"], 0),
        (["be kind", "Q", "A"], 1),
        (["be kind", "Q", "A"], 1),
        (["Q"], 0),
    ]


def test_hostile_rows_are_no_conversations(tmp_path: Path) -> None:
    values = [
        {"conversations": []},
        {"conversations": [[], {}, None, 3, {"value": {"a": 1}}, {"from": [], "value": "\ud800"}]},
        {"conversation": {"role": "user"}},
        {"messages": "text alone"},
        {"conversations": [{"from": ["human"], "value": "Q"}]},
        [],
        None,
    ]
    clean = corpus(tmp_path / "c", values, clean=("near_duplicates", "degenerate"))
    assert list(clean.documents()) == ["text alone", "Q"]
    assert len(clean.prompts()) == 2


def test_prompts_are_counted_whatever_their_white_space(tmp_path: Path) -> None:
    values = [talk("a  b", "x"), talk(" a\nb ", "y"), talk("A b"), {"conversations": [{"from": "gpt", "value": "c"}]}]
    read = corpus(tmp_path / "c", values)
    list(read.documents())
    assert len(read.prompts()) == 2


def test_each_rule_leaves_out_what_it_names(tmp_path: Path, questions: str) -> None:
    (tmp_path / "t").write_text("\n\n".join(["one text", "ha " * 500, "another"]))
    texts = TextCorpus("t", path=str(tmp_path / "t"), clean=("degenerate",))
    assert list(texts.documents()) == ["one text", "another"]
    values = [*rows(0), rows(0)[0], talk("ha " * 500, "well")]
    all_of_them = list(corpus(tmp_path / "c", values).documents())
    clean = corpus(tmp_path / "c", values, clean=("near_duplicates", "degenerate"), exclude=(questions,))
    documents = list(clean.documents())
    assert clean.cleaner
    assert clean.cleaner.left_out == {"contaminated": 2, "degenerate": 2, "near_duplicates": 1}
    assert documents == all_of_them[:16]
    assert list(clean.documents()) == documents  # a second reading is like the first
    assert clean.cleaner.left_out.total() == 5


def test_a_report_counts_conversations_that_stay(tmp_path: Path, questions: str) -> None:
    """Not those that are degenerate, nearly duplicates, or hold a question of a benchmark that is left out."""
    asked = QUESTIONS[0]["prompt"]
    other = tmp_path / "other.jsonl"
    other.write_text(
        json.dumps({"question_id": 81, "turns": ["the question of another benchmark is this one"]}) + "\n"
    )
    stays = talk(asked, sentence(random.Random(1), 40))
    values = [stays, stays, talk(asked, "ha " * 500), talk(asked, json.loads(other.read_text())["turns"][0])]
    rules = {"clean": ("near_duplicates", "degenerate"), "exclude": (f"mt_bench:{other}",)}
    for keys, times in (({}, 4), ({"clean": ("degenerate",)}, 3), (rules, 1)):
        read = corpus(tmp_path / "c", values, report=(questions,), **keys)
        list(read.documents())
        assert read.cleaner
        checks = json.loads(read.cleaner.header()["contamination"])
        assert checks["prompts"]["met"] == {"q1": times}
    assert checks["mt_bench"]["met"] == {"81": 1}


def test_the_default_is_every_conversation_under_its_old_name(tmp_path: Path) -> None:
    plain = corpus(tmp_path / "c", rows(0))
    assert len(list(plain.documents())) == 21
    assert plain.cleaner
    assert plain.cleaner.header() == {}
    names = {plain.identity, corpus(tmp_path / "c", rows(0), clean=()).identity}
    names |= {corpus(tmp_path / "c", rows(0), report=("human_eval",)).identity}
    assert len(names) == 2
    for text in ("a", "b"):
        (tmp_path / "q").write_text(text)
        names |= {corpus(tmp_path / "c", rows(0), report=(f"prompts:{tmp_path}/q",)).identity}
    assert len(names) == 4


def test_a_merge_of_parts_knows_prompts_and_questions_as_a_single_build_does(
    tmp_path: Path, tokenizer: PreTrainedTokenizerFast, questions: str
) -> None:
    parts = [rows(seed) for seed in range(3)]
    keys: dict[str, Any] = {"clean": ("degenerate",), "exclude": (questions,)}
    build(
        corpus(tmp_path / "c", [row for part in parts for row in part], **keys),
        tokenizer,
        out=tmp_path / "whole",
        order=3,
    )
    for number, values in enumerate(parts):
        build(corpus(tmp_path / "c", values, **keys), tokenizer, out=tmp_path / str(number), order=3)
    for order in ((0, 1, 2), (2, 0, 1)):
        merge(tmp_path / "merged", [tmp_path / str(number) for number in order])
        assert (tmp_path / "merged").read_bytes() == (tmp_path / "whole").read_bytes()
    header = open_ngrams(tmp_path / "merged").header
    asked = {row["conversations"][0]["value"] for part in parts for row in part[:8]}
    assert int(header["prompts"]) == len(asked)
    assert json.loads(header["left_out"]) == {"contaminated": 6, "degenerate": 3}
    assert json.loads(header["contamination"])["prompts"]["met"] == {"q1": 3, "q2": 3}


def test_parts_that_were_checked_in_another_way_are_not_checked(
    tmp_path: Path, tokenizer: PreTrainedTokenizerFast, questions: str
) -> None:
    """For a report of what was left out, for another file of prompts, or for none."""
    other = tmp_path / "other.jsonl"
    other.write_text("".join(json.dumps(one | {"more": 1}) + "\n" for one in QUESTIONS))
    checks: dict[str, dict[str, Any]] = {
        "a": {"exclude": (questions,)},
        "b": {"report": (questions,)},
        "c": {"report": (f"prompts:{other}",)},
        "d": {"report": ("human_eval",)},
        "e": {},
    }
    for name, keys in checks.items():
        build(corpus(tmp_path / "rows", rows(0), **keys), tokenizer, out=tmp_path / name, order=2)
    for second in "bce":
        merge(tmp_path / "merged", [tmp_path / "a", tmp_path / second])
        assert "contamination" not in open_ngrams(tmp_path / "merged").header
    asked, more = file_fingerprint(questions.partition(":")[2]), file_fingerprint(other)
    assert asked
    assert more
    said = {name: open_ngrams(tmp_path / name).describe().get("datastore_questions") for name in checks}
    assert said == {
        "a": f"prompts:{asked[:8]} 0 of 3",
        "b": f"prompts:{asked[:8]} 2 of 3",
        "c": f"prompts:{more[:8]} 2 of 3",
        "d": "human_eval 0 of 164",
        "e": None,
    }
    assert held_of(said["b"], "prompts", asked) == "2 of 3"
    for unknown in (("b", "prompts", more), ("b", "prompts", None), ("b", "mt_bench", None), ("e", "prompts", asked)):
        assert held_of(said[unknown[0]], *unknown[1:]) == "not checked"


def test_info_prints_which_questions_were_met(
    tmp_path: Path, tokenizer: PreTrainedTokenizerFast, questions: str
) -> None:
    chosen = corpus(tmp_path / "c", rows(0), report=(questions,), clean=("degenerate",))
    build(chosen, tokenizer, out=tmp_path / "a", suffixes=tmp_path / "s", order=2)
    build(Texts("ab"), tokenizer, out=tmp_path / "b", order=2)
    mark = f"prompts:{file_fingerprint(questions.partition(':')[2])}"[:16]
    for name in "as":
        lines = [line.split() for line in info.describe(tmp_path / name, None, 1).splitlines()]
        assert ["contamination", mark, "2", "of", "3"] in lines
        assert ["left_out", "1", "degenerate"] in lines
        assert ["q1", "1"] in lines
    plain = info.describe(tmp_path / "b", None, 1)
    assert "contamination  not checked" in plain
    assert "prompts        1" in plain


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"clean": ["all"]}, "corpus.clean"),
        ({"exclude": [3]}, "corpus.exclude"),
        ({"exclude": ["nonesuch"]}, "corpus.exclude: nonesuch"),
        ({"exclude": ["human_eval"], "report": ["human_eval"]}, "corpus.report: human_eval is named twice"),
    ],
)
def test_bad_keys_are_named_in_one_line(keys: dict[str, Any], problem: str, tmp_path: Path) -> None:
    (tmp_path / "c").write_text('{"text": "a"}\n')
    target = {"_target_": "datastore.corpora.dataset_corpus.DatasetCorpus", "name": "x", "path": str(tmp_path / "c")}
    with pytest.raises(BadInput, match=rf"^{problem}"):
        list(instantiate({**target, **keys}, "corpus").documents())
