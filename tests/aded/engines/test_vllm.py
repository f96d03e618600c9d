"""The proposer for vLLM, driven as vLLM drives it (vllm_batch). One test runs against vLLM itself, where it is
installed."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from served_files import served_files
from vllm_batch import ROOM, ROWS, Batch, config

from aded.core.drafter import Drafter, Step
from aded.core.tree import DraftTree
from aded.engines.methods import method_of
from aded.engines.requests import KEPT_STEPS, BatchRow, Requests
from aded.engines.vllm import Proposer
from baselines.tokens.prompt_lookup import PromptLookup


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    return served_files(tmp_path_factory.mktemp("served"))


def cycle(start: int, length: int) -> np.ndarray:
    """Text like the corpus."""
    return 8 + (np.arange(start, start + length) % 16)


def test_a_request_gets_the_chain_of_its_text(files: SimpleNamespace) -> None:
    """Up to the longest text, which no draft reaches beyond: Batch.step asserts that each draft fits."""
    room = 60
    batch = Batch(Proposer(config(files, room=room, cost="none")), room)
    batch.add(cycle(0, 9), cycle(9, room - 9))
    drafts = [batch.step()[0]]
    assert drafts[0] == cycle(10, 5).tolist()
    while batch.rows:
        drafts += batch.step()
    assert batch.per_step > 4
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
    batch = Batch(Proposer(config(files)))
    batch.add(cycle(0, 40), cycle(40, 30), chunks=3)
    batch.add(cycle(3, 5), cycle(8, 30))
    assert [bool(drafts) for drafts in batch.step()] == [False, False]  # the first length that is timed is 0
    assert batch.step()[0] == []
    assert batch.proposer._requests._at.keys() == {1}
    batch.run()
    assert all(row["out"] == row["answer"].tolist() for row in batch.finished)


def test_steps_without_any_sample_are_nothing(files: SimpleNamespace) -> None:
    proposer = Proposer(config(files))
    tokens, lengths = np.zeros((ROWS, ROOM), np.int32), np.zeros(ROWS, np.int32)
    assert proposer.propose([], lengths, tokens) == []
    assert proposer.propose([[], []], lengths, tokens) == [[], []]
    proposer.load_model(None)


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
    while len(batch.rows) > 1:
        batch.rows.pop()
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


def test_of_a_request_that_comes_with_several_tokens_the_last_is_observed() -> None:
    """The drafter reads those before as a prompt, so that it knows all."""
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
    calls: list[str] = []

    class Counting(PromptLookup):
        def begin(self, prompt_ids: np.ndarray, seed: int = 0) -> None:
            calls.append("begin")

        def end(self) -> None:
            calls.append("end")

    requests = Requests(lambda: Counting())
    requests.recognise({0: BatchRow(np.arange(5), 1)})
    requests.recognise({})
    requests.recognise({0: BatchRow(np.arange(40, 48), 1)})
    assert calls == ["begin", "end", "begin"]


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
