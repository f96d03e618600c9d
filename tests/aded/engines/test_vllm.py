"""Drafters inside engines: chains, times of steps, methods, and the proposer for vLLM, driven as vLLM drives it
(vllm_batch). One test runs against vLLM itself, where it is installed."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_ngrams import write_small_ngrams
from tiny import VOCABULARY
from vllm_batch import ROOM, ROWS, Batch, config, served_files

from aded.core.drafter import Drafter, Step
from aded.core.tree import DraftTree
from aded.engines.methods import ROUNDS, WARM_UP, StepTimes, method_of
from aded.engines.vllm import KEPT_STEPS, BatchRow, Proposer, Requests, best_chain
from aded.errors import BadInput
from baselines.tokens.prompt_lookup import PromptLookup


@given(st.data())
def test_the_best_chain_is_the_best_of_all_paths(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 12))
    parents = [-1] + [data.draw(st.integers(0, i - 1)) for i in range(1, n)]
    probabilities = [1.0]
    for i in range(1, n):
        probabilities.append(probabilities[parents[i]] * data.draw(st.floats(0.01, 1)))
    tree = DraftTree(np.arange(n), np.array(parents), np.array(probabilities))
    longest = data.draw(st.integers(0, 5))
    chain = best_chain(tree, longest)
    assert chain.parents.tolist() == list(range(-1, len(chain) - 1))
    assert chain.drafted <= longest
    assert chain.probabilities is not None

    def expected(node: int) -> float:
        return 0.0 if node == 0 else probabilities[node] + expected(parents[node])

    best = max(expected(node) for node in range(n) if tree.depths[node] <= longest)
    assert chain.probabilities[1:].sum() == pytest.approx(best)
    assert all(parents[b] == a for a, b in zip(chain.tokens, chain.tokens[1:], strict=False))


def test_without_probabilities_the_largest_subtree_leads() -> None:
    tree = DraftTree(np.array([5, 6, 7, 8, 9, 10]), np.array([-1, 0, 0, 2, 2, 4]))
    assert best_chain(tree, 5).tokens.tolist() == [5, 7, 9, 10]
    assert best_chain(tree, 1).tokens.tolist() == [5, 7]
    equal = DraftTree(np.array([5, 6, 7]), np.array([-1, 0, 0]))
    assert best_chain(equal, 5).tokens.tolist() == [5, 6]


def test_step_times_give_back_the_times_of_steps() -> None:
    times, rng = StepTimes(5), np.random.default_rng(3)
    for n in range(WARM_UP + 2 * ROUNDS):
        assert times.measuring
        rows = 4 * (1 + times.longest(4))
        # At first it compiles; later the machine works for others.
        times.learn(4, rows, 9.0 if n in (0, 12) else 0.04 + 0.005 * rows + 1e-4 * rng.normal())
    assert not times.measuring
    assert times.longest(4) == 5
    assert times.cost(4).seconds == pytest.approx(0.04 / 4 + 0.005 * np.arange(1, 7), rel=0.15)
    # At a rate of one token per step: a draft pays if its probability is above its share of the step's time.
    assert times.sizer.choose_size(np.array([1.0, 0.9, 0.8, 0.1, 0.05, 0.01])) == 3


def test_step_times_follow_an_engine_that_becomes_slower() -> None:
    times = StepTimes(3)
    for n in range(3000):
        times.learn(1, 1 + n % 4, (0.1 if n < 300 else 1.0) * (1 + n % 4))
    assert times.cost(1).seconds[-1] > 3.0


@pytest.mark.parametrize(("requests", "drafted"), [(1, 5), (2, 2), (16, 1)])
def test_while_steps_are_timed_many_requests_draft_little(requests: int, drafted: int) -> None:
    times, lengths = StepTimes(5), []
    while times.measuring:
        lengths.append(times.longest(requests))
        times.learn(requests, requests * (1 + lengths[-1]), 0.1)
    assert lengths == [0, drafted] * (1 + ROUNDS)
    fresh = StepTimes(5)
    fresh.learn(1, 1, 0.1)
    assert fresh.longest(0) == 5, "a step of nothing but prompts is no fault"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    return served_files(tmp_path_factory.mktemp("served"))


def cycle(start: int, length: int) -> np.ndarray:
    """Text like the corpus."""
    return 8 + (np.arange(start, start + length) % 16)


def test_wrong_settings_are_refused(files: SimpleNamespace, tmp_path: Path) -> None:
    """Also a datastore that is not given, or of another tokenizer."""
    write_small_ngrams(tmp_path / "other.ngrams", [np.arange(9)], VOCABULARY)
    given: list[tuple[dict[str, Any], str]] = [
        ({"method": "nothing"}, "nothing"),
        ({"method": "token_recycling"}, "aded.method: token_recycling reads logits"),
        ({"method": "prompt_lookup", "cost": "measured"}, "aded.cost"),
        ({"method": "prompt_lookup", "datastore": "any.ngrams"}, "aded.datastore: no such key"),
        ({"datastore": files.datastore, "no_such": 1}, "aded.no_such: no such key"),
        ({"datastore": files.datastore, "cost": "table.json"}, "aded.cost"),
        ({"datastore": files.datastore, "contexts": {"corpus": "x"}}, "aded.contexts"),
        ({"datastore": str(tmp_path / "other.ngrams")}, "tokenizer"),
        ({}, r"aded\.datastore: must be given"),
    ]
    for settings, problem in given:
        with pytest.raises(BadInput, match=problem):
            method_of(settings, 5, files.tokenizer)


def test_every_method_that_reads_tokens_alone_takes_its_settings(files: SimpleNamespace) -> None:
    given: list[dict[str, Any]] = [
        {"method": "custom", "_target_": "baselines.tokens.prompt_lookup.PromptLookup"},
        {"method": "layered", "parts": ["prompt_lookup", "sglang_ngram"]},
        {"method": "aded", "draft_maker": "best_first", "datastore": files.datastore},
    ]
    text = np.tile(np.arange(8, 24), 3)
    for settings in given:
        drafter = method_of(settings, 5, files.tokenizer).make()
        drafter.begin(text[:-1])
        drafter.observe(Step(DraftTree.root(int(text[-2])), [0], int(text[-1])))
        assert drafter.draft(text).drafted > 0, settings


def test_a_request_gets_the_chain_of_its_text(files: SimpleNamespace) -> None:
    """Up to the longest text, which no draft reaches beyond: Batch.step asserts that each draft fits."""
    room = 60
    batch = Batch(Proposer(config(files, room=room, cost="none")), room)
    batch.add(cycle(0, 9), cycle(9, room - 9))
    drafts = [batch.step()[0]]
    assert drafts[0] == cycle(10, 5).tolist()
    while batch.rows:
        drafts += batch.step()
    assert len(drafts) < 12, "51 tokens, 5 drafts a step"
    assert drafts[-1] == []


def test_rows_may_move_and_finish(files: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row drafts from its own text, as prompt lookup of the row alone; its drafter begins once."""
    begun: list[int] = []
    monkeypatch.setattr(PromptLookup, "begin", lambda self, ids, seed=0: begun.append(int(ids[0])))
    made = config(files)
    made.additional_config = {"aded": {"method": "prompt_lookup"}}
    batch, rng = Batch(Proposer(made)), np.random.default_rng(0)
    begun.clear()  # of the draft that compiles
    waiting = [np.tile([8 + number, *rng.permutation(30)[:9] + 30], 6) for number in range(20)]
    checked = 0
    while batch.rows or waiting:
        while waiting and len(batch.rows) < ROWS:
            text = waiting.pop()
            batch.add(text[:20], text[20 : 20 + int(rng.integers(1, 40))])
        if len(batch.rows) > 2:
            batch.move(*rng.choice(len(batch.rows), 2, replace=False).tolist())
        batch.step()
        for row in batch.rows:
            known = len(row["out"])
            coming = row["answer"][known : known + 5].tolist()
            assert row["drafts"][: len(coming)] == coming
            checked += 1
    assert checked > 50
    assert sorted(begun) == list(range(8, 28)), "each prompt is read once"
    assert all(row["out"] == row["answer"].tolist() for row in batch.finished)


def test_prompts_that_are_read_in_chunks_wait(files: SimpleNamespace) -> None:
    """Steps without any sample are nothing."""
    batch = Batch(Proposer(config(files)))
    batch.proposer.load_model(None)
    assert batch.proposer.propose([], batch.lengths, batch.tokens) == []
    assert batch.proposer.propose([[], []], batch.lengths, batch.tokens) == [[], []]
    batch.add(cycle(0, 40), cycle(40, 30), chunks=3)
    batch.add(cycle(3, 5), cycle(8, 30))
    assert [bool(drafts) for drafts in batch.step()] == [False, False]  # the first length that is timed is 0
    assert batch.step()[0] == []
    assert batch.proposer._requests._at.keys() == {1}
    batch.run()
    assert all(row["out"] == row["answer"].tolist() for row in batch.finished)


def test_drafters_of_finished_requests_are_used_again_and_freed(files: SimpleNamespace) -> None:
    batch = Batch(Proposer(config(files)))
    requests, rng, made = batch.proposer._requests, np.random.default_rng(2), set()
    for _ in range(300):
        while len(batch.rows) < 4:
            batch.add(rng.integers(8, 64, size=12), rng.integers(8, 64, size=int(rng.integers(1, 6))))
        batch.step()
        made |= {id(one.drafter) for one in requests._at.values()}
        assert len(requests) <= 4
    assert len(made) <= 4
    del batch.rows[1:]
    batch.rows[0]["answer"] = rng.integers(8, 64, size=200)
    for _ in range(KEPT_STEPS + 1):
        batch.rows[0]["drafts"] = []
        batch.step()
    assert len(requests) == 1, "the state of the others is freed"


def test_a_request_set_aside_goes_on(files: SimpleNamespace) -> None:
    """vLLM takes requests out of the batch when memory is short, and reads them again from their start later."""
    batch = Batch(Proposer(config(files)))
    batch.add(cycle(0, 9), cycle(9, 60))
    batch.add(cycle(5, 9), cycle(14, 60))
    batch.step()
    aside, length, text = batch.rows.pop(), batch.lengths[1], batch.tokens[1].copy()
    state = batch.proposer._requests._at[1]
    batch.step()
    batch.lengths[1], batch.tokens[1] = length, text
    aside["drafts"] = []
    batch.rows.append(aside)
    batch.step()
    assert batch.proposer._requests._at[1] is state
    batch.run()
    assert all(row["out"] == row["answer"].tolist() for row in batch.finished)


class Noted(Drafter):
    """Notes what the contract hands over, and drafts a tree."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.context: list[int] = []

    def begin(self, prompt_ids: np.ndarray, seed: int = 0) -> None:
        self.context = prompt_ids.tolist()

    def observe(self, step: Step) -> None:
        assert step.tree.tokens[0] == self.context[-1]
        self.context += step.new_tokens
        self.steps.append(step)

    def draft(self, context: np.ndarray) -> DraftTree:
        assert context.tolist() == self.context, "the loop's contract: what was observed is the context"
        last = int(context[-1])
        tokens = np.array([last, 60, last + 1, last + 2, last + 3])
        return DraftTree(tokens, np.array([-1, 0, 0, 2, 3]), np.array([1.0, 0.3, 0.6, 0.5, 0.4]))


def test_the_contract_of_drafters_holds(files: SimpleNamespace) -> None:
    batch = Batch(Proposer(config(files)))
    noted: list[Noted] = []

    def make() -> Drafter:
        noted.append(Noted())
        return noted[-1]

    batch.proposer._requests = Requests(make)
    batch.proposer._step_times = None
    batch.add(np.array([9, 10]), np.array([11, 12, 13, 14, 20, 21, 22, 23, 24, 25]))
    assert batch.step() == [[12, 13, 14]]
    batch.run()
    assert [step.new_tokens for step in noted[0].steps] == [[11], [12, 13, 14, 20], [21, 22, 23, 24], [25]]
    assert [step.path for step in noted[0].steps] == [[0], [0, 1, 2, 3], [0, 1, 2, 3], [0]]

    # Of a request that comes with several tokens the drafter reads all but the last as a prompt.
    requests, row = Requests(Noted), BatchRow(np.array([9, 10, 30, 31, 32]), 3)
    request = requests.recognise({0: row})[0]
    assert request.draft(row, 5) == [33, 34, 35]
    assert isinstance(request.drafter, Noted)
    assert request.drafter.context == [9, 10, 30, 31, 32]
    assert [step.new_tokens for step in request.drafter.steps] == [[32]]


def test_dear_rows_make_short_drafts(files: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock is the engine's: a second per row, so that nothing but certain tokens pays."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr("aded.engines.vllm.perf_counter", lambda: clock.now)
    drafted = {}
    for row_seconds in (0.0, 1.0):
        batch, rng = Batch(Proposer(config(files))), np.random.default_rng(4)
        drafts: list[list[int]] = []
        for _ in range(200):
            while len(batch.rows) < 2:
                batch.add(rng.integers(8, 24, size=9), rng.integers(8, 24, size=50))
            clock.now += 0.01 + row_seconds * sum(1 + len(row["drafts"]) for row in batch.rows)
            drafts += batch.step()
        drafted[row_seconds] = np.mean([len(one) for one in drafts[200:]])
    assert drafted[0.0] > 4
    assert drafted[1.0] < 1


def test_a_drafter_ends_a_request_before_it_begins_another() -> None:
    """One that learns in `end` would learn nothing."""
    drafter = Mock(spec=PromptLookup)
    requests = Requests(lambda: drafter)
    requests.recognise({0: BatchRow(np.arange(5), 1)})
    requests.recognise({})
    requests.recognise({0: BatchRow(np.arange(40, 48), 1)})
    requests.recognise({0: BatchRow(np.arange(40, 60), 1)})  # the conversation goes on, as a new request
    assert [call[0] for call in drafter.method_calls] == ["begin", "end", "begin", "end", "begin"]


def test_requests_with_one_prompt_keep_apart(files: SimpleNamespace) -> None:
    """Two equal prompts whose answers part: each is known by its own tokens."""
    make, _ = method_of({"datastore": files.datastore}, 5, files.tokenizer)
    requests = Requests(make)
    text = cycle(0, 10)
    first = requests.recognise({0: BatchRow(text, 1), 1: BatchRow(text, 1)})
    assert first[0] is not first[1]
    one, other = np.append(text, 50), np.append(text, 51)
    for at, request in first.items():
        request.draft(BatchRow(text, 1), 5)
        assert request.length == len(text), at
    second = requests.recognise({0: BatchRow(one, 1), 1: BatchRow(other, 1)})
    for at, tokens in ((0, one), (1, other)):
        second[at].draft(BatchRow(tokens, 1), 5)
    third = requests.recognise({0: BatchRow(np.append(other, 9), 1), 1: BatchRow(np.append(one, 9), 1)})
    assert (third[0], third[1]) == (second[1], second[0])


def test_vllm_itself_builds_and_asks_the_proposer(files: SimpleNamespace) -> None:
    proposers = pytest.importorskip(
        "vllm.v1.spec_decode.custom_class_proposer", reason="vllm is not installed here", exc_type=ImportError
    )
    made = config(files, cost="none")
    made.speculative_config.model = "aded.engines.vllm.Proposer"
    proposer = proposers.create_custom_proposer(made)
    tokens, lengths = np.zeros((ROWS, ROOM), np.int32), np.zeros(ROWS, np.int32)
    tokens[0, :10], lengths[0] = cycle(0, 10), 10
    assert proposer.propose([[int(tokens[0, 9])]], lengths, tokens, slot_mappings=None) == [cycle(10, 5).tolist()]
