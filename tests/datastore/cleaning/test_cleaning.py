import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
from answer_lines import written
from texts import Texts
from transformers import PreTrainedTokenizerFast

from aded.config.objects import instantiate
from aded.errors import BadInput
from aded.files.datastores.cleaning import held_of
from aded.files.datastores.ngram_file import open_ngrams
from aded.identity import file_fingerprint
from datastore import info
from datastore.builder import build
from datastore.cleaning.overlap import LONGEST, SHORTEST, AskedTexts, Overlap, asked_texts
from datastore.corpora.dataset_corpus import DatasetCorpus, TextCorpus
from datastore.merge import merge

QUESTIONS = [
    {"id": "q1", "prompt": "how many roads must a man walk down before they call him a man at last"},
    {"id": "q2", "prompt": "what is it"},
    {"id": "q3", "prompt": "a question that nobody asks in this small corpus of ours here today"},
]


@pytest.fixture
def questions(tmp_path: Path) -> str:
    return f"prompts:{written(tmp_path, *QUESTIONS, name='questions.jsonl')}"


def sentence(rng: random.Random, length: int = 12) -> str:
    return " ".join(rng.choice(["the", "cat", "sat", "on", "mat", "log", "dog", "ran"]) for _ in range(length))


def talk(*messages: str) -> dict[str, Any]:
    return {"conversations": [{"from": ("human", "gpt")[n % 2], "value": text} for n, text in enumerate(messages)]}


def rows(seed: int) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    made = [talk(f"tell me {rng.randrange(6)}", sentence(rng, 40)) for _ in range(8)]
    return [*made, talk(QUESTIONS[0]["prompt"] + "?", sentence(rng)), talk("What is it?", "that"), talk("ha " * 500)]


def corpus(path: Path, values: list[Any], **keys: Any) -> DatasetCorpus:
    return DatasetCorpus("chat", path=str(written(path.parent, *values, name=path.name)), **keys)


def test_conversations_of_every_form_are_read(tmp_path: Path) -> None:
    said = [("system", "be kind"), ("user", "Q"), ("assistant", "A")]
    texts = [text for _, text in said]
    values = {
        json.dumps(talk("Q", "A")): (["Q", "A"], 0),
        '{"conversations": [{"from": "gpt", "value": "A"}, {"from": "human", "value": "Q"}]}': (["A", "Q"], None),
        '{"data": ["Q", "A"]}': (["Q", "A"], 0),
        json.dumps({"conversation": [{"role": role, "content": text} for role, text in said]}): (texts, 1),
        json.dumps({"messages": [{"role": role, "content": text, "value": None} for role, text in said]}): (texts, 1),
        '{"text": "Q"}': (["Q"], 0),
        '{"conversations": [[], {}, null, 3, {"value": {"a": 1}}, {"from": ["human"], "value": "Q"}]}': (["Q"], 0),
    }
    found = corpus(tmp_path / "c", [json.loads(value) for value in values]).conversations()
    assert [(one.messages, one.prompt) for one in found] == list(values.values())


def test_prompts_are_counted_whatever_their_white_space(tmp_path: Path) -> None:
    spaced = [talk("a  b", "x"), talk(" a\nb ", "y"), talk("A b"), {"conversations": [{"from": "gpt", "value": "c"}]}]
    read = corpus(tmp_path / "c", spaced)
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
    asked = QUESTIONS[0]["prompt"]
    turn = "the question of another benchmark is this one"
    other = written(tmp_path, {"question_id": 81, "turns": [turn]}, name="other.jsonl")
    stays = talk(asked, sentence(random.Random(1), 40))
    values = [stays, stays, talk(asked, "ha " * 500), talk(asked, turn)]
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
    names = [plain.identity, corpus(tmp_path / "c", rows(0), clean=()).identity]
    for text in ("a", "b"):
        (tmp_path / "q").write_text(text)
        names.append(corpus(tmp_path / "c", rows(0), report=(f"prompts:{tmp_path}/q",)).identity)
    assert names[0] == names[1]
    assert len(set(names)) == 3


def test_merges_keep_equal_checks_alone(tmp_path: Path, tokenizer: PreTrainedTokenizerFast, questions: str) -> None:
    other = written(tmp_path, *(one | {"more": 1} for one in QUESTIONS), name="other.jsonl")
    reports = {"b": questions, "c": f"prompts:{other}", "d": "human_eval"}
    checks: dict[str, dict[str, Any]] = {"a": {"exclude": (questions,)}, "e": {}}
    for name, keys in {**checks, **{name: {"report": (one,)} for name, one in reports.items()}}.items():
        build(corpus(tmp_path / "rows", rows(0), **keys), tokenizer, out=tmp_path / name, order=2)
    for second in "bce":
        merge(tmp_path / "merged", [tmp_path / "a", tmp_path / second])
        assert "contamination" not in open_ngrams(tmp_path / "merged").header
    asked, more = file_fingerprint(questions.partition(":")[2]), file_fingerprint(other)
    said = {name: open_ngrams(tmp_path / name).describe().get("datastore_questions") for name in "abcde"}
    files = [f"prompts:{asked:.8} 0 of 3", f"prompts:{asked:.8} 2 of 3", f"prompts:{more:.8} 2 of 3"]
    assert list(said.values()) == [*files, "human_eval 0 of 164", None]
    assert held_of(said["b"], "prompts", asked) == "2 of 3"
    for unknown in (("b", "prompts", more), ("b", "prompts", None), ("b", "mt_bench", None), ("e", "prompts", asked)):
        assert held_of(said[unknown[0]], *unknown[1:]) == "not checked"


def test_info_prints_the_questions_met(tmp_path: Path, tokenizer: PreTrainedTokenizerFast, questions: str) -> None:
    chosen = corpus(tmp_path / "c", rows(0), report=(questions,), clean=("degenerate",))
    build(chosen, tokenizer, out=tmp_path / "a", order=2)
    build(Texts("ab"), tokenizer, out=tmp_path / "b", order=2)
    lines = [line.split() for line in info.describe(tmp_path / "a", None, 1).splitlines()]
    assert ["left_out", "1", "degenerate"] in lines
    assert open_ngrams(tmp_path / "a").describe()["datastore_left_out"] == "1 degenerate"
    assert ["q1", "1"] in lines
    assert "not checked" in info.describe(tmp_path / "b", None, 1)


def test_bad_keys_are_named_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "c").write_text('{"text": "a"}\n')
    target = {"_target_": "datastore.corpora.dataset_corpus.DatasetCorpus", "name": "x", "path": str(tmp_path / "c")}
    bad: dict[str, dict[str, Any]] = {
        "corpus.clean": {"clean": ["all"]},
        "corpus.exclude": {"exclude": [3]},
        "corpus.exclude: nonesuch: .*nonesuch": {"exclude": ["nonesuch"]},
        "corpus.exclude: prompts: .*question_file": {"exclude": ["prompts"]},
        "corpus.exclude: human_eval:x: .*question_file": {"exclude": ["human_eval:x"]},
        "corpus.report: prompts:none.jsonl: .*none.jsonl": {"report": ["prompts:none.jsonl"]},
        "corpus.report: human_eval is named twice": {"exclude": ["human_eval"], "report": ["human_eval"]},
    }
    for problem, keys in bad.items():
        with pytest.raises(BadInput, match=rf"^{problem}.*$"):
            list(instantiate({**target, **keys}, "corpus").documents())


LONG = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"


def overlap(*questions: AskedTexts, left_out: bool = True) -> Overlap:
    return Overlap({"bench": questions}, {"bench": left_out}, {})


def met(checker: Overlap, *messages: str) -> bool:
    held = checker.held(messages)
    left_out = checker.leaves_out(held)
    checker.count(held, left_out=left_out)
    return left_out


def asked(number: int, *turns: str, references: tuple[str, ...] = ()) -> AskedTexts:
    return AskedTexts(str(number), turns, references)


def plain_met(questions: list[AskedTexts], messages: list[str]) -> set[str]:
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
    checker = overlap(asked(1, LONG))
    assert met(checker, " ".join(LONG.split()[2:])), "13 words in a row"
    assert not met(checker, " ".join(LONG.split()[3:]), " ".join(LONG.split()[:12]))


def test_short_questions_must_be_contained_and_shorter_ones_be_the_message() -> None:
    eight = "what is the capital of the old country"
    checker = overlap(asked(1, eight), asked(2, "hi"), asked(3, "Tell me a joke.", "and now another"))
    for message in (f"please say {eight} now", "Hi!", "tell me a joke"):
        assert met(checker, message)
    for message in ("hi there", "he said: tell me a joke", "what is the capital of the old", "and now another"):
        assert not met(checker, message)
    assert checker.checks["bench"].met == {"1": 1, "2": 1, "3": 1}


def test_a_question_word_for_word_is_met_whatever_it_shares_with_others() -> None:
    shares = asked(1, "Tell me a joke"), asked(2, "Tell me a story"), asked(3, LONG), asked(4, LONG + " x y z")
    checker = overlap(*shares)
    assert met(checker, "tell me a joke!")
    assert met(checker, LONG)
    assert not met(checker, "Tell me a")
    assert checker.checks["bench"].met == {"1": 1, "3": 1}


def test_what_a_benchmark_adds_to_its_questions_is_not_the_question() -> None:
    before, after = "You are an expert. Here is your task", "please reason step by step and put the answer in a box"
    texts = LONG, "how many apples has Ann altogether", "how many pears has Bob altogether"
    checker = overlap(*(asked(n, f"{before} {text} {after}") for n, text in enumerate(texts)))
    assert not met(checker, f"Something else altogether {after}", f"{before} how many")
    assert met(checker, f"well {LONG}")
    shared = "these thirteen words are in several of the questions and so mean nothing at all"
    checker = overlap(asked(1, f"{LONG} {shared} x"), asked(2, f"quite another one {shared} y z"))
    assert not met(checker, shared)
    assert met(checker, LONG)


def test_two_questions_with_one_text_are_both_met_and_a_report_leaves_nothing_out() -> None:
    checker = overlap(asked(1, LONG), asked(2, LONG), asked(3, "x y z"), left_out=False)
    assert not met(checker, LONG)
    assert not met(checker, f"well {LONG}")
    assert not met(checker, "\ud800", "", "\0" * 50, "a" * 100_000, "🙂")
    assert checker.checks["bench"].met == {"1": 2, "2": 2}
    assert checker.checks["bench"].held == "2 of 3"


def test_benchmarks_come_by_name() -> None:
    found = asked_texts("human_eval", "corpus.exclude")
    assert len(found) == 164
    assert "has_close_elements" in found[0].turns[0]
    assert "abs(elem - elem2)" in found[0].references[0]


def test_a_question_without_text_is_refused_by_its_line(tmp_path: Path) -> None:
    file = tmp_path / "my.jsonl"
    silent = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": ""}]
    lines = {"prompt": " \n\t"}, {"turns": [" ", "\u3000"]}, {"prompt_ids": [1, 2]}, {"messages": silent}
    for line in lines:
        file.write_text(json.dumps({"prompt": "one"}) + "\n\n" + json.dumps({"id": "x", **line}) + "\n")
        with pytest.raises(BadInput, match=rf"^corpus.report: .*{re.escape(str(file))} line 3\b"):
            asked_texts(f"prompts:{file}", "corpus.report")
