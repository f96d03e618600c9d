from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import torch
from code_corpus import CORPUS, write_corpus
from safetensors.torch import load_file
from tiny import tiny_model, tiny_tokenizer

from aded.targets.eager import EagerTarget
from baselines.heads.medusa_heads import MedusaHeads
from scripts.medusa.answers import answer_all, answer_batch, batches, prompts, read_answers, stubs
from scripts.train_medusa import IGNORED, accepted, accuracies, examples, main, most_frequent, renumbered, train

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


@pytest.mark.parametrize("eos", [frozenset(), frozenset({5, 9, 40})])
def test_answers_in_a_batch_are_those_alone(eos: frozenset[int]) -> None:
    """Of unlike lengths, some ending early; the states are those that the output projection read."""
    model = tiny_model()
    batch = [[7, 8, 9], [3], [4, 5, 6, 7, 8, 9, 10, 11], [20, 21]]
    found = answer_batch(model, batch, eos, 20)
    for prompt, (ids, hidden) in zip(batch, found, strict=True):
        tensor = torch.tensor([prompt])
        expected = model.generate(  # type: ignore[operator]
            tensor,
            attention_mask=torch.ones_like(tensor),
            do_sample=False,
            max_new_tokens=20,
            eos_token_id=sorted(eos) or None,
        )
        assert ids == expected[0, len(prompt) :].tolist()
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
    """States of a closed walk over 12 tokens: each fixes all that follows."""
    torch.manual_seed(0)
    hidden = torch.nn.functional.normalize(torch.randn(12, 32)) * 6
    projection = hidden.clone()
    at = torch.arange(600) % 12
    states, targets = hidden[at].half(), torch.stack([(at + k) % 12 for k in (1, 2, 3)], dim=1)
    heads = MedusaHeads(3, 1, 32)
    before = accuracies(heads, states, targets, projection)
    train(heads, states, targets, projection, epochs=30, batch_size=64, learning_rate=1e-2)
    after = accuracies(heads, states, targets, projection)
    assert all(rates["top1"] < 0.2 for rates in before)
    assert all(rates["top1"] == 1 for rates in after)
    assert accepted(heads, states, targets, projection) == 4


@pytest.mark.slow
@pytest.mark.parametrize("every", [2, 50])
def test_the_command_writes_heads_and_prints_what_they_are_worth(
    every: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """validation_every=50: too few answers for any to be set aside."""
    tiny_model(vocab_size=128, max_position_embeddings=4096).save_pretrained(tmp_path / "model")
    tiny_tokenizer().save_pretrained(tmp_path / "model")
    write_corpus(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ADED_CACHE", str(tmp_path / "cache"))
    settings = ["prompts=8", "asking.max_new_tokens=8", "epochs=1", "out=heads", f"validation_every={every}", *CORPUS]
    monkeypatch.setattr("sys.argv", ["train_medusa", f"model={tmp_path / 'model'}", *settings])
    main()
    assert len(load_file(tmp_path / "heads" / "heads.safetensors")["tokens"])
    printed = capsys.readouterr().out
    assert ("head 4: top1" in printed) == (every == 2)
    assert ("mean accepted tokens on validation answers" in printed) == (every == 2)
