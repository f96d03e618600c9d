"""Trees are verified as plain forwards decode, and the KV cache keeps the accepted rows."""

from collections.abc import Callable
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny import MODELS, VOCABULARY, Obedient, path_to, plain_logits, random_tree, tiny_model
from transformers import MambaConfig, MambaForCausalLM, PreTrainedModel

from aded.core.drafter import Step
from aded.core.sampler import Greedy
from aded.core.tree import DraftTree
from aded.errors import BadInput
from aded.targets.compiled_target import CompiledCpuTarget
from aded.targets.eager import FIELDS, EagerTarget, eos_token_ids
from aded.targets.kv_cache import KVCache

PROMPT = np.arange(10, 22, dtype=np.int64)  # longer than the sliding windows
BINARY = DraftTree.from_sequences(5, [[a, b, c] for a in (6, 7) for b in (8, 9) for c in (10, 11)], budget=14)

model_of = cache(tiny_model)
ENGINES: dict[str, Callable[[PreTrainedModel], EagerTarget]] = {
    "eager": EagerTarget,
    "compiled": lambda model: CompiledCpuTarget(model, backend="eager"),
}
QUICK = [("eager", "llama"), ("eager", "qwen2-window"), ("eager", "gemma3-window"), ("compiled", "qwen2-window")]
# Compiling takes seconds a model.
READERS = [
    pytest.param(*reader, marks=[] if reader in QUICK else pytest.mark.thorough)
    for reader in product(ENGINES, MODELS)
]


@cache
def target_of(engine: str, name: str) -> EagerTarget:
    return ENGINES[engine](model_of(name))


def check_logits(model: PreTrainedModel, step: Step, committed: list[int]) -> None:
    """Each node's row equals a plain forward over the committed tokens and the node's path."""
    assert step.logits is not None
    assert len(step.logits) == len(step.tree)
    for node in range(len(step.tree)):
        ids = committed + step.tree.tokens[path_to(step.tree, node)].tolist()
        torch.testing.assert_close(step.logits[node], plain_logits(model, ids), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(("engine", "name"), READERS)
@pytest.mark.parametrize("prompt", [PROMPT, PROMPT[:1]], ids=len)
def test_tree_logits_are_those_of_plain_forwards(engine: str, name: str, prompt: np.ndarray) -> None:
    """Over several steps, each with a random tree and a random accepted path; the self-check has found no fault."""
    model, rng, sampler = model_of(name), np.random.default_rng(len(prompt)), Obedient()
    target = target_of(engine, name)
    target.self_check()
    step = target.prefill(prompt, sampler, 64, {"logits"})
    assert step.logits is not None
    torch.testing.assert_close(step.logits[0], plain_logits(model, prompt.tolist()), atol=1e-4, rtol=1e-4)
    committed = prompt.tolist()
    for nodes in (9, 1, 2, 12, 7):
        tree = random_tree(rng, nodes, step.next_token)
        sampler.path = path_to(tree, int(rng.integers(nodes)))
        expected = sampler.path
        sampler.token = int(rng.integers(VOCABULARY))
        step = target.verify(tree)
        assert step.path == expected
        check_logits(model, step, committed)
        committed += tree.tokens[expected].tolist()


@pytest.mark.parametrize("since", [1, 5])
@pytest.mark.parametrize(("engine", "name"), READERS)
@torch.inference_mode()
def test_a_tree_is_read_in_parts(engine: str, name: str, since: int) -> None:
    """Each part's logits are those of plain forwards; then a path of both parts is the text."""
    model, target = model_of(name), target_of(engine, name)
    target.prefill(PROMPT, Greedy(), 64)
    tree = random_tree(np.random.default_rng(since), 9, 5)
    upper = DraftTree(tree.tokens[:since], tree.parents[:since])
    logits = torch.cat([target.read(upper), target.read(tree, since)])
    check_logits(model, Step(tree, [0], 0, logits), PROMPT.tolist())
    path = path_to(tree, 8)
    target.cache.keep(len(PROMPT), path)
    text = [*PROMPT.tolist(), *tree.tokens[path].tolist()]
    assert target.cache.length == len(text)
    torch.testing.assert_close(
        target.read(DraftTree.root(7))[0], plain_logits(model, [*text, 7]), atol=1e-4, rtol=1e-4
    )


@pytest.mark.parametrize("engine", ENGINES)
def test_gives_only_what_is_wanted_and_a_fork_does_too(engine: str) -> None:
    target = target_of(engine, "qwen2-window")
    target.read_layers([1])
    steps = [target.prefill(PROMPT, Greedy(), 64), target.verify(BINARY)]
    assert all(getattr(step, field) is None for step in steps for field in FIELDS)
    target.prefill(PROMPT, Greedy(), 64, FIELDS)
    step = target.verify(BINARY)
    assert {field for field in FIELDS if getattr(step, field) is not None} == {"logits", "hidden", "layers"}
    fork = target.fork()
    fork.prefill(PROMPT, Greedy(), 64, {"layers"})
    target.prefill(PROMPT[:3], Greedy(), 64)
    assert (step := fork.verify(BINARY)).layers is not None
    assert step.layers[1].shape == (len(BINARY), 32)


@pytest.mark.parametrize(("engine", "name"), READERS)
def test_hidden_states_are_those_of_plain_forwards(engine: str, name: str) -> None:
    """Of every token of the prompt and of every node, at each layer and at the end; a layer more is read later."""
    target, prompt = ENGINES[engine](tiny_model(name)), PROMPT[: 1 if name == "qwen2-window" else 12]
    for layers in ([1], [0, 1, 1]):
        target.read_layers(layers)
        step: Any = target.prefill(prompt, Greedy(), 64, FIELDS)
        assert step.layers.keys() == step.prompt_layers.keys() == set(layers)
        wanted, last = plain_states(target.model, prompt.tolist())
        torch.testing.assert_close(step.prompt_hidden, last)
        torch.testing.assert_close(step.hidden, last[-1:])
        for layer in layers:
            torch.testing.assert_close(step.prompt_layers[layer], wanted[layer])
            torch.testing.assert_close(step.layers[layer], wanted[layer][-1:])
        step = target.verify(BINARY)
        for node in range(len(BINARY)):
            ids = prompt.tolist() + BINARY.tokens[path_to(BINARY, node)].tolist()
            wanted, last = plain_states(target.model, ids)
            torch.testing.assert_close(step.hidden[node], last[-1], atol=1e-4, rtol=1e-4)
            for layer in layers:
                torch.testing.assert_close(step.layers[layer][node], wanted[layer][-1], atol=1e-4, rtol=1e-4)
    target.release()


@torch.inference_mode()
def plain_states(model: PreTrainedModel, ids: list[int]) -> tuple[tuple[torch.Tensor, ...], torch.Tensor]:
    """What enters each layer, and what the output projection reads, by transformers' own output."""
    states = model.get_decoder()(torch.tensor([ids]), output_hidden_states=True, use_cache=False)
    return tuple(rows[0] for rows in states.hidden_states), states.last_hidden_state[0]


def test_a_layer_that_is_not_there_a_model_that_ignores_the_mask_and_a_recurrent_one_are_refused() -> None:
    target = EagerTarget(tiny_model())
    for layer in (-1, 2):
        with pytest.raises(BadInput, match=rf"layer {layer} of LlamaForCausalLM.* 0 to 1"):
            target.read_layers([1, layer])
    assert target.prefill(PROMPT, Greedy(), 64, {"layers"}).layers == {}
    target.mask = lambda *_: None  # type: ignore[assignment]
    with pytest.raises(BadInput, match="4-D mask"):
        target.self_check()
    model = tiny_model("mistral-window")
    window, broken = model.config.sliding_window, EagerTarget(model)
    broken.self_check()
    assert model.config.sliding_window == window, "it is narrower while the check runs"
    torch.nn.init.constant_(broken.output_projection.weight, torch.nan)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="4-D mask"):
        broken.self_check()
    config = MambaConfig(vocab_size=VOCABULARY, hidden_size=16, num_hidden_layers=1, state_size=4)
    with pytest.raises(BadInput, match="no KV cache"):
        EagerTarget(MambaForCausalLM(config))


def test_a_prompt_of_another_models_tokenizer_is_refused() -> None:
    with pytest.raises(BadInput, match=r"^model: its tokenizer made token 64, and the model's last one is 63;"):
        EagerTarget(tiny_model()).prefill(np.array([1, 64]), Greedy(), 8)


def test_eos_ids_are_the_generation_configs() -> None:
    model = tiny_model("llama", eos_token_id=9)
    assert model.generation_config is not None
    for ids, expected in ((None, set()), (3, {3}), ([3, 4], {3, 4})):
        model.generation_config.eos_token_id = ids
        assert eos_token_ids(model) == expected
    assert eos_token_ids(tiny_model("llama")) == set()


CPU = torch.device("cpu")


def filled(layers: int, rows: int, capacity: int) -> tuple[KVCache, list[torch.Tensor]]:
    cache = KVCache(capacity)
    keys = [torch.randn(1, 2, rows, 4) for _ in range(layers)]
    cache.extend(rows, CPU)
    for layer, key in enumerate(keys):
        cache.update(key, -key, layer)
    return cache, keys


@given(st.integers(0, 5), st.sets(st.integers(1, 9)), st.integers(1, 3))
def test_keep_is_an_index_select(start: int, drafted: set[int], later: int) -> None:
    path = [0, *sorted(drafted)]
    cache, keys = filled(2, start + 10, start + 14)
    cache.keep(start, path)
    assert cache.length == start + len(path)
    cache.extend(later, CPU)
    assert cache.get_seq_length() == start + len(path), "rows before those of the step"
    for layer, key in enumerate(keys):
        rows = torch.tensor([*range(start), *(start + index for index in path)])
        expected = torch.cat([key.index_select(2, rows), torch.full((1, 2, later, 4), 7.0)], 2)
        new = torch.full((1, 2, later, 4), 7.0)
        got_keys, got_values = cache.update(new, -new, layer)
        torch.testing.assert_close(got_keys, expected, rtol=0, atol=0)
        torch.testing.assert_close(got_values, -expected, rtol=0, atol=0)


def test_a_larger_cache_has_the_same_rows_in_other_memory_and_start_keeps_it() -> None:
    cache, keys = filled(2, 6, 8)
    cache.keep(2, [0, 2])
    larger = cache.larger(16)
    assert (larger.capacity, larger.length) == (16, 4)
    new = torch.ones(1, 2, 1, 4)
    for one, values in ((cache, 0 * new), (larger, new)):
        one.extend(1, CPU)
        got = [one.update(values, values, layer) for layer in range(2)]
    for key, (got_keys, got_values) in zip(keys, got, strict=True):
        torch.testing.assert_close(got_keys[:, :, :4], key[:, :, [0, 1, 2, 4]], rtol=0, atol=0)
        torch.testing.assert_close(got_values[:, :, :4], -key[:, :, [0, 1, 2, 4]], rtol=0, atol=0)
        assert bool((got_keys[:, :, 4] == 1).all())
    before = cache.kv_layers[0].keys
    cache.start()
    assert cache.length == 0
    cache.extend(8, CPU)
    rows, _ = cache.update(torch.ones(1, 2, 8, 4), torch.ones(1, 2, 8, 4), 0)
    assert cache.kv_layers[0].keys is before
    assert rows.shape[2] == 8
    assert bool((rows == 1).all())
