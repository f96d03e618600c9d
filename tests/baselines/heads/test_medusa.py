from __future__ import annotations

import itertools
import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from aded.core.drafter import Step
from aded.core.tree import DraftTree
from aded.errors import BadInput
from baselines.heads.medusa import Medusa
from baselines.heads.medusa_heads import OURS, PUBLISHED, MedusaHeads, load_heads, save_heads
from baselines.heads.shared.paths import most_probable_paths

HIDDEN, VOCABULARY = 16, 40


def random_heads(heads: int = 3, blocks: int = 1, vocabulary: int | None = None) -> MedusaHeads:
    torch.manual_seed(0)
    made = MedusaHeads(heads, blocks, HIDDEN, vocabulary)
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter)
    return made


@pytest.fixture
def projection() -> torch.nn.Linear:
    torch.manual_seed(1)
    return torch.nn.Linear(HIDDEN, VOCABULARY, bias=False)


def medusa_of(projection: torch.nn.Linear, heads: str, **settings: int) -> Medusa:
    drafter = Medusa(heads, **settings)
    drafter.setup(SimpleNamespace(output_projection=projection))
    return drafter


def observe(drafter: Medusa, hidden: torch.Tensor, path: list[int]) -> None:
    tree = DraftTree.chain(1, [2] * (len(hidden) - 1))
    drafter.observe(Step(tree, path, 3, hidden=hidden))


@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(1, 4), st.integers(0, 30))
def test_the_most_probable_paths_are_drafted(seed: int, heads: int, top_k: int, budget: int) -> None:
    rng = np.random.default_rng(seed)
    probabilities = np.sort(rng.random((heads, top_k), np.float32))[:, ::-1].copy()
    tokens = np.stack([rng.permutation(VOCABULARY)[:top_k] for _ in range(heads)])
    tree = DraftTree(*most_probable_paths(tokens, probabilities, 7, budget))
    every = [
        float(np.prod([probabilities[level, rank] for level, rank in enumerate(ranks)], dtype=np.float64))
        for depth in range(1, heads + 1)
        for ranks in itertools.product(range(top_k), repeat=depth)
    ]
    got = [1.0]
    for token, parent, depth in zip(tree.tokens[1:], tree.parents[1:], tree.depths[1:], strict=True):
        rank = tokens[depth - 1].tolist().index(token)
        got.append(got[parent] * float(probabilities[depth - 1, rank]))
    assert tree.tokens[0] == 7
    assert got[1:] == pytest.approx(sorted(every, reverse=True)[:budget])


@pytest.mark.parametrize(("own", "tokens"), [(None, None), (VOCABULARY, None), (None, [3, 8, 21, 34])])
def test_the_heads_read_the_last_accepted_nodes_state(
    tmp_path: Path, projection: torch.nn.Linear, own: int | None, tokens: list[int] | None
) -> None:
    """Depth k of the tree has the most probable token of head k at the last accepted node, of those that it knows."""
    heads, hidden = random_heads(vocabulary=own), torch.randn(4, HIDDEN)
    heads.tokens = None if tokens is None else torch.tensor(tokens)
    save_heads(heads, tmp_path / OURS, {})
    drafter = medusa_of(projection, str(tmp_path), budget=3, top_k=1)
    observe(drafter, hidden, [0, 1, 2])
    out = load_heads(str(tmp_path), HIDDEN, VOCABULARY)(hidden[2])
    logits = (projection(out) if own is None else out).tolist()
    tree = drafter.draft(np.array([1, 3]))
    assert tree.tokens.tolist() == [3, *(max(tokens or range(VOCABULARY), key=row.__getitem__) for row in logits)]
    assert drafter.node_parts(tree) == ["", "head 1", "head 2", "head 3"]


def test_a_target_without_a_model_is_an_error() -> None:
    with pytest.raises(BadInput, match=r"^method: medusa reads hidden states"):
        Medusa("anywhere").setup(SimpleNamespace())


@pytest.mark.parametrize("blocks", [1, 2])
def test_a_published_file_is_read(tmp_path: Path, blocks: int) -> None:
    """Its tensors are 0.0.linear.weight, 0.0.linear.bias and so on, and 0.1.weight for the projection."""
    expected = random_heads(heads=5, blocks=blocks, vocabulary=VOCABULARY)
    state = {name.removeprefix("stacks."): value for name, value in expected.state_dict().items()}
    assert {"0.0.linear.weight", "0.0.linear.bias", f"4.{blocks}.weight"} <= state.keys()
    torch.save(state, tmp_path / PUBLISHED)
    found = load_heads(str(tmp_path), HIDDEN, VOCABULARY)
    hidden = torch.randn(2, HIDDEN)
    torch.testing.assert_close(found(hidden), expected(hidden))
    assert found(hidden).shape == (5, 2, VOCABULARY)


def test_untrained_blocks_are_the_identity() -> None:
    hidden = torch.randn(2, HIDDEN)
    torch.testing.assert_close(MedusaHeads(2, 3, HIDDEN)(hidden), hidden.expand(2, 2, HIDDEN))


class Trap:
    """Unpickling it would create the file `path`."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return Path.touch, (Path(self.path),)  # type: ignore[return-value]

    path = ""


def test_nothing_in_a_file_is_executed(tmp_path: Path) -> None:
    trap = Trap()
    trap.path = str(tmp_path / "sprung")
    torch.save({"0.0.linear.weight": trap}, tmp_path / PUBLISHED)
    check_error(tmp_path, "cannot be read as tensors")
    (tmp_path / PUBLISHED).write_bytes(pickle.dumps(trap, protocol=2))
    check_error(tmp_path, "cannot be read as tensors")
    assert not (tmp_path / "sprung").exists()


def check_error(place: Path, problem: str) -> None:
    with pytest.raises(BadInput, match=r"^method.heads: ") as caught:
        load_heads(str(place), HIDDEN, VOCABULARY)
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_without_heads_is_an_error(tmp_path: Path) -> None:
    check_error(tmp_path, "no heads at ")
    path = tmp_path / OURS
    save_file({}, path)
    check_error(path, "it is empty")
    save_heads(random_heads(), path, {})
    state = load_file(path)
    save_file({name: value for name, value in state.items() if name != "1.0.linear.bias"}, path)
    check_error(path, "1.0.linear.bias")
    save_file({**state, "tokens": torch.tensor([0, VOCABULARY])}, path)
    check_error(path, "its tokens lie outside")
    torch.save([1, 2], tmp_path / PUBLISHED)
    check_error(tmp_path / PUBLISHED, "holds no tensors by name")


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("tokens", torch.tensor([[0]]), "its tokens must be a list of token ids"),
        ("tokens", torch.tensor([True]), "its tokens must be a list of token ids"),
        ("tokens", torch.tensor([3, 3]), "some of its tokens occur twice"),
        ("0.0.linear.bias", torch.full((HIDDEN,), torch.nan), "0.0.linear.bias must hold finite"),
        ("0.0.linear.bias", torch.zeros(HIDDEN, dtype=torch.int64), "0.0.linear.bias must hold finite"),
        ("0.0.linear.bias", torch.zeros(HIDDEN).to_sparse(), "0.0.linear.bias must be a dense tensor"),
        (7, torch.zeros(HIDDEN), "holds no tensors by name"),
    ],
)
def test_tensors_that_are_no_heads_are_refused(tmp_path: Path, name: Any, value: torch.Tensor, problem: str) -> None:
    path = tmp_path / OURS
    save_heads(random_heads(), path, {})
    torch.save({**load_file(path), name: value}, tmp_path / PUBLISHED)
    check_error(tmp_path / PUBLISHED, problem)


def test_heads_of_another_model_are_an_error(tmp_path: Path) -> None:
    save_heads(random_heads(vocabulary=VOCABULARY), tmp_path / OURS, {})
    with pytest.raises(BadInput, match=r"was trained for another model: .* this target needs"):
        load_heads(str(tmp_path), HIDDEN, VOCABULARY + 1)


def test_the_repository_has_heads_for_the_default_model() -> None:
    heads = load_heads("baselines/heads/medusa_smollm2", 576, 49152)
    assert (len(heads), heads.vocabulary) == (4, None)
