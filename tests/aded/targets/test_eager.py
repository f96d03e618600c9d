from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from itertools import product

import numpy as np
import pytest
import torch
from tiny import MODELS, VOCABULARY, Obedient, path_to, plain_logits, random_tree, tiny_model
from transformers import MambaConfig, MambaForCausalLM, PreTrainedModel

from aded.core.drafter import Step
from aded.core.sampler import Greedy
from aded.core.tree import DraftTree
from aded.errors import BadInput
from aded.targets.compiled_cpu import CompiledCpuTarget
from aded.targets.eager import FIELDS, EagerTarget, eos_token_ids

PROMPT = np.arange(10, 22, dtype=np.int64)  # longer than the sliding windows
BINARY = DraftTree.from_sequences(5, [[a, b, c] for a in (6, 7) for b in (8, 9) for c in (10, 11)], budget=14)

model_of = cache(tiny_model)
ENGINES: dict[str, Callable[[PreTrainedModel], EagerTarget]] = {
    "eager": EagerTarget,
    "compiled": lambda model: CompiledCpuTarget(model, backend="eager"),
}
Targets = Callable[[str], EagerTarget]


@cache
def target_of(engine: str, name: str) -> EagerTarget:
    return ENGINES[engine](model_of(name))


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def targets(engine: str) -> Targets:
    """Name of a model -> its target: what is tested with it holds for each engine."""
    return partial(target_of, engine)


def check_logits(model: PreTrainedModel, step: Step, committed: list[int]) -> None:
    """Each node's row equals a plain forward over the committed tokens and the node's path."""
    assert step.logits is not None
    assert len(step.logits) == len(step.tree)
    for node in range(len(step.tree)):
        ids = committed + step.tree.tokens[path_to(step.tree, node)].tolist()
        torch.testing.assert_close(step.logits[node], plain_logits(model, ids), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("prompt", [PROMPT, PROMPT[:1], PROMPT[:3]], ids=len)
def test_tree_logits_are_those_of_plain_forwards(targets: Targets, name: str, prompt: np.ndarray) -> None:
    """Over several steps, each with a random tree and a random accepted path."""
    model, rng, sampler = model_of(name), np.random.default_rng(len(prompt)), Obedient()
    target = targets(name)
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
@pytest.mark.parametrize("name", MODELS)
@torch.inference_mode()
def test_a_tree_is_read_in_parts(targets: Targets, name: str, since: int) -> None:
    """Each part's logits are those of plain forwards; then a path of both parts is the text."""
    model, target = model_of(name), targets(name)
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


def test_gives_only_what_is_wanted(targets: Targets) -> None:
    target = targets("llama")
    target.read_layers([1])
    steps = [target.prefill(PROMPT, Greedy(), 64), target.verify(BINARY)]
    assert all(getattr(step, field) is None for step in steps for field in FIELDS)
    target.prefill(PROMPT, Greedy(), 64, FIELDS)
    step = target.verify(BINARY)
    assert {field for field in FIELDS if getattr(step, field) is not None} == {"logits", "hidden", "layers"}


# Compiling takes seconds a model: there, one prompt and those that differ most stand for the others.
READ_BY = [*product(["eager"], MODELS, [1, 12]), *product(["compiled"], ["llama", "gemma3-window"], [12])]


@pytest.mark.parametrize(("engine", "name", "length"), READ_BY)
def test_hidden_states_are_those_of_plain_forwards(engine: str, name: str, length: int) -> None:
    """Of every token of the prompt and of every node, at each layer and at the end; a layer more is read later."""
    target, prompt = ENGINES[engine](tiny_model(name)), PROMPT[:length]
    for layers in ([1], [0, 1, 1]):
        target.read_layers(layers)
        step = target.prefill(prompt, Greedy(), 64, FIELDS)
        assert step.hidden is not None and step.layers is not None  # noqa: PT018
        assert step.prompt_hidden is not None and step.prompt_layers is not None  # noqa: PT018
        assert step.layers.keys() == step.prompt_layers.keys() == set(layers)
        wanted, last = plain_states(target.model, prompt.tolist())
        torch.testing.assert_close(step.prompt_hidden, last)
        torch.testing.assert_close(step.hidden, last[-1:])
        for layer in layers:
            torch.testing.assert_close(step.prompt_layers[layer], wanted[layer])
            torch.testing.assert_close(step.layers[layer], wanted[layer][-1:])
        step = target.verify(BINARY)
        assert step.hidden is not None and step.layers is not None  # noqa: PT018
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


def test_a_fork_reads_the_layers_too(targets: Targets) -> None:
    target = targets("llama")
    target.read_layers([1])
    fork = target.fork()
    fork.prefill(PROMPT, Greedy(), 64, {"layers"})
    target.prefill(PROMPT[:3], Greedy(), 64)
    assert (step := fork.verify(BINARY)).layers is not None
    assert step.layers[1].shape == (len(BINARY), 32)


@pytest.mark.parametrize("layer", [-1, 2])
def test_a_layer_that_is_not_there_is_refused(layer: int) -> None:
    target = EagerTarget(tiny_model())
    with pytest.raises(BadInput, match=rf"enters layer {layer} of LlamaForCausalLM, which has layers 0 to 1"):
        target.read_layers([1, layer])
    assert target.prefill(PROMPT, Greedy(), 64, {"layers"}).layers == {}


@pytest.mark.parametrize("name", MODELS)
def test_the_standard_models_pass_the_self_check(targets: Targets, name: str) -> None:
    targets(name).self_check()


def test_a_model_that_ignores_the_mask_fails_the_self_check() -> None:
    model = tiny_model("llama")
    target = EagerTarget(model)
    target.mask = lambda *_: None  # type: ignore[assignment]
    with pytest.raises(BadInput, match="4-D mask"):
        target.self_check()


def test_a_recurrent_model_is_refused() -> None:
    config = MambaConfig(vocab_size=VOCABULARY, hidden_size=16, num_hidden_layers=1, state_size=4)
    with pytest.raises(BadInput, match="no KV cache"):
        EagerTarget(MambaForCausalLM(config))


@pytest.mark.parametrize(("ids", "expected"), [(None, set()), (3, {3}), ([3, 4], {3, 4})])
def test_eos_ids_are_the_generation_configs(ids: int | list[int] | None, expected: set[int]) -> None:
    model = tiny_model("llama")
    assert model.generation_config is not None
    model.generation_config.eos_token_id = ids
    assert eos_token_ids(model) == expected
