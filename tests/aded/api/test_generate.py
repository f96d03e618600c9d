"""aded.generate and aded.stream: the model's own answer, whatever is drafted; the model stays as it is."""

from __future__ import annotations

import threading
from collections import Counter
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from tiny import tiny_model, tiny_tokenizer

import aded
from aded.api.drafter import NamedDrafter
from aded.errors import BadInput
from aded.settings import Kernels

VOCABULARY = 128
TEXT = "the cat sat on the mat, the cat sat"
DRAFTERS: list[Any] = [None, "prompt_lookup", "aded", "aded_backoff", "token_recycling"]


@cache
def model() -> Any:
    return tiny_model(vocab_size=VOCABULARY)


def named(name: str | None) -> Any:
    return aded.drafter(name, cost="none") if name == "aded_backoff" else name


def greedy(ids: list[int], tokens: int, **settings: Any) -> list[int]:
    out = model().generate(torch.tensor([ids]), do_sample=False, max_new_tokens=tokens, **settings)
    return out[0, len(ids) :].tolist()


@pytest.mark.parametrize("kernels", ["exact", "torch"])
@pytest.mark.parametrize("name", DRAFTERS)
def test_the_answer_is_that_of_generate(name: str | None, kernels: Kernels) -> None:
    tokenizer = tiny_tokenizer()
    answer = aded.generate(model(), tokenizer, TEXT, drafter=named(name), max_new_tokens=40, kernels=kernels)
    assert answer.token_ids == greedy(tokenizer(TEXT)["input_ids"], 40)
    assert answer.text == tokenizer.decode(answer.token_ids, skip_special_tokens=True)
    assert (answer.stop_reason, sum(answer.accept_lengths), answer.steps) == ("limit", 39, len(answer.accept_lengths))
    assert answer.mean_accepted_tokens == 39 / answer.steps
    assert answer.tokens_per_second is not None
    assert answer.tokens_per_second > 0


class Counting(aded.Drafter):
    """Drafts nothing, and counts prompts."""

    prompts = 0

    def begin(self, prompt_ids: np.ndarray, seed: int = 0) -> None:
        self.prompts += 1

    def draft(self, context: np.ndarray) -> aded.DraftTree:
        return aded.DraftTree.root(int(context[-1]))

    def reset(self) -> None:
        self.prompts = 0


def test_a_method_is_compiled_before_its_first_answer_and_a_drafter_of_the_users_keeps_what_it_knows() -> None:
    tokenizer, mine = tiny_tokenizer(), Counting()
    by_name = NamedDrafter("counting", Counting)
    for drafter in (mine, by_name):
        aded.generate(model(), tokenizer, TEXT, drafter=drafter, max_new_tokens=2)
    assert (mine.prompts, by_name.drafter.prompts) == (1, 1)  # type: ignore[attr-defined]
    calls: list[str] = []
    named = NamedDrafter("counting", Counting)
    named.drafter.reset = lambda: calls.append("reset")  # type: ignore[method-assign]
    for _ in range(2):
        aded.generate(model(), tokenizer, TEXT, drafter=named, max_new_tokens=2)
    assert calls == ["reset"], "once, after the text that made numba compile"


def test_a_prompt_has_many_forms() -> None:
    tokenizer = tiny_tokenizer()
    ids = tokenizer(TEXT)["input_ids"]
    chat = [{"role": "user", "content": TEXT}]
    forms: list[Any] = [ids, np.array(ids), torch.tensor(ids), torch.tensor([ids]), [ids], tokenizer(TEXT)]
    answers = [aded.generate(model(), tokenizer, one, drafter=None, max_new_tokens=8).token_ids for one in forms]
    assert answers == [greedy(ids, 8)] * len(forms)
    answer = aded.generate(model(), tokenizer, chat, drafter=None, max_new_tokens=8)
    text = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    assert answer.token_ids == greedy(tokenizer(text, add_special_tokens=False)["input_ids"], 8)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", DRAFTERS[1:])
def test_drawn_answers_are_those_of_autoregressive_decoding(name: str, seed: int) -> None:
    settings: dict[str, Any] = {"max_new_tokens": 30, "temperature": 0.9, "top_p": 0.9, "seed": seed}
    plain = aded.generate(model(), tiny_tokenizer(), TEXT, drafter=None, **settings)
    assert (
        aded.generate(model(), tiny_tokenizer(), TEXT, drafter=named(name), **settings).token_ids == plain.token_ids
    )


def test_draws_have_the_distribution_of_generate() -> None:
    """Chi-square over the second token: of 200 answers each, with drafts and by transformers alone."""
    small: Any = tiny_model(vocab_size=8, initializer_range=0.2)
    drafter, ids = aded.drafter(_Guesses()), [3, 4, 5]
    ours = Counter(
        aded.generate(
            small,
            tiny_tokenizer(),
            ids,
            drafter=drafter,
            max_new_tokens=2,
            temperature=1.0,
            seed=seed,
            kernels="torch",
        ).token_ids[1]
        for seed in range(200)
    )
    torch.manual_seed(0)
    drawn = small.generate(
        torch.tensor([ids] * 200), do_sample=True, top_k=0, temperature=1.0, max_new_tokens=2, min_new_tokens=2
    )
    theirs = Counter(drawn[:, len(ids) + 1].tolist())
    tokens = [token for token in range(8) if ours[token] + theirs[token] >= 10]
    assert len(tokens) >= 4
    statistic = sum((ours[token] - theirs[token]) ** 2 / (ours[token] + theirs[token]) for token in tokens)
    assert statistic < 24.3  # chi-square, 7 degrees of freedom, p = 0.001


class _Guesses(aded.Drafter):
    """Drafts every token of the vocabulary."""

    def draft(self, context: np.ndarray) -> aded.DraftTree:
        return aded.DraftTree(np.array([context[-1], *range(8)]), np.array([-1] + [0] * 8))


def test_answers_end_at_eos_and_at_stop_strings() -> None:
    tokenizer = tiny_tokenizer()
    ids, whole = tokenizer(TEXT)["input_ids"], greedy(tokenizer(TEXT)["input_ids"], 30)
    ending = tiny_model(vocab_size=VOCABULARY, eos_token_id=whole[9])
    answer = aded.generate(ending, tokenizer, ids, drafter="prompt_lookup", max_new_tokens=30)
    end = whole.index(whole[9]) + 1
    assert (answer.token_ids, answer.stop_reason) == (whole[:end], "eos")
    text = str(tokenizer.decode(whole))
    stopped = aded.generate(model(), tokenizer, ids, drafter=None, max_new_tokens=30, stop=text[5:8])
    assert (stopped.stop_reason, stopped.text) == ("stop_string", text[: text.index(text[5:8])])


def test_a_stream_is_the_answer_in_pieces() -> None:
    drafter, tokenizer = aded.drafter("prompt_lookup"), tiny_tokenizer()
    choices: list[dict[str, Any]] = [{}, {"stop": ["at"]}, {"temperature": 1.0, "seed": 5}]
    for settings in choices:
        wanted = aded.generate(model(), tokenizer, TEXT, drafter=drafter, max_new_tokens=40, **settings).text
        pieces = list(aded.stream(model(), tokenizer, TEXT, drafter=drafter, max_new_tokens=40, **settings))
        assert "".join(pieces) == wanted
        assert all(pieces)


def test_an_open_stream_keeps_its_drafter_and_its_model() -> None:
    drafter, tokenizer = aded.drafter("prompt_lookup"), tiny_tokenizer()
    stream = aded.stream(model(), tokenizer, TEXT, drafter=drafter, max_new_tokens=40)
    next(stream)
    with pytest.raises(BadInput, match=r"^drafter: prompt_lookup is drafting another answer"):
        aded.generate(model(), tokenizer, TEXT, drafter=drafter)
    with pytest.raises(BadInput, match=r"^model: is writing another answer"):
        aded.generate(model(), tokenizer, TEXT, drafter=None)
    stream.close()  # type: ignore[attr-defined]
    assert aded.generate(model(), tokenizer, TEXT, drafter=drafter, max_new_tokens=4).token_ids


@pytest.mark.parametrize("shared", [True, False], ids=["one drafter", "a drafter each"])
def test_eight_threads_are_right_or_refused(shared: bool) -> None:
    tokenizer, drafter, found = tiny_tokenizer(), aded.drafter("aded_backoff", cost="none"), list[Any]()
    wanted = greedy(tokenizer(TEXT)["input_ids"], 60)
    together = threading.Barrier(8)

    def ask() -> None:
        mine = drafter if shared else aded.drafter("prompt_lookup")
        together.wait()
        try:
            found.append(aded.generate(model(), tokenizer, TEXT, drafter=mine, max_new_tokens=60).token_ids)
        except BadInput as error:
            found.append(str(error))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    answers = [one for one in found if isinstance(one, list)]
    refusals = [one for one in found if isinstance(one, str)]
    assert len(answers) + len(refusals) == 8
    assert answers
    assert all(one == wanted for one in answers)
    assert all(one.startswith(("drafter: ", "model: ")) for one in refusals)


def test_the_model_stays_as_it_is() -> None:
    own = tiny_model(vocab_size=VOCABULARY).train()
    before = {name: (id(module), type(module)) for name, module in own.named_modules()}
    threads = torch.get_num_threads()
    aded.generate(own, tiny_tokenizer(), TEXT, max_new_tokens=8, drafter="prompt_lookup")
    assert own.training
    assert before == {name: (id(module), type(module)) for name, module in own.named_modules()}
    assert not any(module._forward_pre_hooks or module._forward_hooks for module in own.modules())
    assert own.config._attn_implementation == "sdpa"
    assert torch.get_num_threads() == threads


def test_a_changed_model_answers_anew() -> None:
    own: Any = tiny_model(vocab_size=VOCABULARY)
    tokenizer = tiny_tokenizer()
    first = aded.generate(own, tokenizer, TEXT, drafter=None, max_new_tokens=12).token_ids
    with torch.no_grad():
        own.get_output_embeddings().weight.neg_()
    second = aded.generate(own, tokenizer, TEXT, drafter=None, max_new_tokens=12).token_ids
    ids = tokenizer(TEXT, return_tensors="pt")["input_ids"]
    assert second == own.generate(ids, do_sample=False, max_new_tokens=12)[0, ids.shape[1] :].tolist() != first


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({"model": 7}, "model: int is no model of transformers"),
        ({"tokenizer": 7}, "tokenizer: int is no tokenizer"),
        ({"prompt": ""}, "prompt: has no token"),
        ({"prompt": []}, "prompt: has no token"),
        ({"prompt": [[1, 2], [3, 4]]}, "prompt: is a batch of 2"),
        ({"prompt": [[1, 2], [3]]}, "prompt: is a batch"),
        ({"prompt": np.ones((1, 2, 3), np.int64)}, "prompt: must be text, token ids"),
        ({"prompt": ["a", "b"]}, "prompt: must be text, token ids"),
        ({"prompt": [1.5]}, "prompt: must be text, token ids"),
        ({"prompt": torch.tensor([1.0, 2.0], dtype=torch.bfloat16)}, "prompt: must be text, token ids"),
        ({"prompt": [-1]}, "prompt: has token -1"),
        ({"prompt": [1000]}, "prompt: has token 1000"),
        ({"prompt": "a\ud800"}, "prompt: holds characters that are no UTF-8 text"),
        ({"model": tiny_model(vocab_size=8)}, "prompt: has token"),
        ({"prompt": list(range(5, 100)) * 2}, "prompt: its 190 tokens fill the model's context of 128"),
        ({"prompt": {"role": "user"}}, "prompt: has no input_ids"),
        ({"max_new_tokens": 0}, "max_new_tokens: 0 must be 1 or more"),
        ({"temperature": -1}, "temperature: -1 must be 0 or more"),
        ({"top_p": 0}, "top_p: 0 must be above 0"),
        ({"seed": 1.5}, "seed: 1.5 must be a whole number"),
        ({"seed": np.float64(1.5)}, "seed: 1.5 must be a whole number"),
        ({"max_new_tokens": object()}, "max_new_tokens: holds a object, which is no plain value"),
        ({"stop": None}, "stop: None must be a list"),
        ({"stop": [""]}, "stop[0]: '' must not be empty"),
        ({"drafter": "zzz"}, "method: 'zzz' is no method"),
        ({"drafter": 7}, "drafter: int is neither"),
        ({"engine": "zzz"}, "engine: 'zzz' must be one of eager, compiled"),
        ({"kernels": "zzz"}, "kernels: 'zzz' must be one of exact, fast, torch"),
    ],
)
@pytest.mark.parametrize("call", [aded.generate, aded.stream])
def test_wrong_arguments_are_refused_at_the_call(call: Any, arguments: dict[str, Any], line: str) -> None:
    given = {"model": model(), "tokenizer": tiny_tokenizer(), "prompt": TEXT, "drafter": None, **arguments}
    with pytest.raises(BadInput) as error:
        call(given.pop("model"), given.pop("tokenizer"), given.pop("prompt"), **given)
    assert str(error.value).startswith(line)
    assert "\n" not in str(error.value)
