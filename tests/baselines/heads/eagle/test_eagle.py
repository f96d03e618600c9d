"""EAGLE: its files as published, and its trees, which are those of the reference, node by node."""

import json
import math
from collections.abc import Callable
from functools import cache
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from eagle_reference import Reference, Reference3, State, beam_paths, chosen_paths
from hydra.utils import instantiate
from omegaconf import OmegaConf
from safetensors.torch import load_file, save_file
from tiny import VOCABULARY, paths_of, tiny_model

from aded.bench.human_eval import HumanEval
from aded.bench.questions import ChatTemplate
from aded.config.command_line import CONF
from aded.core.decode import decode
from aded.core.sampler import Greedy
from aded.core.tree import DraftTree
from aded.core.wrapped_drafter import WrappedDrafter
from aded.errors import BadInput
from aded.files.cache import cache_folder
from aded.targets.compiled_cpu import CompiledCpuTarget
from aded.targets.cuda_graph import CudaGraphTarget
from aded.targets.eager import EagerTarget
from aded.targets.load import load_target
from baselines.autoregressive import Autoregressive
from baselines.heads.eagle.drafter import Eagle, Eagle2, Eagle3
from baselines.heads.eagle.files import load_head, published_layers, save_head
from baselines.heads.eagle.model import Eagle3Head, EagleHead
from baselines.heads.eagle.tree import MC_SIM_7B_63, fixed_tree, smaller

HIDDEN, KV, MLP = 32, 16, 64
CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_act": "silu",
    "hidden_size": HIDDEN,
    "intermediate_size": MLP,
    "max_position_embeddings": 2048,
    "model_type": "llama",
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 1,
    "rms_norm_eps": 1e-05,
    "rope_theta": 500.0,
    "vocab_size": VOCABULARY,
}


def layer(name: str, width: int) -> dict[str, list[int]]:
    return {
        f"{name}.self_attn.q_proj.weight": [HIDDEN, width],
        f"{name}.self_attn.k_proj.weight": [KV, width],
        f"{name}.self_attn.v_proj.weight": [KV, width],
        f"{name}.self_attn.o_proj.weight": [HIDDEN, HIDDEN],
        f"{name}.mlp.gate_proj.weight": [MLP, HIDDEN],
        f"{name}.mlp.up_proj.weight": [MLP, HIDDEN],
        f"{name}.mlp.down_proj.weight": [HIDDEN, MLP],
        f"{name}.post_attention_layernorm.weight": [HIDDEN],
    }


EAGLE: dict[str, list[int]] = {
    "embed_tokens.weight": [VOCABULARY, HIDDEN],
    "fc.weight": [HIDDEN, 2 * HIDDEN],
    "fc.bias": [HIDDEN],
    **layer("layers.0", HIDDEN),
}
"""Names and shapes of yuhuili/EAGLE-Vicuna-7B-v1.3, of the tiny model's size."""
DRAFT_VOCABULARY = 20
EAGLE3: dict[str, list[int]] = {
    "fc.weight": [HIDDEN, 3 * HIDDEN],
    **layer("midlayer", 2 * HIDDEN),
    "midlayer.hidden_norm.weight": [HIDDEN],
    "midlayer.input_layernorm.weight": [HIDDEN],
    "norm.weight": [HIDDEN],
    "lm_head.weight": [DRAFT_VOCABULARY, HIDDEN],
}
"""Names and shapes of yuhuili/EAGLE3-Vicuna1.3-13B, of the tiny model's size, besides d2t and t2d."""
LAYERS = [0, 1, 1]
"""What EAGLE-3 reads of a model of two layers."""


def random_state(shapes: dict[str, list[int]], seed: int = 0) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        name: torch.ones(shape) if "norm" in name else 0.2 * torch.randn(shape, generator=generator)
        for name, shape in shapes.items()
    }


def draft_tokens() -> dict[str, torch.Tensor]:
    """d2t and t2d of every third token."""
    tokens = 3 * torch.arange(DRAFT_VOCABULARY)
    return {"d2t": tokens - torch.arange(DRAFT_VOCABULARY), "t2d": torch.isin(torch.arange(VOCABULARY), tokens)}


def write(folder: Path, state: dict[str, torch.Tensor], *, torchs_own: bool = False, **changed: Any) -> Path:
    """A folder as published. changed: keys of its config."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({**CONFIG, **changed}))
    if torchs_own:
        torch.save(state, folder / "pytorch_model.bin")
    else:
        save_file(state, folder / "model.safetensors")
    return folder


def eagle(folder: Path, **settings: Any) -> Path:
    return write(folder, random_state(EAGLE), **settings)


def eagle3(folder: Path, **settings: Any) -> Path:
    state = {**random_state(EAGLE3), **draft_tokens()}
    changed = {"draft_vocab_size": DRAFT_VOCABULARY, "eagle_aux_hidden_state_layer_ids": LAYERS, **settings}
    return write(folder, state, **changed)


@pytest.mark.parametrize("torchs_own", [False, True])
@pytest.mark.parametrize("kind", [EagleHead, Eagle3Head])
def test_published_files_are_read(kind: type[EagleHead], torchs_own: bool, tmp_path: Path) -> None:
    """Also in half precision, with rotary frequencies that older files keep, and where the head knows all tokens."""
    state = random_state(EAGLE if kind is EagleHead else {**EAGLE3, "lm_head.weight": [VOCABULARY, 32]})
    state["layers.0.self_attn.rotary_emb.inv_freq"] = torch.ones(4)
    write(tmp_path, {name: value.half() for name, value in state.items()}, torchs_own=torchs_own)
    head, reads = load(tmp_path, kind)
    assert head.known == VOCABULARY
    assert head.tokens is None
    assert reads == (() if kind is EagleHead else published_layers(8))
    assert torch.equal(head.fc.weight, state["fc.weight"].half().float())


def test_published_layers_are_low_middle_and_high() -> None:
    assert published_layers(32) == (2, 16, 29)
    assert published_layers(40) == (2, 20, 37)
    assert all(0 <= layer < count for count in range(1, 6) for layer in published_layers(count))


def load(folder: Path, kind: type[EagleHead], **changed: int) -> tuple[EagleHead, tuple[int, ...]]:
    return load_head(str(folder), kind, **{"hidden": 32, "vocabulary": VOCABULARY, "layers": 8, **changed})


@pytest.mark.parametrize("kind", [EagleHead, Eagle3Head])
def test_a_head_is_written_and_read_again(kind: type[EagleHead], tmp_path: Path) -> None:
    (eagle if kind is EagleHead else eagle3)(tmp_path / "published")
    head, reads = load(tmp_path / "published", kind)
    save_head(head, tmp_path / "ours", {"made": "here"}, reads)
    again, reads_again = load(tmp_path / "ours", kind)
    assert reads == reads_again
    assert again.config.rope_parameters == head.config.rope_parameters
    for name, value in head.state_dict().items():
        wanted = value if name == "d2t" else value.bfloat16().float()
        assert torch.equal(again.state_dict()[name], wanted), name


def test_the_repository_has_heads_for_the_default_model() -> None:
    for name, kind, reads in (("eagle", EagleHead, ()), ("eagle3", Eagle3Head, published_layers(30))):
        head, found = load_head(f"baselines/heads/{name}_smollm2", kind, hidden=576, vocabulary=49152, layers=30)
        assert found == reads
        assert head.tokens is not None


@pytest.mark.parametrize("kind", [EagleHead, Eagle3Head])
def test_a_head_for_another_model_or_of_the_other_kind_is_refused(kind: type[EagleHead], tmp_path: Path) -> None:
    (eagle if kind is EagleHead else eagle3)(tmp_path)
    with pytest.raises(BadInput, match=r"^method.heads: .*was trained for another model: .*this target needs"):
        load(tmp_path, kind, hidden=48)
    with pytest.raises(BadInput, match=r"^method.heads: .*of another model: its vocab_size is 64, this target's 65"):
        load(tmp_path, kind, vocabulary=65)
    other, name = (Eagle3Head, "EAGLE-3") if kind is EagleHead else (EagleHead, "EAGLE")
    with pytest.raises(BadInput, match=f"holds no head of {name}: it lacks "):
        load(tmp_path, other)


@pytest.mark.parametrize(
    ("d2t", "problem"),
    [
        (-torch.arange(20), "its d2t names no 20 of 64 tokens"),
        (torch.tensor([0, VOCABULARY - 1]), "its d2t names no 2 of 64 tokens"),
        (torch.tensor([-1, 0]), "its d2t names no 2 of 64 tokens"),
        (torch.zeros(20), "d2t must be whole numbers"),
        (torch.tensor(0), "d2t must be whole numbers"),
        (torch.empty(0, dtype=torch.int64), "d2t must be whole numbers"),
    ],
)
def test_a_d2t_that_names_no_tokens_is_refused(d2t: torch.Tensor, problem: str, tmp_path: Path) -> None:
    write(tmp_path, {**random_state(EAGLE3), "d2t": d2t})
    with pytest.raises(BadInput, match=problem):
        load(tmp_path, Eagle3Head)


def test_what_is_no_head_is_refused(tmp_path: Path) -> None:
    def refused(problem: str, kind: type[EagleHead] = EagleHead) -> None:
        with pytest.raises(BadInput, match=rf"^method.heads: .*{problem}"):
            load(tmp_path, kind)

    refused("no heads at ")
    eagle(tmp_path)
    for text, problem in (
        ("[1]", "is no config of a head"),
        ('{"hidden_size": 32}', "lacks intermediate_size"),
        (json.dumps({**CONFIG, "hidden_act": "zzz"}), "makes no head of EAGLE"),
        (json.dumps({**CONFIG, "eagle_aux_hidden_state_layer_ids": "all"}), "must be a list of layers"),
    ):
        (tmp_path / "config.json").write_text(text)
        refused(problem)
    (tmp_path / "config.json").unlink()
    refused("is no config of a head")
    state = random_state(EAGLE)
    del state["layers.0.mlp.up_proj.weight"]
    write(tmp_path, state)
    refused("it lacks layers.0.mlp.up_proj.weight")
    with pytest.raises(BadInput, match="EAGLE reads hidden states"):
        Eagle(str(tmp_path)).setup(SimpleNamespace())
    with pytest.raises(BadInput, match="enters layer 5"):
        Eagle3(str(eagle3(tmp_path, eagle_aux_hidden_state_layer_ids=[0, 1, 5]))).setup(EagerTarget(tiny_model()))


def test_the_published_tree_and_its_parts() -> None:
    """Each choice comes after its prefix; a part has the lowest ranks."""
    assert len(set(MC_SIM_7B_63)) == 25
    assert [sum(len(path) == depth for path in MC_SIM_7B_63) for depth in range(1, 6)] == [4, 8, 8, 3, 2]
    assert [sum(path[-1] == rank for path in MC_SIM_7B_63) for rank in range(4)] == [11, 9, 4, 1]
    for budget in range(1, 26):
        part = smaller(MC_SIM_7B_63, budget)
        assert len(part) == budget
        assert all(path[:-1] in {(), *part[:number]} for number, path in enumerate(part))
    assert smaller(MC_SIM_7B_63, 4) == [(0,), (1,), (0, 0), (2,)]


def test_ranks_that_the_head_does_not_have_are_left_out() -> None:
    two = np.array([[3, 4]]), np.array([[0.6, 0.4]])
    tree = fixed_tree(
        1, two, lambda tokens, above: (two[0].repeat(len(tokens), 0), two[1].repeat(len(tokens), 0)), MC_SIM_7B_63
    )
    assert set(tree.tokens[1:].tolist()) == {3, 4}


PROMPT = np.arange(10, 22, dtype=np.int64)


CASES: dict[str, tuple[Any, Callable[..., Path], type[Reference], dict[str, int]]] = {
    "eagle": (Eagle, eagle, Reference, {"budget": 25}),
    "eagle, a part": (Eagle, eagle, Reference, {"budget": 6}),
    "eagle2": (Eagle2, eagle, Reference, {"budget": 20, "depth": 4, "top_k": 3}),
    "eagle3": (Eagle3, eagle3, Reference3, {"budget": 20, "depth": 4, "top_k": 3}),
}
ENGINES: dict[str, Callable[[Any], EagerTarget]] = {
    "eager": EagerTarget,
    "compiled": lambda model: CompiledCpuTarget(model, backend="eager"),
    "graphs": lambda model: CudaGraphTarget(model, backend="eager"),
}


class Compared(WrappedDrafter):
    """Compares every tree with the reference's, and knows how often it did."""

    def __init__(self, inner: Eagle, reference: type[Reference], state: State, model: Any) -> None:
        super().__init__(inner)
        self.inner, self.reference, self.state, self.model, self.trees = inner, reference, state, model, 0

    def draft(self, context: np.ndarray) -> DraftTree:
        tree = self.inner.draft(context)
        text = context.tolist()
        with torch.inference_mode():
            states = self.model.get_decoder()(torch.tensor([text[:-1]]), output_hidden_states=True)
            layers = torch.cat([states.hidden_states[layer][0] for layer in LAYERS], -1)
            features = layers if self.reference is Reference3 else states.last_hidden_state[0]
            reference = self.reference(self.state, self.model, text, features)
            if isinstance(self.inner, Eagle2):
                wanted = beam_paths(reference, self.inner.depth, self.inner.top_k, self.inner.budget)
            else:
                wanted = chosen_paths(reference, self.inner.budget)
            assert set(paths_of(tree)) == wanted
            assert tree.probabilities is not None
            for node in range(1, len(tree)):
                above = tree.tokens[[i for i in range(1, node) if tree.ancestors[node, i]]].tolist()
                score = dict(reference.best(above, 10))[int(tree.tokens[node])]
                ratio = tree.probabilities[node] / tree.probabilities[tree.parents[node]]
                assert ratio == pytest.approx(math.exp(score), rel=1e-2, abs=1e-6)
        self.trees += 1
        return tree


# Compiling takes seconds a model: there, one case that reads the last layer and one that reads others.
TREES = [
    *product(CASES, ["eager"]),
    *(
        pytest.param(*one, marks=pytest.mark.thorough)
        for one in product(["eagle2", "eagle3"], ["compiled", "graphs"])
    ),
]


def compared_with(case: str, engine: str, folder: Path) -> tuple[EagerTarget, Compared]:
    kind, make, reference, settings = CASES[case]
    state, model = load_file(make(folder) / "model.safetensors"), tiny_model()
    target, drafter = ENGINES[engine](model), kind(str(folder), **settings)
    drafter.setup(target)
    return target, Compared(drafter, reference, state, model)


@pytest.mark.parametrize(("case", "engine"), TREES)
def test_the_tree_is_the_references_node_by_node(case: str, engine: str, tmp_path: Path) -> None:
    """Over an answer, step by step; the second answer begins anew."""
    target, compared = compared_with(case, engine, tmp_path)
    for prompt in (PROMPT, PROMPT[:1]):
        decode(target, compared, prompt, Greedy(), max_new_tokens=7)
    assert compared.trees > 2
    target.release()


def test_steps_that_were_not_drafted_for_are_read_later(tmp_path: Path) -> None:
    """As a hybrid may do, which asks another drafter in between."""
    target, compared = compared_with("eagle2", "eager", tmp_path)
    compared.begin(PROMPT)
    step = target.prefill(PROMPT, Greedy(), 60, compared.requires)
    context = [*PROMPT.tolist(), step.next_token]
    for _ in range(3):
        compared.observe(step)
        step = target.verify(DraftTree.root(context[-1]))
        context.append(step.next_token)
    compared.observe(step)
    compared.draft(np.array(context))
    assert compared.trees == 1


@cache
def embedded() -> tuple[EagerTarget, np.ndarray, list[int]]:
    """The model, a prompt, and its answer without drafts."""
    folder = str(cache_folder())
    target, tokenizer, _ = load_target("embedded", dtype="float32", device="cpu", cache=folder)
    assert isinstance(target, EagerTarget)
    prompt = np.array(ChatTemplate().ids(tokenizer, HumanEval("chat", ()).questions()[0].turns, []), np.int64)
    return target, prompt, decode(target, Autoregressive(), prompt, Greedy(), max_new_tokens=32).token_ids


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["eagle", "eagle2", "eagle3"])
def test_our_heads_draft_for_the_embedded_model(name: str) -> None:
    """From the config to the answer: the same tokens, and drafts that are accepted."""
    target, prompt, alone = embedded()
    settings = OmegaConf.load(CONF / "method" / f"{name}.yaml")
    del settings.name
    drafter = instantiate(settings)
    drafter.setup(target)
    answer = decode(target, drafter, prompt, Greedy(), max_new_tokens=32)
    assert answer.token_ids == alone
    assert answer.new_tokens > 1.3 * len(answer.accept_lengths)
