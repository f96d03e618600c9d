from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache

import numpy as np
import pytest
import torch
from tiny import VOCABULARY, random_tree, tiny_model
from transformers import PreTrainedModel

from aded.core.decode import Answer, decode
from aded.core.decoding import Decoding
from aded.core.drafter import Drafter, Step
from aded.core.sampler import Greedy, Sampler
from aded.core.tree import DraftTree
from aded.drafters.trigram.drafter import AdedDrafter
from aded.drafters.trigram.search.best_first import BestFirst
from aded.errors import BadInput
from aded.files.datastores.ngram_file import NgramFile
from aded.settings import Scope
from aded.targets.eager import EagerTarget
from baselines.autoregressive import Autoregressive

PROMPT = np.arange(10, 30, dtype=np.int64)
TOKENS = 48


class Oracle(Drafter):
    """Knows the answer and drafts its next `ahead` tokens, alone."""

    def __init__(self, answer: list[int], ahead: int) -> None:
        self.answer, self.ahead = answer, ahead

    def end_at(self, eos_token_ids: Collection[int]) -> None:
        self.ends = eos_token_ids

    def begin(self, prompt_ids: np.ndarray, seed: int = 0) -> None:
        self.prompt = len(prompt_ids)
        self.rng = np.random.default_rng(seed)
        self.seen: list[Step] = []

    def observe(self, step: Step) -> None:
        self.seen.append(step)

    def coming(self, context: np.ndarray) -> list[int]:
        done = len(context) - self.prompt
        assert context[self.prompt :].tolist() == self.answer[:done], "the context is the answer so far"
        return self.answer[done : done + self.ahead]

    def draft(self, context: np.ndarray) -> DraftTree:
        return DraftTree.chain(int(context[-1]), self.coming(context))


class Adversary(Oracle):
    """Hides some of the answer's next tokens in a tree of wrong ones; now and then it is all wrong, or silent."""

    def draft(self, context: np.ndarray) -> DraftTree:
        root, rng = int(context[-1]), self.rng
        kind = rng.integers(5)
        if kind < 2:
            return random_tree(rng, int(rng.integers(1, 20)), root)
        true = self.coming(context)
        sequences = [
            [*true[: rng.integers(len(true) + 1)], *rng.integers(VOCABULARY, size=rng.integers(1, 4)).tolist()]
            for _ in range(2)
        ]
        return DraftTree.from_sequences(root, sequences if kind < 4 else [*sequences, true], budget=24)


@cache
def target_of(name: str) -> EagerTarget:
    return EagerTarget(tiny_model(name))


def run(
    drafter: Drafter,
    name: str = "llama",
    prompt: np.ndarray = PROMPT,
    sampler: Sampler | None = None,
    tokens: int = TOKENS,
    stop: Callable[[list[int]], bool] | None = None,
    seed: int = 0,
    eos: Collection[int] = (),
) -> Answer:
    answer = decode(
        target_of(name),
        drafter,
        prompt,
        sampler or Greedy(),
        max_new_tokens=tokens,
        eos_token_ids=eos,
        stop=stop,
        seed=seed,
    )
    check_accounts(answer)
    return answer


def check_accounts(answer: Answer) -> None:
    steps = len(answer.accept_lengths)
    assert answer.new_tokens == sum(answer.accept_lengths) == max(0, len(answer.token_ids) - 1)
    assert len(answer.drafted_nodes) == steps
    assert {len(times) for times in (answer.draft_times, answer.verify_times, answer.observe_times)} == {steps}
    assert all(
        1 <= accepted <= 1 + drafted
        for accepted, drafted in zip(answer.accept_lengths, answer.drafted_nodes, strict=True)
    )


def generated(model: PreTrainedModel, prompt: np.ndarray, tokens: int = TOKENS, eos: int | None = None) -> list[int]:
    ids = torch.from_numpy(prompt)[None]
    out = model.generate(  # type: ignore[operator]
        ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=tokens, eos_token_id=eos
    )
    return out[0, len(prompt) :].tolist()


@pytest.mark.parametrize("name", ["llama", "qwen2-window", "mistral-window", "gemma2-window", "gemma3-window"])
@pytest.mark.parametrize("prompt", [PROMPT, PROMPT[:1], PROMPT[:2]], ids=len)
def test_greedy_answers_are_those_of_generate(name: str, prompt: np.ndarray) -> None:
    expected = generated(target_of(name).model, prompt)
    assert len(set(expected)) > 5, "an answer that repeats one token shows nothing"
    assert run(Autoregressive(), name, prompt).token_ids == expected
    for seed in range(3):
        answer = run(Adversary(expected, 5), name, prompt, seed=seed)
        assert answer.token_ids == expected
        assert len(set(answer.accept_lengths)) >= 3, "some drafts are accepted whole, some in part, some not at all"


@pytest.mark.parametrize("prompt", [PROMPT, PROMPT[:1], PROMPT[:2]], ids=len)
@pytest.mark.parametrize("adaptation", ["off", "prompt", "session"])
def test_aded_answers_are_those_of_generate(ngram_file: NgramFile, prompt: np.ndarray, adaptation: Scope) -> None:
    expected = generated(target_of("llama").model, prompt)
    drafter = AdedDrafter(ngram_file, BestFirst(), budget=12, adaptation=adaptation)
    for _ in range(2):  # a second answer of the session finds what the first one left
        assert run(drafter, prompt=prompt).token_ids == expected


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("top_p", [1.0, 0.8])
def test_sampled_answers_are_those_of_autoregressive_decoding(temperature: float, top_p: float) -> None:
    answers = []
    for seed in range(3):
        sampler = Decoding(temperature, top_p, seed).sampler(1, 0)
        expected = run(Autoregressive(), sampler=sampler).token_ids
        answer = run(Adversary(expected, 5), sampler=sampler, seed=seed)
        assert answer.token_ids == expected
        assert max(answer.accept_lengths) > 2
        answers.append(expected)
    assert answers[0] != answers[1] != answers[2], "another seed draws another answer"


def test_autoregressive_decoding_accepts_exactly_one_a_step() -> None:
    answer = run(Autoregressive())
    assert answer.accept_lengths == [1] * (TOKENS - 1)
    assert answer.drafted_nodes == [0] * (TOKENS - 1)
    assert answer.stop_reason == "limit"


def test_an_oracle_saves_its_steps() -> None:
    """49 tokens: one of the prefill, then 12 steps of three drafts and a bonus token each."""
    expected = run(Autoregressive(), tokens=49).token_ids
    answer = run(Oracle(expected, 3), tokens=49)
    assert answer.token_ids == expected
    assert answer.accept_lengths == [4] * 12
    assert answer.drafted_nodes == [3] * 12


def test_the_drafter_observes_every_step_from_the_prompt_on() -> None:
    expected = run(Autoregressive()).token_ids
    oracle = Oracle(expected, 3)
    answer = run(oracle)
    prompt, *steps = oracle.seen
    assert prompt.tree.tokens.tolist() == [PROMPT[-1]]
    assert prompt.new_tokens == expected[:1]
    assert [len(step.new_tokens) for step in steps] == answer.accept_lengths
    assert [token for step in oracle.seen for token in step.new_tokens] == expected


@pytest.mark.parametrize("ahead", [0, 3, 8])
def test_eos_inside_a_step_ends_the_answer(ahead: int) -> None:
    target = target_of("llama")
    expected = generated(target.model, PROMPT)
    eos = next(token for at, token in enumerate(expected) if at > 9 and token not in expected[:at])
    oracle = Oracle(expected, ahead)
    answer = run(oracle, eos={eos})
    assert answer.token_ids == generated(target.model, PROMPT, eos=eos) == expected[: expected.index(eos) + 1]
    assert answer.stop_reason == "eos"
    observed = [token for step in oracle.seen for token in step.new_tokens]
    assert observed == answer.token_ids, "what was accepted behind the end is no part of the text"


def test_what_is_drafted_below_eos_is_not_verified() -> None:
    expected = run(Autoregressive()).token_ids
    eos = next(token for at, token in enumerate(expected) if at > 9 and token not in expected[:at])
    oracle = Oracle(expected, TOKENS)
    answer = run(oracle, eos={eos})
    assert answer.drafted_nodes == [expected.index(eos)]
    assert oracle.ends == {eos}


@pytest.mark.parametrize("ahead", [0, 3, 8])
def test_a_stop_rule_inside_a_step_ends_the_answer(ahead: int) -> None:
    expected = run(Autoregressive()).token_ids
    stops = [expected[at : at + 2] for at in range(12, 20)]
    end = next(n for n in range(2, TOKENS) if expected[n - 2 : n] in stops)
    answer = run(Oracle(expected, ahead), stop=lambda ids: ids[-2:] in stops)
    assert answer.token_ids == expected[:end]
    assert answer.stop_reason == "stop_string"


def test_an_answer_may_end_with_the_prefills_token() -> None:
    answer = run(Autoregressive(), stop=lambda ids: True)
    assert (len(answer.token_ids), answer.accept_lengths, answer.stop_reason) == (1, [], "stop_string")


@pytest.mark.parametrize("tokens", [1, 2, 3, 7])
def test_the_limit_holds_inside_a_step(tokens: int) -> None:
    expected = generated(target_of("llama").model, PROMPT)
    answer = run(Oracle(expected, 8), tokens=tokens)
    assert answer.token_ids == expected[:tokens]
    assert answer.stop_reason == "limit"
    assert sum(answer.drafted_nodes) <= max(0, tokens - 2), "no draft goes past the limit"


@pytest.mark.parametrize("length", [1, 10, 15])
def test_the_models_context_limits_the_answer(length: int) -> None:
    model = tiny_model("llama", max_position_embeddings=16)
    target = EagerTarget(model)
    expected = generated(model, PROMPT[:length], tokens=16 - length)
    answer = decode(target, Oracle(expected, 8), PROMPT[:length], Greedy(), max_new_tokens=TOKENS)
    assert answer.token_ids == expected
    assert answer.stop_reason == "limit"
    check_accounts(answer)


@pytest.mark.parametrize("length", [16, 20])
def test_a_prompt_that_fills_the_context_has_no_answer(length: int) -> None:
    target = EagerTarget(tiny_model("llama", max_position_embeddings=16))
    answer = decode(target, Autoregressive(), PROMPT[:length], Greedy(), max_new_tokens=TOKENS)
    assert (answer.token_ids, answer.stop_reason) == ([], "context")


def test_an_answer_without_tokens_is_refused() -> None:
    with pytest.raises(BadInput, match=r"^max_new_tokens: must be 1 or more, not 0$"):
        decode(EagerTarget(tiny_model()), Autoregressive(), PROMPT, Greedy(), max_new_tokens=0)


def test_a_large_tree_fits_the_cache() -> None:
    expected = run(Autoregressive()).token_ids

    class Broad(Oracle):
        def draft(self, context: np.ndarray) -> DraftTree:
            return DraftTree.from_sequences(
                int(context[-1]), [[a, b] for a in range(VOCABULARY) for b in range(3)], budget=256
            )

    answer = run(Broad(expected, 0))
    assert answer.token_ids == expected
    assert answer.drafted_nodes[0] == 256
    assert min(answer.accept_lengths[:-1]) >= 2, "every first token is drafted"


def test_a_wrong_tree_is_refused() -> None:
    """Another root would be read as text, and the answer be another without a word."""

    class Late(Drafter):
        def draft(self, context: np.ndarray) -> DraftTree:
            return DraftTree.chain(int(context[-2]) + 1, [1, 2])

    class Writes(Drafter):
        def draft(self, context: np.ndarray) -> DraftTree:
            context[-1] += 1
            return DraftTree.root(int(context[-1]))

    class NoTree(Drafter):
        def draft(self, context: np.ndarray) -> list[int]:  # type: ignore[override]
            return [1]

    class Large(Drafter):
        def draft(self, context: np.ndarray) -> DraftTree:
            return DraftTree.from_sequences(int(context[-1]), [[a] for a in range(257)], budget=257)

    class Unknown(Drafter):
        def draft(self, context: np.ndarray) -> DraftTree:
            return DraftTree.chain(int(context[-1]), [10**6])

    for made, problem in (
        (Unknown(), f"it drafted token 1000000; the model's last one is {VOCABULARY - 1}"),
        (Large(), "it drafted 257 nodes; so many need a `budget` as large"),
        (Late(), r"its tree's root is \d+; it must be the text's last token, \d+"),
        (Writes(), r"its tree's root is \d+; it must be the text's last token, \d+"),
        (NoTree(), "it drafted a list; it must draft a DraftTree"),
    ):
        with pytest.raises(BadInput, match=f"^drafter: {problem}$"):
            decode(EagerTarget(tiny_model()), made, PROMPT, Greedy(), max_new_tokens=8)
