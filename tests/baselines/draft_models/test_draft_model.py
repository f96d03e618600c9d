"""Drafts of a smaller model, and of some of the target's own layers."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from tiny import VOCABULARY, generated, path_to, plain_logits, save_model, tiny_model, tiny_tokenizer

from aded.core.decode import Answer, decode
from aded.core.drafter import Step
from aded.core.sampler import Greedy, Recorded, Rejection, Sampled, Sampler
from aded.core.tree import DraftTree
from aded.errors import BadInput
from aded.targets.eager import EagerTarget
from aded.targets.load import twin_with_layers
from aded.targets.weightless import WeightlessTarget
from baselines.draft_models import model_drafter
from baselines.draft_models.draft_model import DraftModel
from baselines.draft_models.layer_skip import LayerSkip

PROMPT = np.arange(10, 22)
CHAIN: dict[str, Any] = {"budget": 4, "depth": 4, "branches": [1], "beam": 1}


@cache
def target() -> EagerTarget:
    return EagerTarget(tiny_model())


@cache
def draft() -> Any:
    """Another model of the same tokens, which agrees with the target now and then: the first layers are equal."""
    return tiny_model(num_hidden_layers=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("draft"), draft())


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
        monkeypatch.setattr(model_drafter, "ROWS_AT_ONCE", most)
        drafter.begin(PROMPT)
        trees.append(drafter.draft(text))
    check_probabilities(draft(), text, trees[1])
    assert trees[0].tokens.tolist() == trees[1].tokens.tolist()


@pytest.mark.parametrize(
    "shape",
    [
        CHAIN,
        {"budget": 12, "depth": 4, "branches": [3], "beam": 3},
        {"budget": 60, "depth": 5, "branches": [1, 1, 3, 1], "beam": 8},
        {"budget": 9, "depth": 6, "branches": [4, 2], "beam": 2, "least_probability": 0.01},
    ],
    ids=["chain", "dynamic", "expansion", "confident"],
)
def test_probabilities_are_those_of_plain_forwards(folder: Path, shape: dict[str, Any]) -> None:
    """Also behind accepted paths, whose rows are kept."""
    drafter = made(folder, **shape)
    answer = watch(drafter, lambda context, tree: check_probabilities(draft(), context, tree))
    assert max(answer.accept_lengths) > 1


def test_by_rejection_tokens_are_drawn_from_the_draft_models_filtered_distributions(folder: Path) -> None:
    """By plain forwards. The same seed draws the same, and a greedy answer draws nothing."""
    drafter, plain = made(folder, budget=9, depth=3, branches=[2], beam=2), Sampled(0.9, 0.95, 0)
    drafted: list[list[int]] = []

    def look(context: np.ndarray, tree: DraftTree) -> None:
        assert tree.drawn is not None
        assert set(tree.parents[1:].tolist()) <= tree.drawn.keys()
        for node, q in tree.drawn.items():
            ids = [*context[:-1].tolist(), *tree.tokens[path_to(tree, node)].tolist()]
            assert q == pytest.approx(plain.distribution(plain_logits(draft(), ids)).numpy(), abs=1e-4)
            assert (q[tree.tokens[tree.parents == node]] > 0).all()
        drafted.append(tree.tokens.tolist())

    for _ in range(2):
        watch(drafter, look, sampler=Rejection(0.9, 0.95, 0))
    assert drafted[: len(drafted) // 2] == drafted[len(drafted) // 2 :]
    trees: list[DraftTree] = []
    watch(drafter, lambda _, tree: trees.append(tree))
    assert all(tree.drawn is None for tree in trees)


def test_the_draft_model_runs_on_the_targets_engine(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_engine = Mock(side_effect=lambda made, engine, cache: made)
    monkeypatch.setattr(model_drafter, "with_engine", with_engine)
    made(folder, EagerTarget(tiny_model()))
    compiled = EagerTarget(tiny_model())
    monkeypatch.setattr(compiled, "describe", lambda: {"engine": "compiled"})
    made(folder, compiled)
    made(folder, compiled)
    asked = [call.args[1] for call in with_engine.call_args_list]
    assert asked == ["eager", "compiled"], "a second drafter has the same model"


def test_every_token_is_read_once_and_a_cache_that_grows_loses_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The target drafts for itself: behind a step, the bonus token and the last drafted one are new.

    The answer is longer than the first memory of 256 rows.
    """
    running = EagerTarget(tiny_model(max_position_embeddings=512))
    drafter = made(save_model(folder / "same", running.model), running, **CHAIN)
    rows: list[int] = []
    read = EagerTarget.read

    def counting(self: EagerTarget, tree: DraftTree, since: int = 0) -> torch.Tensor:
        if self is drafter.reader.model:
            rows.append(len(tree) - since)
        return read(self, tree, since)

    monkeypatch.setattr(EagerTarget, "read", counting)
    answer = watch(drafter, lambda *_: None, tokens=301, running=running)
    assert answer.accept_lengths == [5] * 60
    assert rows == [1, 1, 1, 1, *[2, 1, 1, 1] * 59]


def test_a_text_longer_than_the_draft_models_context_is_not_drafted(folder: Path) -> None:
    save_model(folder / "short", tiny_model(max_position_embeddings=20))
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


def test_a_model_of_another_family_is_refused_and_one_that_is_padded_differently_is_not(folder: Path) -> None:
    """What only one of the two knows is not drafted."""
    larger = save_model(folder / "larger", tiny_model(vocab_size=VOCABULARY + 8))
    with pytest.raises(BadInput, match=rf"^method.model: .* has {VOCABULARY + 8} tokens, the target {VOCABULARY}"):
        made(larger)
    known: Any = tiny_model()
    known.config.name_or_path = str(folder)  # as from_pretrained leaves it
    made(larger, EagerTarget(known))
    known.config.name_or_path = str(save_model(folder / "other", tiny_model(), tiny_tokenizer(["zzz"])))
    with pytest.raises(BadInput, match=r"^method.model: .* has another tokenizer than the target"):
        made(larger, EagerTarget(known))
    drafter = DraftModel(str(larger), str(larger), branches=[VOCABULARY + 8], budget=100, depth=1)
    with pytest.raises(BadInput, match=r"^method.model: .* has another tokenizer than the target"):
        drafter.check_tokenizer(tiny_tokenizer(["zzz"]))
    drafter.check_tokenizer(tiny_tokenizer())
    drafter.setup(target())
    seen: set[int] = set()
    watch(drafter, lambda _, tree: seen.update(tree.tokens.tolist()))
    assert seen == set(range(VOCABULARY))
    (larger / "model.safetensors").unlink()
    with pytest.raises(BadInput, match=r"^method.model: .* cannot be loaded"):
        made(larger, EagerTarget(tiny_model()))


def test_a_reason_for_no_draft_is_given_only_where_it_is_one(folder: Path) -> None:
    drafter = made(folder)
    drafter.begin(np.resize(PROMPT, 200))
    assert (drafter.why_no_draft or "").startswith("its model has 128 positions")
    drafter.begin(PROMPT)
    assert drafter.why_no_draft is None


@cache
def deep_target() -> EagerTarget:
    return EagerTarget(tiny_model(num_hidden_layers=4))


def skipping(layers: int, **settings: Any) -> LayerSkip:
    drafter = LayerSkip(layers, "nowhere", **settings)
    drafter.setup(deep_target())
    return drafter


@pytest.mark.parametrize(
    ("layers", "left_out", "numbers"), [(1, [], [0]), (3, [], [0, 1, 2]), (4, [2], [0, 1, 3]), (3, [0, 1, 3], [2])]
)
def test_the_chosen_layers_draft(layers: int, left_out: list[int], numbers: list[int]) -> None:
    drafter, shallow = skipping(layers, left_out=left_out), twin_with_layers(deep_target().model, numbers)
    drafter.begin(PROMPT)
    context = np.append(PROMPT, 5)
    for token in (7, 9, 3):
        assert drafter.draft(context).tokens[1:].tolist() == generated(shallow, context, 4, use_cache=False)
        context = np.append(context, token)


def test_a_target_without_such_layers_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadInput, match=r"^method.layers: 5 must be 4 or less, as many as the target has"):
        skipping(5)
    with pytest.raises(BadInput, match=r"^method.left_out: \[1, 0\] leaves no layer of 2"):
        skipping(2, left_out=[1, 0])
    for running in (WeightlessTarget(), EagerTarget(tiny_model(), trained=False)):
        with pytest.raises(BadInput, match=r"^method: layer_skip drafts with the target's layers, so it needs"):
            LayerSkip(1, "nowhere").setup(running)
    counting = EagerTarget(tiny_model())
    monkeypatch.setattr(counting.row_bias, "modules", [torch.nn.Identity()])
    with pytest.raises(BadInput, match=r"^method: layer_skip cannot share layers whose attention counts"):
        LayerSkip(1, "nowhere").setup(counting)
