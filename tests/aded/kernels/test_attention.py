"""Our attention for few rows against torch's, and a node in a tree against its token decoded alone."""

from itertools import product

import numpy as np
import pytest
import torch
from tiny import MODELS, Obedient, path_to, random_tree, tiny_model
from transformers import PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from aded.core.tree import DraftTree
from aded.kernels import attention, ops
from aded.targets.compiled_target import CompiledCpuTarget
from aded.targets.eager import EagerTarget
from aded.targets.load import use_own_kernels

ops.load()

DTYPES = [torch.float32, torch.bfloat16]
SDPA_MODELS = [name for name, (_, attention, _) in MODELS.items() if attention == "sdpa"]


def attention_layer(groups: int) -> torch.nn.Module:
    layer = torch.nn.Module()
    layer.num_key_value_groups, layer.is_causal = groups, True  # type: ignore[assignment]
    return layer


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 2e-6), (torch.bfloat16, 2e-2)])
@pytest.mark.parametrize("width", [8, 16, 64, 80, 128])
def test_equals_torchs_in_double_precision(dtype: torch.dtype, tolerance: float, width: int) -> None:
    """stored: rows of the memory whose first 50 are read."""
    for groups, rows, stored in product([1, 3], [1, 2, 5, 40, 300], [50, 64]):
        torch.manual_seed(rows)
        query = torch.randn(1, rows, 2 * groups, width).to(dtype).transpose(1, 2)
        keys, values = (torch.randn(1, 2, stored, width).to(dtype)[:, :, :50] for _ in range(2))
        mask = torch.rand(1, 1, rows, 50) < 0.7
        mask[..., 3] = True
        layer, scaling = attention_layer(groups), 1.2 * width**-0.5
        ours, _ = attention.tree_attention(layer, query, keys, values, mask, scaling=scaling)
        query, keys, values = query.double(), keys.double(), values.double()
        wanted, _ = sdpa_attention_forward(layer, query, keys, values, mask, scaling=scaling)
        torch.testing.assert_close(ours, wanted.to(dtype), atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [8, 64, 80])
def test_a_row_is_the_same_to_the_last_bit_beside_others_and_beyond_hidden_rows(
    dtype: torch.dtype, width: int
) -> None:
    torch.manual_seed(0)
    query, keys, values = (torch.randn(1, heads, 40, width).to(dtype) for heads in (6, 2, 2))
    mask = torch.tril(torch.ones(40, 40, dtype=torch.bool))[None, None]
    layer = attention_layer(3)
    together, _ = attention.tree_attention(layer, query, keys, values, mask)
    for i in range(40):
        seen = (keys[:, :, : i + 1], values[:, :, : i + 1])
        alone, _ = attention.tree_attention(layer, query[:, :, i : i + 1], *seen, None)
        assert torch.equal(alone[:, 0], together[:, i])


def test_a_long_query_is_read_in_parts_with_the_same_result() -> None:
    torch.manual_seed(0)
    query, keys, values = (torch.randn(1, heads, 600, 16) for heads in (4, 2, 2))
    mask = torch.ones(600, 600, dtype=torch.bool).tril().triu(-300)[None, None]
    ours, _ = attention.tree_attention(attention_layer(2), query, keys, values, mask)
    assert torch.equal(ours, torch.ops.aded.tree_attention(query, keys, values, mask, 0.25))


@pytest.mark.parametrize("odd", ["keys", "values"])
def test_keys_and_values_that_lie_differently_are_read(odd: str) -> None:
    torch.manual_seed(0)
    query = torch.randn(1, 4, 3, 16)
    stored = {name: torch.randn(1, 2, 64, 16)[:, :, :40] for name in ("keys", "values")}
    given = {**stored, odd: stored[odd].transpose(2, 3).contiguous().transpose(2, 3)}
    mask = torch.ones(1, 1, 3, 40, dtype=torch.bool)
    found, wanted = (torch.ops.aded.tree_attention(query, *each.values(), mask, 0.25) for each in (given, stored))
    assert torch.equal(found, wanted)


def test_large_scores_neither_overflow_nor_vanish_and_prompts_go_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    query, keys = torch.full((1, 1, 1, 8), 40.0), torch.randn(1, 1, 30, 8) * 40
    values = torch.randn(1, 1, 30, 8)
    ours, _ = attention.tree_attention(attention_layer(1), query, keys, values, None)
    wanted, _ = sdpa_attention_forward(attention_layer(1), query, keys, values, None)
    torch.testing.assert_close(ours, wanted)
    monkeypatch.setattr(attention.torch.ops.aded, "tree_attention", lambda *_: pytest.fail("the kernel must not run"))
    query = torch.randn(1, 2, 6, 8)
    ours, _ = attention.tree_attention(attention_layer(1), query, query, query, None)
    wanted, _ = sdpa_attention_forward(attention_layer(1), query, query, query, None)
    assert torch.equal(ours, wanted)


def with_own_kernels(name: str, dtype: torch.dtype) -> PreTrainedModel:
    model = tiny_model(name).bfloat16()
    if dtype == torch.float32:  # with weights that bfloat16 represents
        model = model.float()
    use_own_kernels(model, "exact")
    return model


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", SDPA_MODELS)
def test_a_node_has_the_logits_of_its_token_decoded_alone(name: str, dtype: torch.dtype) -> None:
    """To the last bit, over several steps: greedy answers are therefore identical in any dtype."""
    model = with_own_kernels(name, dtype)
    walk(EagerTarget(model), EagerTarget(model))


# A C++ compiler takes seconds a model: all are traced in one dtype, and one in both is compiled to the end.
COMPILED = [
    ("gemma3-window", "eager", torch.float32),
    *(pytest.param("llama", "inductor", dtype, marks=pytest.mark.thorough) for dtype in DTYPES),
    *(pytest.param(name, "eager", torch.float32, marks=pytest.mark.thorough) for name in SDPA_MODELS[:-1]),
]


@pytest.mark.parametrize(("name", "backend", "dtype"), COMPILED)
def test_so_it_has_in_compiled_steps(name: str, backend: str, dtype: torch.dtype) -> None:
    """In float32 the logits are close to the eager engine's."""
    compiled = CompiledCpuTarget(with_own_kernels(name, dtype), backend)
    found = walk(compiled, compiled.fork())
    wanted = walk(*(EagerTarget(with_own_kernels(name, dtype)) for _ in range(2)))
    if dtype == torch.float32:
        torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-4)


def walk(trees: EagerTarget, alone: EagerTarget) -> torch.Tensor:
    """Verify trees, and each node of one of their paths alone; both have the same logits. Returns the trees'."""
    rng, prompt, sampler = np.random.default_rng(3), np.arange(10, 22, dtype=np.int64), Obedient()
    for target in (trees, alone):
        target.prefill(prompt, sampler, 64, {"logits"})
    found = []
    for nodes in (9, 1, 2, 12, 7):
        tree = random_tree(rng, nodes, int(rng.integers(50)))
        path = path_to(tree, int(rng.integers(nodes)))
        sampler.path = path
        step = trees.verify(tree)
        assert step.logits is not None
        found.append(step.logits.clone())
        sampler.path = [0]
        for node in path:
            single = alone.verify(DraftTree.root(int(tree.tokens[node])))
            assert single.logits is not None
            assert torch.equal(found[-1][node], single.logits[0])
    return torch.cat(found)
