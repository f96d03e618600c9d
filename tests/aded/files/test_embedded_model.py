"""The whole way, from prompt to answer, with the embedded model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from aded.bench.human_eval import HumanEval
from aded.bench.questions import ChatTemplate
from aded.core.decode import decode
from aded.core.sampler import Greedy
from aded.drafters.trigram.drafter import AdedDrafter
from aded.drafters.trigram.search.mcts import Mcts
from aded.files.embedded_model import embedded_model
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


@pytest.mark.slow
def test_aded_answers_human_eval_as_generate_does() -> None:
    cache = Path("~/.cache/aded").expanduser()
    folder = str(embedded_model(cache))
    target, tokenizer, eos = load_target(folder, dtype="float32", device="cpu", cache=str(cache))
    stock: Any = load_target(folder, dtype="float32", device="cpu", cache=str(cache), kernels="torch").target
    # The 5 shortest problems are the prompts, for speed; the corpus counts come from the other problems.
    questions = sorted(HumanEval().questions(), key=lambda question: len(question.turns[0]))
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
