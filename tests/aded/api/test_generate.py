"""aded.generate and aded.stream: the model's own answer, whatever is drafted; the model stays as it is."""

import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from own_drafters import Noting
from tiny import chat_model as model
from tiny import generated, tiny_model, tiny_tokenizer

import aded
from aded.api.drafter import NamedDrafter
from aded.core.decode import decode
from aded.core.sampler import Decoding
from aded.errors import BadInput
from aded.settings import Kernels
from aded.targets.eager import EagerTarget
from aded.targets.load import twin_of
from baselines.autoregressive import Autoregressive

VOCABULARY = 128
TEXT = "the cat sat on the mat, the cat sat"
DRAFTERS: list[Any] = [None, "prompt_lookup", "aded", "aded_backoff", "token_recycling"]


def named(name: str | None) -> Any:
    return aded.drafter(name, cost="none") if name == "aded_backoff" else name


def greedy(ids: list[int], max_new_tokens: int, **settings: Any) -> list[int]:
    return generated(model(), ids, max_new_tokens, **settings)


@pytest.mark.parametrize("penalty", [1.0, 1.3])
@pytest.mark.parametrize(("name", "kernels"), [("aded", "torch"), *((name, "exact") for name in DRAFTERS)])
def test_the_answer_is_that_of_generate(name: str | None, kernels: Kernels, penalty: float) -> None:
    tokenizer = tiny_tokenizer()
    asked: dict[str, Any] = {"max_new_tokens": 40, "repetition_penalty": penalty}
    answer = aded.generate(model(), tokenizer, TEXT, drafter=named(name), kernels=kernels, **asked)
    assert answer.token_ids == greedy(tokenizer(TEXT)["input_ids"], **asked)
    assert answer.text == tokenizer.decode(answer.token_ids, skip_special_tokens=True)
    assert (answer.stop_reason, sum(answer.accept_lengths), answer.steps) == ("limit", 39, len(answer.accept_lengths))
    assert answer.mean_accepted_tokens == 39 / answer.steps
    assert (answer.tokens_per_second or 0) > 0


def test_a_method_is_compiled_before_its_first_answer_and_a_drafter_of_the_users_keeps_what_it_knows() -> None:
    mine, method = Noting(), Noting()
    for drafter in (mine, NamedDrafter("counting", lambda: method)):
        for _ in range(2):
            aded.generate(model(), tiny_tokenizer(), TEXT, drafter=drafter, max_new_tokens=2)
    answered = ["begin", "end"] * 2
    assert mine.calls == ["setup", *answered]
    assert method.calls[-5:] == ["reset", *answered], "after the text that made numba compile"
    assert method.calls.count("reset") == 1


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


@pytest.mark.parametrize("seed", range(2))
def test_drawn_answers_are_those_of_autoregressive_decoding(seed: int) -> None:
    """By decode itself, with the sampler of these settings."""
    tokenizer, target = tiny_tokenizer(), EagerTarget(tiny_model(vocab_size=VOCABULARY))
    settings: dict[str, Any] = {"temperature": 0.9, "top_p": 0.9, "seed": seed, "repetition_penalty": 1.1}
    sampler, ids = Decoding(**settings).sampler(), np.array(tokenizer(TEXT)["input_ids"])
    wanted = decode(target, Autoregressive(), ids, sampler, max_new_tokens=30).token_ids
    for name in DRAFTERS:
        answer = aded.generate(model(), tokenizer, TEXT, drafter=named(name), max_new_tokens=30, **settings)
        assert answer.token_ids == wanted


def test_the_generation_config_alone_says_what_ends_an_answer() -> None:
    """Without a token there, neither the model's config ends it nor, with ignore_eos, anything else."""
    tokenizer, ending = tiny_tokenizer(), tiny_model(vocab_size=VOCABULARY, eos_token_id=greedy([5], 3)[-1])
    ending.load_state_dict(model().state_dict())

    def tokens(**settings: Any) -> int:
        return len(aded.generate(ending, tokenizer, [5], drafter=None, max_new_tokens=9, **settings).token_ids)

    assert tokens() < tokens(ignore_eos=True) == 9
    ending.generation_config.eos_token_id = None
    assert tokens() == 9


def test_answers_end_at_eos_and_at_stop_strings() -> None:
    tokenizer = tiny_tokenizer()
    ids, whole = tokenizer(TEXT)["input_ids"], greedy(tokenizer(TEXT)["input_ids"], 30)
    ending = tiny_model(vocab_size=VOCABULARY, eos_token_id=whole[9])
    answer = aded.generate(ending, tokenizer, ids, drafter="prompt_lookup", max_new_tokens=30)
    assert (answer.token_ids, answer.stop_reason) == (whole[: whole.index(whole[9]) + 1], "eos")
    text = str(tokenizer.decode(whole))
    stopped = aded.generate(model(), tokenizer, ids, drafter=None, max_new_tokens=30, stop=text[5:8])
    assert (stopped.stop_reason, stopped.text) == ("stop_string", text[: text.index(text[5:8])])


def test_a_stream_is_the_answer_in_pieces_and_keeps_its_drafter_and_its_model() -> None:
    drafter, tokenizer = aded.drafter("prompt_lookup"), tiny_tokenizer()
    choices: list[dict[str, Any]] = [{}, {"stop": ["at"]}, {"temperature": 1.0, "seed": 5}]
    for settings in choices:
        settings |= {"drafter": drafter, "max_new_tokens": 40}
        pieces = list(aded.stream(model(), tokenizer, TEXT, **settings))
        assert "".join(pieces) == aded.generate(model(), tokenizer, TEXT, **settings).text
        assert all(pieces)
    # While it is open it keeps its drafter and its model.
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
    tokenizer, drafter, together = tiny_tokenizer(), aded.drafter("aded_backoff", cost="none"), threading.Barrier(8)
    wanted = greedy(tokenizer(TEXT)["input_ids"], 60)

    def ask(_: int) -> list[int] | str:
        mine = drafter if shared else aded.drafter("prompt_lookup")
        together.wait()
        try:
            return aded.generate(model(), tokenizer, TEXT, drafter=mine, max_new_tokens=60).token_ids
        except BadInput as error:
            return str(error)

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(ask, range(8)))
    assert wanted in found
    assert all(one == wanted or str(one).startswith(("drafter: ", "model: ")) for one in found)


def test_the_model_stays_as_it_is() -> None:
    own, threads = tiny_model(vocab_size=VOCABULARY).train(), torch.get_num_threads()
    before = {name: (id(module), type(module)) for name, module in own.named_modules()}
    aded.generate(own, tiny_tokenizer(), TEXT, max_new_tokens=8, drafter="prompt_lookup")
    assert own.training
    assert before == {name: (id(module), type(module)) for name, module in own.named_modules()}
    assert not any(module._forward_pre_hooks or module._forward_hooks for module in own.modules())
    assert own.config._attn_implementation == "sdpa"
    assert torch.get_num_threads() == threads


class Adapted(torch.nn.Linear):
    """A layer with an adapter that is switched by a plain attribute, as in PEFT."""

    active: tuple[str, ...] = ()

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        return super().forward(states) * (-1.0 if self.active else 1.0)


CHANGES: dict[str, Callable[[Any], object]] = {
    "in place": lambda own: own.lm_head.weight.detach().neg_(),
    "unseen": lambda own: own.lm_head.weight.data.neg_(),
    "hooked": lambda own: own.model.layers[0].register_forward_hook(lambda module, given, states: -states),
    "switched": lambda own: vars(own.lm_head).update(active=("mine",)),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_changed_model_answers_anew_and_an_unchanged_one_is_prepared_once(
    change: Callable[[Any], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    own: Any = tiny_model(vocab_size=VOCABULARY)
    own.lm_head.__class__ = Adapted
    made: list[Any] = []

    def counted(given: Any) -> Any:
        made.append(given)
        return twin_of(given)

    monkeypatch.setattr("aded.api.model.twin_of", counted)

    def answers() -> tuple[list[int], list[int]]:
        mine = aded.generate(own, tiny_tokenizer(), TEXT, drafter=None, max_new_tokens=12).token_ids
        return mine, generated(own, tiny_tokenizer()(TEXT)["input_ids"], 12)

    first, again = answers(), answers()
    assert first[0] == first[1] == again[0]
    assert len(made) == 1
    change(own)
    mine, wanted = answers()
    assert mine == wanted != first[0]
    assert len(made) == 2


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({"model": 7}, "model: int is no model of transformers"),
        ({"tokenizer": 7}, "tokenizer: int is no tokenizer"),
        ({"prompt": ""}, "prompt: has no token"),
        ({"prompt": [[1, 2], [3, 4]]}, "prompt: is a batch of 2"),
        ({"prompt": np.ones((1, 2, 3), np.int64)}, "prompt: must be text, token ids"),
        ({"prompt": ["a", "b"]}, "prompt: must be text, token ids"),
        ({"prompt": torch.tensor([1.0, 2.0], dtype=torch.bfloat16)}, "prompt: must be text, token ids"),
        ({"prompt": [-1]}, "prompt: has token -1"),
        ({"prompt": [1000]}, "prompt: has token 1000"),
        ({"prompt": "a\ud800"}, "prompt: holds characters"),
        ({"model": tiny_model(vocab_size=8)}, "prompt: has token"),
        ({"prompt": list(range(5, 69)) * 2}, "prompt: its 128 tokens fill the model's context of 128"),
        ({"prompt": {"role": "user"}}, "prompt: has no input_ids"),
        ({"max_new_tokens": 0}, "max_new_tokens: 0 must be 1 or more"),
        ({"temperature": -1}, "temperature: -1 must be 0 or more"),
        ({"max_new_tokens": object()}, "max_new_tokens: holds a object"),
        ({"stop": None}, "stop: None must be a list"),
        ({"stop": [""]}, "stop[0]: '' must not be empty"),
        ({"drafter": 7}, "drafter: int is neither"),
        ({"engine": "zzz"}, "engine: 'zzz' must be one of eager, compiled"),
        ({"kernels": "zzz"}, "kernels: 'zzz' must be one of exact, fast, torch"),
    ],
)
def test_wrong_arguments_are_refused_at_the_call(arguments: dict[str, Any], line: str) -> None:
    given = {"model": model(), "tokenizer": tiny_tokenizer(), "prompt": TEXT, "drafter": None, **arguments}
    for call in (aded.generate, aded.stream):
        with pytest.raises(BadInput, match=f"^{re.escape(line)}.*$"):
            call(**given)
