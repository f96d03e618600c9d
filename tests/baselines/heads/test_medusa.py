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

from aded.config.choices import read_choice
from aded.core.drafter import Step
from aded.core.tree import DraftTree
from aded.errors import BadInput
from baselines.growth import most_probable_paths
from baselines.heads.medusa import OURS, PUBLISHED, Medusa, MedusaHeads, load_heads, save_heads

HIDDEN, VOCABULARY = 16, 40


def random_heads(heads: int = 3, blocks: int = 1, vocabulary: int | None = None) -> MedusaHeads:
    torch.manual_seed(0)
    made = MedusaHeads(heads, blocks, HIDDEN, vocabulary)
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter)
    return made


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
def test_heads_read_the_last_accepted_nodes_state(tmp_path: Path, own: int | None, tokens: list[int] | None) -> None:
    heads, hidden = random_heads(vocabulary=own), torch.randn(4, HIDDEN)
    projection = torch.nn.Linear(HIDDEN, VOCABULARY, bias=False)
    heads.tokens = None if tokens is None else torch.tensor(tokens)
    save_heads(heads, tmp_path / OURS, {})
    drafter = Medusa(str(tmp_path), budget=3, top_k=1)
    drafter.setup(SimpleNamespace(output_projection=projection))
    drafter.observe(Step(DraftTree.chain(1, [2, 2, 2]), [0, 1, 2], 3, hidden=hidden))
    out = load_heads(str(tmp_path), HIDDEN, VOCABULARY)(hidden[2])
    logits = (projection(out) if own is None else out).tolist()
    tree = drafter.draft(np.array([1, 3]))
    assert tree.tokens.tolist() == [3, *(max(tokens or range(VOCABULARY), key=row.__getitem__) for row in logits)]
    assert drafter.node_parts(tree) == ["", "head 1", "head 2", "head 3"]


@pytest.mark.parametrize("blocks", [1, 2])
def test_a_published_file_is_read(tmp_path: Path, blocks: int) -> None:
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
    def __reduce__(self) -> Any:
        return Path.touch, (Path("sprung"),)


def test_nothing_in_a_file_is_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"0.0.linear.weight": Trap()}, PUBLISHED)
    for _ in range(2):
        with pytest.raises(BadInput, match=r"^method.heads: .*cannot be read as tensors"):
            load_heads(str(tmp_path), HIDDEN, VOCABULARY)
        Path(PUBLISHED).write_bytes(pickle.dumps(Trap(), protocol=2))
    assert not Path("sprung").exists()


GOOD: dict[Any, Any] = {name.removeprefix("stacks."): value for name, value in random_heads().state_dict().items()}


@pytest.mark.parametrize(
    ("state", "problem"),
    [
        ([1, 2], "holds no tensors by name"),
        ({}, "it is empty"),
        ({name: value for name, value in GOOD.items() if name != "1.0.linear.bias"}, "it lacks 1.0.linear.bias"),
        ({**GOOD, "0.0.bias": torch.zeros(HIDDEN)}, "it has 0.0.bias, which none has"),
        ({**GOOD, "0.0.linear.bias": torch.full((HIDDEN,), torch.nan)}, "0.0.linear.bias must hold finite"),
        ({**GOOD, "0.0.linear.bias": torch.zeros(HIDDEN, dtype=torch.int64)}, "0.0.linear.bias must hold finite"),
        ({**GOOD, "0.0.linear.bias": torch.zeros(HIDDEN).to_sparse()}, "0.0.linear.bias must be a dense tensor"),
        ({**GOOD, "tokens": torch.tensor([[0]])}, "its tokens must be a list of token ids"),
        ({**GOOD, "tokens": torch.tensor([0, VOCABULARY])}, "its tokens lie outside"),
        ({**GOOD, "tokens": torch.tensor([-1, 0])}, "its tokens lie outside"),
        ({**GOOD, "tokens": torch.tensor([3, 3])}, "some of its tokens occur twice"),
        (random_heads(vocabulary=VOCABULARY + 1).stacks.state_dict(), "was trained for another model: .* needs"),
    ],
)
def test_tensors_that_are_no_heads_are_refused(tmp_path: Path, state: Any, problem: str) -> None:
    torch.save(state, tmp_path / PUBLISHED)
    with pytest.raises(BadInput, match=rf"^method.heads: .*{PUBLISHED}.*{problem}"):
        load_heads(str(tmp_path), HIDDEN, VOCABULARY)


def test_without_heads_or_a_model_one_line_says_so(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"^method.heads: no heads at "):
        load_heads(str(tmp_path), HIDDEN, VOCABULARY)
    with pytest.raises(BadInput, match=r"^method: medusa reads hidden states"):
        Medusa("anywhere").setup(SimpleNamespace())


def test_the_repository_has_heads_for_the_default_model() -> None:
    heads = load_heads(read_choice("method", "medusa")["heads"], 576, 49152)
    assert (len(heads), heads.vocabulary) == (4, None)
