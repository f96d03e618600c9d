"""End to end on the real embedded model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from aded.aded_drafter import AdedDrafter
from aded.choice import Greedy
from aded.decode import decode
from aded.draft_makers.mcts import Mcts
from aded.embedded_model import embedded_model
from aded.human_eval_questions import HumanEval
from aded.ngram_file import NgramFile
from aded.pretrained import load_target
from aded.questions import ChatTemplate
from datastore.ngrams import count_ngrams


@pytest.mark.slow
def test_aded_answers_human_eval_as_generate_does() -> None:
    cache = Path("~/.cache/aded").expanduser()
    folder = str(embedded_model(cache))
    target, tokenizer = load_target(folder, dtype="float32", device="cpu", cache=str(cache))
    questions = HumanEval().questions()
    # The base is counted from other problems than those asked.
    known = [np.array(tokenizer(question.turns[0])["input_ids"], np.int64) for question in questions[12:]]
    base = NgramFile(Path("memory"), {}, {3: count_ngrams(known, 3, len(tokenizer))})
    drafter = AdedDrafter(base, Mcts(), budget=3)
    accepted = []
    for question in questions[:12]:
        prompt = np.array(ChatTemplate().ids(tokenizer, question.turns, []), np.int64)
        answer = decode(target, drafter, prompt, Greedy(), max_new_tokens=64)
        ids = torch.from_numpy(prompt)[None]
        plain = target.model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=64)
        assert answer.token_ids == plain[0, len(prompt) :].tolist()
        accepted += answer.accept_lengths
    assert sum(accepted) > 1.2 * len(accepted), "drafts are accepted"
