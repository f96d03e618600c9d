"""The decode loop, and two answers decoded in turns."""

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache
from itertools import count
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from own_drafters import Hiding, Knowing
from tiny import VOCABULARY, generated, tiny_model

from aded.core.decode import WHOLE_ANSWER, Answer, Arm, decode, take_turns
from aded.core.drafter import Drafter
from aded.core.sampler import Decoding, Greedy, Recorded, Sampler
from aded.core.tree import DraftTree
from aded.errors import BadInput
from aded.targets.eager import EagerTarget
from baselines.autoregressive import Autoregressive

PROMPT = np.arange(10, 30, dtype=np.int64)
TOKENS = 48


@cache
def target_of(name: str) -> EagerTarget:
    return EagerTarget(tiny_model(name))


def run(
    drafter: Drafter,
    name: str = "llama",
    prompt: np.ndarray = PROMPT,
    sampler: Sampler | None = None,
    tokens: int = TOKENS,
    eos: Collection[int] = (),
    **settings: Any,
) -> Answer:
    settings |= {"max_new_tokens": tokens, "eos_token_ids": eos}
    answer = decode(target_of(name), drafter, prompt, sampler or Greedy(), **settings)
    check_accounts(answer)
    return answer


def check_accounts(answer: Answer) -> None:
    steps = len(answer.accept_lengths)
    assert answer.new_tokens == sum(answer.accept_lengths) == max(0, len(answer.token_ids) - 1)
    assert len(answer.drafted_nodes) == steps
    assert {len(times) for times in (answer.draft_times, answer.verify_times, answer.observe_times)} == {steps}
    pairs = zip(answer.accept_lengths, answer.drafted_nodes, strict=True)
    assert all(1 <= accepted <= 1 + drafted for accepted, drafted in pairs)


@pytest.mark.parametrize("name", ["llama", "qwen2-window", "mistral-window", "gemma2-window", "gemma3-window"])
@pytest.mark.parametrize("prompt", [PROMPT, PROMPT[:1], PROMPT[:2]], ids=len)
def test_greedy_answers_are_those_of_generate(name: str, prompt: np.ndarray) -> None:
    expected = generated(target_of(name).model, prompt, TOKENS)
    assert len(set(expected)) > 5, "an answer that repeats one token shows nothing"
    assert run(Autoregressive(), name, prompt).token_ids == expected
    for seed in range(3):
        answer = run(Hiding(expected, 5), name, prompt, seed=seed)
        assert answer.token_ids == expected
        assert len(set(answer.accept_lengths)) >= 3, "some drafts are accepted whole, some in part, some not at all"


@pytest.mark.parametrize(("temperature", "top_p"), [(1.0, 0.8), (0.7, 1.0)])
def test_sampled_answers_are_those_of_autoregressive_decoding(temperature: float, top_p: float) -> None:
    answers = []
    for seed in range(3):
        sampler = Decoding(temperature, top_p, seed).sampler(1, 0)
        expected = run(Autoregressive(), sampler=sampler).token_ids
        answer = run(Hiding(expected, 5), sampler=sampler, seed=seed)
        assert answer.token_ids == expected
        assert max(answer.accept_lengths) > 2
        again = run(Hiding(expected, 5), sampler=Recorded(expected), seed=seed)
        assert again.token_ids == expected, "each token is chosen by its own position"
        answers.append(expected)
    assert answers[0] != answers[1] != answers[2], "another seed draws another answer"


def test_each_step_has_its_own_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aded.core.decode.perf_counter", map(float, count()).__next__)
    answer = run(Autoregressive())
    assert answer.draft_times[1:] == answer.verify_times[1:] == answer.observe_times[1:] == [1.0] * (TOKENS - 2)


def test_an_oracle_saves_its_steps_and_observes_every_one_from_the_prompt_on() -> None:
    """49 tokens: one of the prefill, then 12 steps of three drafts and a bonus token each."""
    expected = run(Autoregressive(), tokens=49).token_ids
    oracle = Knowing(expected, 3)
    answer = run(oracle, tokens=49)
    assert (answer.token_ids, answer.accept_lengths, answer.drafted_nodes) == (expected, [4] * 12, [3] * 12)
    prompt, *steps = oracle.seen
    assert (prompt.tree.tokens.tolist(), prompt.new_tokens) == ([PROMPT[-1]], expected[:1])
    assert [token for step in steps for token in step.new_tokens] == expected[1:]
    assert {len(step.new_tokens) for step in steps} == {4}


@pytest.mark.parametrize("ahead", [0, 3, TOKENS])
def test_eos_inside_a_step_ends_the_answer_and_nothing_below_it_is_verified(ahead: int) -> None:
    target = target_of("llama")
    expected = generated(target.model, PROMPT, TOKENS)
    eos = next(token for at, token in enumerate(expected) if at > 9 and token not in expected[:at])
    oracle = Knowing(expected, ahead)
    answer = run(oracle, eos={eos})
    wanted = generated(target.model, PROMPT, TOKENS, eos_token_id=eos)
    assert answer.token_ids == wanted == expected[: expected.index(eos) + 1]
    assert (answer.stop_reason, oracle.ends) == ("eos", {eos})
    observed = [token for step in oracle.seen for token in step.new_tokens]
    assert observed == answer.token_ids, "what was accepted behind the end is no part of the text"
    if ahead == TOKENS:
        assert answer.drafted_nodes == [expected.index(eos)]


@pytest.mark.parametrize("ahead", [0, 8])
def test_a_stop_rule_inside_a_step_ends_the_answer(ahead: int) -> None:
    expected = run(Autoregressive()).token_ids
    stops = [expected[at : at + 2] for at in range(12, 20)]
    end = next(n for n in range(2, TOKENS) if expected[n - 2 : n] in stops)
    answer = run(Knowing(expected, ahead), stop=lambda ids: ids[-2:] in stops)
    assert (answer.token_ids, answer.stop_reason) == (expected[:end], "stop_string")
    answer = run(Autoregressive(), stop=lambda ids: True)
    assert (len(answer.token_ids), answer.accept_lengths, answer.stop_reason) == (1, [], "stop_string")


@pytest.mark.parametrize("tokens", [1, 2, 3, 7])
def test_the_limit_holds_inside_a_step(tokens: int) -> None:
    expected = generated(target_of("llama").model, PROMPT, TOKENS)
    answer = run(Knowing(expected, 8), tokens=tokens)
    assert (answer.token_ids, answer.stop_reason) == (expected[:tokens], "limit")
    assert sum(answer.drafted_nodes) <= max(0, tokens - 2), "no draft goes past the limit"
    with pytest.raises(BadInput, match=r"^max_new_tokens: "):
        run(Autoregressive(), tokens=0)


@pytest.mark.parametrize("length", [1, 15, 16, 20])
def test_the_models_context_limits_the_answer(length: int) -> None:
    model = tiny_model("llama", max_position_embeddings=16)
    expected = generated(model, PROMPT[:length], 16 - length) if length < 16 else []
    drafter = Knowing(expected, 8)
    answer = decode(EagerTarget(model), drafter, PROMPT[:length], Greedy(), max_new_tokens=TOKENS)
    assert (answer.token_ids, answer.stop_reason) == (expected, "limit" if expected else "context")
    check_accounts(answer)


def written_into(context: np.ndarray) -> DraftTree:
    context[-1] += 1
    return DraftTree.root(int(context[-1]))


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda context: DraftTree.chain(int(context[-1]), [10**6]), f"token 1000000; .* {VOCABULARY - 1}$"),
        (
            lambda context: DraftTree(np.append(context[-1], range(257)), np.array([-1] + [0] * 257)),
            "257 .* `budget`",
        ),
        (lambda context: DraftTree.chain(int(context[-2]) + 1, [1, 2]), "root is"),
        (written_into, "root is"),
        (lambda context: [1], r"Autoregressive.draft returned list; .*DraftTree.chain\("),
        (lambda context: None, "Autoregressive.draft returned None; "),
        (lambda context: context, "Autoregressive.draft returned ndarray; "),
    ],
)
def test_a_wrong_tree_is_refused(make: Callable[[np.ndarray], Any], problem: str) -> None:
    """Another root would be read as text, and the answer be another without a word."""
    drafter = Autoregressive()
    drafter.draft = make  # type: ignore[assignment, method-assign]
    with pytest.raises(BadInput, match=f"^drafter: .*{problem}"):
        run(drafter, tokens=8)


LENGTHS = st.lists(st.integers(1, 5), max_size=30)


def arm(name: str, accept_lengths: Sequence[int], seconds: float, log: list[tuple[str, int]]) -> Arm:
    """An answer of these steps, each of so many seconds; `log` gets (name, tokens so far) after each."""

    def steps() -> Iterator[Answer]:
        answer = Answer()
        for accepted in accept_lengths:
            yield answer
            answer.accept_lengths.append(accepted)
            answer.verify_times.append(seconds)
            log.append((name, answer.new_tokens))
        yield answer

    return Arm(steps())


@given(LENGTHS, LENGTHS, st.sampled_from([0.0, 0.1, 0.25, WHOLE_ANSWER]))
def test_both_answers_are_decoded_to_their_ends(first: list[int], second: list[int], seconds: float) -> None:
    log: list[tuple[str, int]] = []
    arms = arm("first", first, 0.05, log), arm("second", second, 0.1, log)
    ended = list(take_turns(*arms, seconds))
    assert ended == [*arms] * (len(ended) // 2)
    assert [one.answer.accept_lengths for one in arms] == [first, second]
    assert len(log) == len(first) + len(second)


def test_the_second_arm_follows_to_the_same_tokens() -> None:
    log: list[tuple[str, int]] = []
    seen = [
        (one.answer.steps, one.answer.new_tokens)
        for one in take_turns(arm("method", [3] * 4, 0.1, log), arm("baseline", [1] * 12, 0.05, log), 0.2)
    ]
    method, baseline = [("method", n) for n in (3, 6, 9, 12)], [("baseline", n) for n in range(1, 13)]
    assert log == [*method[:2], *baseline[:6], *method[2:], *baseline[6:]]
    assert seen[:4] == [(2, 6), (6, 6), (4, 12), (12, 12)]
    # Slices without an end are whole answers: the second arm does not even read its prompt before the first is
    # complete, as both may share a KV cache. An answer without steps is complete: the prompt filled the context, or
    # the first token ended it.
    arms = Arm(iter([Answer()])), arm("second", [1, 1], 0.1, [])
    list(take_turns(*arms, WHOLE_ANSWER))
    assert [one.answer.new_tokens for one in arms] == [0, 2]
    log.clear()
    turns = take_turns(arm("first", [2] * 40, 1.0, log), arm("second", [1] * 80, 1.0, log), WHOLE_ANSWER)
    next(turns)
    assert log == [("first", 2 * n) for n in range(1, 41)]
    assert len(list(turns)) == 1
