import itertools
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from command import Command
from safetensors import safe_open
from safetensors.torch import load_file
from texts import CODE, Texts, write_code
from tiny import generated, tiny_model, tiny_tokenizer

from aded.bench.questions import ChatTemplate
from aded.targets.eager import EagerTarget
from baselines.heads.medusa import MedusaHeads
from datastore.cleaning.cleaning import Cleaning
from datastore.corpora.corpus import Conversation
from scripts.train.answers import (
    IGNORED,
    answer_all,
    answer_batch,
    batches,
    chat_prompts,
    most_frequent,
    prompts,
    read_answers,
    read_pairs,
    stubs,
)
from scripts.train.medusa import accepted, examples, main, renumbered, train

pytestmark = pytest.mark.thorough
SOURCE = '''
class Shelf:
    def add(self, book):
        """Put a book on the shelf.

        It goes last."""
        self.books.append(book)

def undocumented():
    pass

def count(shelf):
    """How many books there are."""
    return len(shelf.books)
'''


def test_stubs_are_headers_with_docstrings() -> None:
    assert list(stubs(SOURCE)) == [
        'def count(shelf):\n    """How many books there are."""\n',
        'def add(self, book):\n    """Put a book on the shelf.\n\n    It goes last."""\n',
    ]
    assert list(stubs("def broken(:")) == []


def test_prompts_are_as_asked() -> None:
    def some(raw_share: float, seed: int = 0) -> list[list[int]]:
        return list(itertools.islice(prompts([SOURCE] * 20, tiny_tokenizer(), 150, raw_share, seed), 12))

    chat, raw = some(0.0), some(1.0)
    assistant = tiny_tokenizer().convert_tokens_to_ids("<|assistant|>")
    assert all(ids[-1] == assistant and len(ids) <= 150 for ids in chat)
    assert all(assistant not in ids and 0 < len(ids) <= 150 for ids in raw)
    assert len(raw) == 12
    assert chat == some(0.0)
    assert chat != some(0.0, seed=1)


def test_each_prompt_of_conversations_is_asked_once() -> None:
    tokenizer = tiny_tokenizer()
    chats = [Conversation([f"hi {n % 3}", "hello", "bye"], 0) for n in range(9)]
    chats += [Conversation(["be kind", "why"], 1), Conversation(["an answer"], None), Conversation(["a " * 99], 0)]
    expected = [ChatTemplate().ids(tokenizer, [text], []) for text in ("hi 0", "hi 1", "hi 2", "why")]
    longest = max(map(len, expected))
    found = list(chat_prompts(Texts(*chats), tokenizer, longest, seed=0))
    assert sorted(found) == sorted(expected)
    assert found == list(chat_prompts(Texts(*chats), tokenizer, longest, seed=0))
    orders = [list(chat_prompts(Texts(*chats), tokenizer, longest, seed)) for seed in range(8)]
    assert any(order != found for order in orders)
    chats = [Conversation(["hi", "hello " * 99], 0), Conversation(["why", "so"], 0)]
    cleaned = Texts(*chats, cleaning=Cleaning(clean=["degenerate"]))
    assert list(chat_prompts(cleaned, tokenizer, 200, seed=0)) == [expected[-1]]


@pytest.mark.parametrize("eos", [frozenset(), frozenset({5, 9, 40})])
def test_answers_in_a_batch_are_those_alone(eos: frozenset[int]) -> None:
    model: Any = tiny_model()
    batch = [[7, 8, 9], [3], [4, 5, 6, 7, 8, 9, 10, 11], [20, 21]]
    found = answer_batch(model, batch, eos, 20)
    for prompt, (ids, hidden) in zip(batch, found, strict=True):
        assert ids == generated(model, prompt, 20, eos_token_id=sorted(eos) or None)
        assert model.lm_head(hidden.float()).argmax(dim=-1).tolist() == ids


def test_answers_are_kept_in_shards(tmp_path: Path) -> None:
    target = EagerTarget(tiny_model())
    asked = [[token] * (1 + token % 4) for token in range(7)]

    def answer(count: int) -> list[Path]:
        return answer_all(target.model, asked[:count], frozenset(), tmp_path, most=6, batch_size=3)

    shards = answer(7)
    assert [len(load_file(path)["lengths"]) for path in shards] == [3, 3, 1]
    before = [path.stat().st_mtime_ns for path in shards]
    shards[1].unlink()
    assert answer(7) == shards, "what is missing is answered again, and only that"
    after = [path.stat().st_mtime_ns for path in shards]
    assert [old == new for old, new in zip(before, after, strict=True)] == [True, False, True]
    asked[0] = [50]
    answer(7)
    assert next(read_pairs(shards))[0] == [50], "another prompt is answered anew"
    assert sum(len(batch) for batch in batches(asked, 3)) == 7
    assert [len(ids) for ids, _ in read_answers(shards)] == [6] * 7


def test_a_state_is_paired_with_the_tokens_after_it(tmp_path: Path) -> None:
    target = EagerTarget(tiny_model())
    shards = answer_all(target.model, [[1], [2, 3]], frozenset(), tmp_path, most=4, batch_size=2)
    states, targets, numbers = examples(shards, 3)
    first, second = [ids.tolist() for ids, _ in read_answers(shards)]
    assert numbers.tolist() == [0] * 4 + [1] * 4
    assert targets.tolist() == [
        [*ids[i + 1 : i + 4], *[IGNORED] * (3 - len(ids[i + 1 : i + 4]))] for ids in (first, second) for i in range(4)
    ]
    assert target.model.lm_head(states.float()).argmax(dim=-1).tolist() == first + second


def test_only_the_most_frequent_tokens_are_distinguished() -> None:
    targets = torch.tensor([[9, 4], [9, IGNORED], [2, 4], [9, 7]])
    kept = most_frequent(targets, 2)
    assert kept.tolist() == [4, 9]
    assert renumbered(targets, kept).tolist() == [[1, 0], [1, IGNORED], [IGNORED, 0], [1, IGNORED]]


def test_heads_learn_what_can_be_known() -> None:
    torch.manual_seed(0)
    hidden = torch.nn.functional.normalize(torch.randn(12, 32)) * 6
    projection = hidden.clone()
    at = torch.arange(600) % 12
    states, targets = hidden[at].half(), torch.stack([(at + k) % 12 for k in (1, 2, 3)], dim=1)
    heads = MedusaHeads(3, 1, 32)
    assert accepted(heads, states, targets, projection) < 3
    train(heads, states, targets, projection, epochs=30, batch_size=64, learning_rate=1e-2)
    assert accepted(heads, states, targets, projection) == 4


def test_chats_are_asked_too(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
    """Beside those of code, whose answers are kept. Of so few answers none is set aside for validation."""
    write_code(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ADED_CACHE", str(tmp_path / "cache"))
    rows = [{"conversations": [{"from": "human", "value": f"hi {n}"}]} for n in range(4)]
    (tmp_path / "chat.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    settings = [f"model={folder}", "prompts=8", "asking.max_new_tokens=8", "epochs=1", "out=heads", *CODE]

    def train_heads(*more: str) -> dict[Path, int]:
        done = command(main, *settings, *more)
        assert done.code == 0, done.err
        assert ("on validation answers" in done.out) == ("validation_every=2" in more)
        return {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").rglob("answers-*.safetensors")}

    code = train_heads("validation_every=2")
    after = train_heads("corpus@chat=jsonl", "chat.path=chat.jsonl")
    assert code.items() < after.items()
    shards = [load_file(path) for path in after.keys() - code.keys()]
    assert sum(len(shard["lengths"]) for shard in shards) == len(rows)
    with safe_open("heads/heads.safetensors", "pt") as file:
        assert file.metadata()["corpus"].startswith("jsonl, jsonl-")
        assert len(file.get_tensor("tokens"))
    short = ["corpus@chat=jsonl", "chat.path=chat.jsonl", "asking.longest_prompt=1"]
    assert command.refusal(main, *settings, *short).startswith("chat: ")
    Path("heads/heads.safetensors").write_bytes(b"another's")
    assert command.refusal(main, *settings).startswith("out: heads/heads.safetensors is there, and not as aded wrote")
