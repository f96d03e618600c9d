import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from eagle_reference import Reference, Reference3, State, beam_paths, chosen_paths
from safetensors.torch import load_file, save_file
from tiny import VOCABULARY, paths_of, tiny_model
from transformers.models.llama.configuration_llama import LlamaConfig

from aded.config.choices import read_choice
from aded.core.decode import decode
from aded.core.drafter import WrappedDrafter
from aded.core.sampler import Greedy
from aded.core.tree import DraftTree
from aded.errors import BadInput
from aded.targets.eager import EagerTarget
from baselines.heads.eagle import MC_SIM_7B_63, Eagle, Eagle2, Eagle3, fixed_tree, smaller
from baselines.heads.eagle_head import Eagle3Head, EagleHead, load_head, published_layers, save_head

HIDDEN = 32
CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": HIDDEN,
    "intermediate_size": 64,
    "model_type": "llama",
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 1,
    "rms_norm_eps": 1e-05,
    "rope_theta": 500.0,
    "vocab_size": VOCABULARY,
}
DRAFT_VOCABULARY = 20
LAYERS = [0, 1, 1]


def random_state(kind: type[EagleHead], known: int | None = DRAFT_VOCABULARY) -> State:
    config = LlamaConfig(**CONFIG)
    head: EagleHead
    if kind is Eagle3Head:
        head = kind(config, 3 * HIDDEN, own=frozenset({"lm_head"}), draft_vocabulary=known)
    else:
        head = kind(config, HIDDEN, own=frozenset({"embed_tokens"}), biased=frozenset({"fc"}))
    generator = torch.Generator().manual_seed(0)
    return {
        name: torch.ones(value.shape) if "norm" in name else 0.2 * torch.randn(value.shape, generator=generator)
        for name, value in head.state_dict().items()
    }


def write(folder: Path, state: dict[str, torch.Tensor], *, torchs_own: bool = False, **changed: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({**CONFIG, **changed}))
    if torchs_own:
        torch.save(state, folder / "pytorch_model.bin")
    else:
        save_file(state, folder / "model.safetensors")
    return folder


def eagle(folder: Path, **settings: Any) -> Path:
    return write(folder, random_state(EagleHead), **settings)


def eagle3(folder: Path, **settings: Any) -> Path:
    tokens = 3 * torch.arange(DRAFT_VOCABULARY)
    state = random_state(Eagle3Head) | {"d2t": tokens - torch.arange(DRAFT_VOCABULARY)}
    state["t2d"] = torch.isin(torch.arange(VOCABULARY), tokens)
    changed = {"draft_vocab_size": DRAFT_VOCABULARY, "eagle_aux_hidden_state_layer_ids": LAYERS, **settings}
    return write(folder, state, **changed)


@pytest.mark.parametrize("torchs_own", [False, True])
@pytest.mark.parametrize("kind", [EagleHead, Eagle3Head])
def test_published_files_are_read(kind: type[EagleHead], torchs_own: bool, tmp_path: Path) -> None:
    state = random_state(kind, known=None)
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


@pytest.mark.parametrize("name", ["eagle", "eagle2", "eagle3"])
def test_the_repository_has_heads_for_the_default_model(name: str) -> None:
    kind, reads = (Eagle3Head, published_layers(30)) if name == "eagle3" else (EagleHead, ())
    head, found = load_head(read_choice("method", name)["heads"], kind, hidden=576, vocabulary=49152, layers=30)
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
    state = random_state(EagleHead)
    del state["layers.0.mlp.up_proj.weight"]
    write(tmp_path, state)
    refused("it lacks layers.0.mlp.up_proj.weight")
    for d2t, problem in (
        (-torch.arange(20), "its d2t names no 20 of 64 tokens"),
        (torch.tensor([0, VOCABULARY - 1]), "its d2t names no 2 of 64 tokens"),
        (torch.tensor([-1, 0]), "its d2t names no 2 of 64 tokens"),
        (torch.zeros(20), "d2t must be whole numbers"),
        (torch.tensor(0), "d2t must be whole numbers"),
    ):
        write(tmp_path, {**random_state(Eagle3Head), "d2t": d2t})
        refused(problem, Eagle3Head)
    pruned, known = random_state(Eagle3Head), torch.arange(VOCABULARY) < DRAFT_VOCABULARY
    del pruned["d2t"]
    same = {"d2t": torch.zeros(DRAFT_VOCABULARY, dtype=torch.int64)}
    for changed, problem in (
        ({}, "lacks d2t"),
        ({"lm_head.weight": torch.zeros(VOCABULARY, HIDDEN), "t2d": known}, "lacks d2t"),
        ({**same, "t2d": known.flip(0)}, "d2t and t2d name other tokens"),
        ({**same, "t2d": known | True}, "d2t and t2d name other tokens"),
        ({**same, "t2d": known[1:]}, "t2d must be true or false for each of the target's 64"),
        ({**same, "t2d": known.int()}, "t2d must be true or false for each of the target's 64"),
        ({"d2t": same["d2t"][1:]}, "names 19 tokens, but lm_head has 20 rows"),
    ):
        write(tmp_path, pruned | changed)
        refused(problem, Eagle3Head)
    with pytest.raises(BadInput, match="enters layer 5"):
        Eagle3(str(eagle3(tmp_path, eagle_aux_hidden_state_layer_ids=[0, 1, 5]))).setup(EagerTarget(tiny_model()))


def test_the_published_tree_and_its_parts() -> None:
    assert len(set(MC_SIM_7B_63)) == 25
    assert [sum(len(path) == depth for path in MC_SIM_7B_63) for depth in range(1, 6)] == [4, 8, 8, 3, 2]
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


class Compared(WrappedDrafter):
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


def compared_with(case: str, folder: Path) -> tuple[EagerTarget, Compared]:
    kind, make, reference, settings = CASES[case]
    state, model = load_file(make(folder) / "model.safetensors"), tiny_model()
    target, drafter = EagerTarget(model), kind(str(folder), **settings)
    drafter.setup(target)
    return target, Compared(drafter, reference, state, model)


@pytest.mark.parametrize("case", CASES)
def test_the_tree_is_the_references_node_by_node(case: str, tmp_path: Path) -> None:
    target, compared = compared_with(case, tmp_path)
    for prompt in (PROMPT, PROMPT[:1]):
        decode(target, compared, prompt, Greedy(), max_new_tokens=7)
    assert compared.trees > 2


def test_steps_that_were_not_drafted_for_are_read_later(tmp_path: Path) -> None:
    target, compared = compared_with("eagle2", tmp_path)
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
