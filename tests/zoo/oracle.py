"""Is a target's answer that of the model's own `generate`, when drafts hold the right answer among others?"""

from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np
import torch
from families import VOCABULARY
from transformers import LogitsProcessor, LogitsProcessorList, PreTrainedModel

from aded.core.decode import decode
from aded.core.drafter import Drafter
from aded.core.sampler import Greedy, Sampled, Sampler
from aded.core.target import Target
from aded.core.tree import DraftTree

PROMPTS = (12, 1, 30)
"""Tokens: more than a window, the fewest, and near a change of rotary frequencies."""
ROUNDING, ATTEMPTS = 1e-5, 8


class Oracle(Drafter):
    """Drafts that hold up to 13 tokens of the right answer, among up to 6 wrong ends of it, in any order."""

    def __init__(self, answer: Sequence[int]) -> None:
        self.answer = list(answer)

    def begin(self, prompt_ids: np.ndarray, seed: int = 0) -> None:
        self.rng, self.prompt_length = np.random.default_rng(seed), len(prompt_ids)

    def draft(self, context: np.ndarray) -> DraftTree:
        done = len(context) - self.prompt_length
        right = self.answer[done : done + int(self.rng.integers(14))]
        drafts = []
        for _ in range(int(self.rng.integers(7))):
            wrong = self.rng.integers(2, VOCABULARY, int(self.rng.integers(1, 12)))
            drafts.append([*right[: int(self.rng.integers(len(right) + 1))], *wrong.tolist()])
        drafts.insert(int(self.rng.integers(len(drafts) + 1)), right)
        return DraftTree.from_sequences(int(context[-1]), drafts, 60)


class Chosen(LogitsProcessor):
    """Leaves `generate` the one token that our sampler chooses; `margin`: how near another token was, over all."""

    def __init__(self, sampler: Sampler, prompt_length: int) -> None:
        self.sampler, self.prompt_length, self.margin = sampler, prompt_length, float("inf")

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        row, position = scores[0], input_ids.shape[1] - self.prompt_length
        if isinstance(self.sampler, Sampled):
            token = self.sampler.draw(row, position)
            borders = self.sampler.distribution(row).cumsum(0) - self.sampler.uniform(position)
            nucleus = row.double().softmax(0).sort(descending=True).values.cumsum(0) - self.sampler.top_p
            margin = torch.cat([borders, nucleus]).abs().min()
        else:
            best = row.topk(2)
            token, margin = int(best.indices[0]), (best.values[0] - best.values[1]) / best.values[0].abs()
        self.margin = min(self.margin, float(margin))
        return torch.full_like(scores, -torch.inf).index_fill_(1, torch.tensor([token]), 0.0)


def generated(model: PreTrainedModel, prompt: np.ndarray, tokens: int, sampler: Sampler) -> tuple[list[int], float]:
    """(what transformers' own `generate` answers, how near another answer was)."""
    chosen, ids, generate = Chosen(sampler, len(prompt)), torch.from_numpy(prompt)[None], cast(Any, model.generate)
    length = {"max_new_tokens": tokens, "min_new_tokens": tokens, "do_sample": False, "pad_token_id": 0}
    processors = LogitsProcessorList([chosen])
    with torch.inference_mode():
        answer = generate(ids, attention_mask=torch.ones_like(ids), **length, logits_processor=processors)
    return answer[0, len(prompt) :].tolist(), chosen.margin


Case = tuple[np.ndarray, Sampler, list[int]]


def cases(model: PreTrainedModel, context: int) -> Iterator[Case]:
    """(prompt, sampler, the model's own answer to the end of its context): answers that no rounding decides."""
    for length in PROMPTS:
        for kind in ("greedy", "sampled"):
            for seed in range(ATTEMPTS):
                prompt = np.random.default_rng(seed).integers(2, VOCABULARY, length)
                sampler = Greedy() if kind == "greedy" else Sampled(1.0, 0.9, seed)
                answer, margin = generated(model, prompt, context - length, sampler)
                if margin > ROUNDING:
                    yield prompt, sampler, answer
                    break


def first_difference(target: Target, answers: Sequence[Case]) -> str | None:
    """Where the target answers otherwise, or None."""
    for prompt, sampler, wanted in answers:
        for seed in range(2):
            got = decode(target, Oracle(wanted), prompt, sampler, max_new_tokens=len(wanted), seed=seed).token_ids
            if got != wanted:
                pairs = enumerate(zip(got, wanted, strict=False))
                at = next((i for i, (mine, own) in pairs if mine != own), len(got))
                return f"prompt of {len(prompt)}, {type(sampler).__name__}: another token at {at} of {len(wanted)}"
    return None
