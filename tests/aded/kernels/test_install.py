"""Compiled steps with our kernels: a token in a tree has the logits of the token decoded alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from test_attention import SDPA_MODELS, with_own_kernels
from tiny import MODELS, Obedient, path_to, random_tree

from aded.core.tree import DraftTree
from aded.kernels import install
from aded.kernels.install import ATTENTION, GroupedLinear
from aded.targets.compiled_cpu import CompiledCpuTarget
from aded.targets.eager import EagerTarget

pytestmark = pytest.mark.slow  # a C++ compiler runs
DTYPES = [torch.float32, torch.bfloat16]


def test_layers_with_one_input_share_a_product(monkeypatch: pytest.MonkeyPatch) -> None:
    """A layer that reads another input than its group computes its own part."""
    model = with_own_kernels("qwen2", torch.float32, monkeypatch)
    layers = [getattr(model.model.layers[0].self_attn, name) for name in install.GROUPS[0]]
    x, other = torch.randn(1, 3, 32), torch.randn(1, 3, 32)
    wanted = [[layer(each) for layer in layers] for each in (x, other)]
    install.prepare(model)
    layers = [getattr(model.model.layers[0].self_attn, name) for name in install.GROUPS[0]]
    assert all(isinstance(layer, GroupedLinear) for layer in layers)
    assert model.config._attn_implementation == ATTENTION
    products: list[int] = []
    layers[0].whole.register_forward_hook(lambda *_: products.append(1))
    for layer, y in zip(layers, wanted[0], strict=True):
        assert torch.equal(layer(x), y)
    assert len(products) == 1
    assert torch.equal(layers[0](x), wanted[0][0])
    assert torch.equal(layers[1](other), wanted[1][1])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("name", "backend"), [("llama", "inductor"), *((name, "eager") for name in SDPA_MODELS if name != "llama")]
)
def test_a_node_has_the_logits_of_its_token_decoded_alone(
    name: str, backend: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the last bit, compiled; in float32 the logits are close to the eager engine's."""
    assert name in MODELS
    compiled = CompiledCpuTarget(with_own_kernels(name, dtype, monkeypatch), backend)
    eager = EagerTarget(with_own_kernels(name, dtype, monkeypatch))
    prompt, sampler, rng = np.arange(10, 22, dtype=np.int64), Obedient(), np.random.default_rng(3)
    for target in (compiled, eager):
        target.prefill(prompt, sampler, 64, {"logits"})
    walks = []
    for nodes in (9, 1, 2, 12, 7):
        tree = random_tree(rng, nodes, int(rng.integers(50)))
        path = path_to(tree, int(rng.integers(nodes)))
        found = []
        for target in (compiled, eager):
            sampler.path = path
            found.append(target.verify(tree).logits)
        logits, wanted = found
        assert logits is not None
        if dtype == torch.float32:
            torch.testing.assert_close(logits, wanted, atol=1e-4, rtol=1e-4)
        walks.append((tree, path, logits.clone()))
    compiled.prefill(prompt, sampler, 64, {"logits"})
    sampler.path = [0]
    for tree, path, logits in walks:
        for node in path:
            single = compiled.verify(DraftTree.root(int(tree.tokens[node]))).logits
            assert single is not None
            assert torch.equal(logits[node], single[0])
