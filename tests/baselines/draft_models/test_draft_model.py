from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny import VOCABULARY, path_to, plain_logits, tiny_model, tiny_tokenizer

from aded.core.decode import Answer, decode
from aded.core.drafter import Step
from aded.core.rejection import Rejection
from aded.core.sampler import Greedy, Recorded, Sampled, Sampler
from aded.core.tree import DraftTree
from aded.errors import BadInput
from aded.targets.compiled_cpu import CompiledCpuTarget
from aded.targets.eager import EagerTarget
from aded.targets.weightless import WeightlessTarget
from baselines.draft_models import reader
from baselines.draft_models.draft_model import DraftModel

PROMPT = np.arange(10, 22)


@cache
def target() -> EagerTarget:
    return EagerTarget(tiny_model())


@cache
def draft() -> Any:
    """Another model of the same tokens, which agrees with the target now and then: the first layers are equal."""
    return tiny_model(num_hidden_layers=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(draft(), tmp_path_factory.mktemp("draft"))


def saved(model: Any, folder: Path, tokenizer: Any = None) -> Path:
    model.save_pretrained(folder)
    (tokenizer or tiny_tokenizer()).save_pretrained(folder)
    return folder


def made(folder: Path, running: Any = None, **settings: Any) -> DraftModel:
    drafter = DraftModel(str(folder), str(folder), **settings)
    drafter.setup(running or target())
    return drafter


def watch(
    drafter: DraftModel,
    see: Callable[[np.ndarray, DraftTree], None],
    tokens: int = 24,
    running: Any = None,
    sampler: Sampler | None = None,
) -> Answer:
    """An answer, each step of which hands its context and its tree to `see`."""
    context = PROMPT.tolist()

    def seen(step: Step) -> None:
        text = np.append(context, step.tree.tokens[0])
        see(text, step.tree)
        context[:] = [*text.tolist(), *step.new_tokens[:-1]]

    return decode(running or target(), drafter, PROMPT, sampler or Greedy(), max_new_tokens=tokens, on_step=seen)


def check_probabilities(model: Any, context: np.ndarray, tree: DraftTree) -> None:
    """Each node's probability is the product along its path, by plain forwards without a cache."""
    assert tree.probabilities is not None
    for node in range(1, len(tree)):
        parent = int(tree.parents[node])
        ids = [*context[:-1].tolist(), *tree.tokens[path_to(tree, parent)].tolist()]
        alone = plain_logits(model, ids).softmax(-1)[tree.tokens[node]]
        assert tree.probabilities[node] == pytest.approx(tree.probabilities[parent] * float(alone), rel=1e-3)


def test_a_text_that_went_on_without_drafts_is_read_in_pieces(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where another part of a `layered` drafted for long: at once it would need logits of every token of it."""
    text = np.concatenate([PROMPT, np.arange(30, 41)])
    whole, pieces = made(folder, depth=3), made(folder, depth=3)
    trees = []
    for drafter, most in ((whole, 256), (pieces, 4)):
        monkeypatch.setattr(reader, "ROWS_AT_ONCE", most)
        drafter.begin(PROMPT)
        trees.append(drafter.draft(text))
    check_probabilities(draft(), text, trees[1])
    assert trees[0].tokens.tolist() == trees[1].tokens.tolist()


def test_a_chain_is_what_the_draft_models_own_generate_writes(folder: Path) -> None:
    def see(context: np.ndarray, tree: DraftTree) -> None:
        wanted = draft().generate(
            torch.from_numpy(context)[None], max_new_tokens=tree.drafted or 1, do_sample=False, pad_token_id=0
        )[0, len(context) :]
        assert tree.tokens[1:].tolist() == wanted.tolist()[: tree.drafted]
        assert tree.parents.tolist() == list(range(-1, tree.drafted))

    watch(made(folder, budget=4, depth=4, branches=[1], beam=1), see)


@pytest.mark.parametrize(
    "shape",
    [
        {"budget": 12, "depth": 4, "branches": [3], "beam": 3},
        {"budget": 128, "depth": 5, "branches": [1, 1, 3, 1], "beam": 16},
        {"budget": 9, "depth": 6, "branches": [4, 2], "beam": 2, "least_probability": 0.01},
    ],
    ids=["dynamic", "expansion", "confident"],
)
def test_probabilities_are_those_of_plain_forwards(folder: Path, shape: dict[str, Any]) -> None:
    """Also behind accepted paths, whose rows are kept."""
    drafter = made(folder, **shape)
    answer = watch(drafter, lambda context, tree: check_probabilities(draft(), context, tree))
    assert max(answer.accept_lengths) > 1


@pytest.mark.parametrize(
    "shape",
    [
        {"budget": 4, "depth": 4, "branches": [1], "beam": 1},
        {"budget": 9, "depth": 3, "branches": [2], "beam": 2},
    ],
    ids=["chain", "tree"],
)
def test_drawn_drafts_are_accepted_with_the_mass_that_target_and_draft_share(
    folder: Path, shape: dict[str, Any]
) -> None:
    """Of a chain; of a tree more are accepted."""
    drafter, prompt = made(folder, **shape), PROMPT.tolist()
    drafter.requires = frozenset({"logits"})
    shared, accepted, plain = list[float](), 0, Sampled(0.9, 0.95, 0)

    def seen(step: Step) -> None:
        nonlocal accepted
        assert step.logits is not None
        assert step.tree.drawn is not None
        accepted += len(step.path) - 1
        for node in step.path:
            if node in step.tree.parents:
                p, q = plain.distribution(step.logits[node]).numpy(), step.tree.drawn[node]
                shared.append(float(np.minimum(p, q).sum()))

    trees: list[DraftTree] = []
    for seed in range(40):
        sampler = Rejection(0.9, 0.95, seed)
        decode(target(), drafter, np.array(prompt), sampler, max_new_tokens=20, seed=seed, on_step=seen)
        again = watch(drafter, lambda _, tree: trees.append(tree), 4, sampler=sampler)
        assert again.token_ids == watch(drafter, lambda _, tree: None, 4, sampler=sampler).token_ids
    share = accepted / len(shared)
    if shape["beam"] == 1:
        assert share == pytest.approx(np.mean(shared), abs=0.06)
    else:
        assert share > np.mean(shared)
    assert max(tree.drafted for tree in trees) <= shape["budget"]


def test_trees_of_greedy_answers_are_no_draw(folder: Path) -> None:
    """Also after an answer for which tokens were drawn."""
    drafter = made(folder, budget=4, depth=4, branches=[1], beam=1)
    for sampler, drawn in ((Rejection(1.0, 1.0, 0), True), (Greedy(), False)):
        trees: list[DraftTree] = []
        watch(drafter, lambda _, tree, trees=trees: trees.append(tree), sampler=sampler)  # type: ignore[misc]
        assert {tree.drawn is not None for tree in trees} == {drawn}


def test_the_draft_model_runs_on_the_targets_engine(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def with_engine(made: EagerTarget, engine: str, cache: str) -> EagerTarget:
        asked.append(engine)
        return made

    monkeypatch.setattr(reader, "with_engine", with_engine)
    made(folder, EagerTarget(tiny_model()))
    compiled = CompiledCpuTarget(tiny_model(), backend="eager")
    made(folder, compiled)
    made(folder, compiled)
    assert asked == ["eager", "compiled"], "a second drafter has the same model"


def test_a_cache_that_grows_loses_nothing(folder: Path) -> None:
    """An answer longer than the first memory of 256 rows."""
    long = tiny_model(max_position_embeddings=512)
    saved(long, folder / "long")
    running = EagerTarget(long)
    drafter = made(folder / "long", running, budget=4, depth=4, branches=[1], beam=1)
    answer = watch(drafter, lambda *_: None, tokens=400, running=running)
    assert set(answer.accept_lengths[:-1]) == {5}, "the target drafts for itself"


def test_every_token_is_read_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The target drafts for itself: behind a step, the bonus token and the last drafted one are new."""
    saved(tiny_model(), folder / "same")
    drafter = made(folder / "same", budget=4, depth=4, branches=[1], beam=1)
    rows: list[int] = []
    read = EagerTarget.read

    def counting(self: EagerTarget, tree: DraftTree, since: int = 0) -> torch.Tensor:
        if self is drafter.reader.model:
            rows.append(len(tree) - since)
        return read(self, tree, since)

    monkeypatch.setattr(EagerTarget, "read", counting)
    answer = watch(drafter, lambda *_: None, tokens=21)
    assert answer.accept_lengths == [5, 5, 5, 5]
    assert rows == [1, 1, 1, 1, *[2, 1, 1, 1] * 3]


def test_a_text_longer_than_the_draft_models_context_is_not_drafted(folder: Path) -> None:
    saved(tiny_model(max_position_embeddings=20), folder / "short")
    drafter = made(folder / "short", budget=6, depth=6, branches=[1], beam=1)
    reached: list[int] = []

    def look(context: np.ndarray, tree: DraftTree) -> None:
        if tree.drafted:
            reached.append(len(context) - 1 + tree.drafted)

    watch(drafter, look, tokens=20)
    assert max(reached) <= 20
    long = np.arange(30)
    drafter.begin(long)
    assert drafter.draft(np.append(long, 1)).drafted == 0


def test_recorded_answers_measure_it_exactly(folder: Path) -> None:
    """Without the target it drafts what it drafts beside it."""
    trees: list[list[int]] = []
    answer = watch(made(folder), lambda _, tree: trees.append(tree.tokens.tolist()))
    replayed: list[list[int]] = []
    weightless = WeightlessTarget()
    drafter = DraftModel(str(folder), str(folder))
    drafter.check_tokenizer(tiny_tokenizer())
    drafter.setup(weightless)
    drafter._reader = made(folder).reader  # in float32, as beside the target
    recorded = Recorded(answer.token_ids)
    got = watch(drafter, lambda _, tree: replayed.append(tree.tokens.tolist()), 24, weightless, recorded)
    assert (got.accept_lengths, replayed) == (answer.accept_lengths, trees)


def test_a_model_of_another_tokenizer_is_refused(folder: Path) -> None:
    drafter = DraftModel(str(folder), str(folder))
    drafter.check_tokenizer(tiny_tokenizer())
    with pytest.raises(BadInput, match=r"^method.model: .* has another tokenizer than the target; name a model"):
        drafter.check_tokenizer(tiny_tokenizer(["zzz"]))


def test_a_model_of_another_size_is_refused_unless_its_tokenizer_is_the_same(folder: Path) -> None:
    """Models of one family pad their vocabularies differently. What only one of them knows is not drafted."""
    larger = saved(tiny_model(vocab_size=VOCABULARY + 8), folder / "larger")
    with pytest.raises(BadInput, match=rf"^method.model: .* has {VOCABULARY + 8} tokens, the target {VOCABULARY}"):
        made(larger)
    drafter = DraftModel(str(larger), str(larger), branches=[VOCABULARY + 8], budget=100, depth=1)
    drafter.check_tokenizer(tiny_tokenizer())
    drafter.setup(target())
    seen: set[int] = set()
    watch(drafter, lambda _, tree: seen.update(tree.tokens.tolist()))
    assert seen == set(range(VOCABULARY))


def test_a_folder_that_is_no_model_is_refused(tmp_path: Path) -> None:
    tiny_tokenizer().save_pretrained(tmp_path)
    with pytest.raises(BadInput, match=r"^method.model: .* cannot be loaded") as caught:
        made(tmp_path)
    assert "\n" not in str(caught.value)
