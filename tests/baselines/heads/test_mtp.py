from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from shipped_modules import Weights, save_with_modules
from tiny import VOCABULARY, Obedient, tiny_model
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, PreTrainedModel

from aded.errors import BadInput
from aded.targets.eager import EagerTarget
from aded.targets.weightless import WeightlessTarget
from baselines.heads.mtp import Mtp

PROMPT = np.arange(10, 22)
SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 64,
    "moe_intermediate_size": 16,
    **dict.fromkeys(("num_attention_heads", "n_routed_experts"), 4),
    "num_experts_per_tok": 2,
    **dict.fromkeys(("n_group", "topk_group"), 1),
    "max_position_embeddings": 128,
    "initializer_range": 0.3,
    "eos_token_id": None,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "use_qk_norm": True,
}


@dataclass
class Shipped:
    """A model, and by plain arithmetic what its modules draft."""

    folder: Path
    model: PreTrainedModel
    blocks: list[torch.nn.Module]
    weights: list[Weights]

    @torch.inference_mode()
    def chain(self, context: np.ndarray, budget: int) -> tuple[list[int], list[float]]:
        """(tokens, probability that the walk reaches each). Everything is read anew for every token."""
        hidden = self.model(torch.from_numpy(context)[None], output_hidden_states=True).hidden_states[-1][0, :-1]
        read = [(context[1:].tolist(), hidden)]
        for module in range(len(self.blocks) - 1):
            tokens, hidden = read[module]
            read.append((tokens[1:], self.outputs(module, tokens, hidden)[:-1]))
        drafted: list[int] = []
        reached: list[float] = []
        output = hidden[:0]
        while len(drafted) < budget:
            module = min(len(drafted), len(self.blocks) - 1)
            if drafted:
                tokens, hidden = read[module]
                read[module] = ([*tokens, drafted[-1]], torch.cat([hidden, output]))
            output = self.outputs(module, *read[module])[-1:]
            best = (output @ self.model.lm_head.weight.T).softmax(-1)[0].max(-1)
            drafted.append(int(best.indices))
            reached.append(float(best.values) * (reached[-1] if reached else 1.0))
        return drafted, reached

    def outputs(self, module: int, tokens: list[int], hidden: torch.Tensor) -> torch.Tensor:
        weights, count = self.weights[module], len(tokens)
        embedded = self.model.get_input_embeddings()(torch.tensor(tokens))
        parts = self.norm(embedded, weights["enorm.weight"]), self.norm(hidden, weights["hnorm.weight"])
        rows = (torch.cat(parts, -1) @ weights["eh_proj.weight"].T)[None]
        positions = torch.arange(count)[None] + module + 1
        out = self.blocks[module](
            rows,
            attention_mask=torch.ones(1, 1, count, count, dtype=torch.bool).tril(),
            position_ids=positions,
            position_embeddings=self.model.model.rotary_emb(rows, positions),
        )
        return self.norm(out[0], weights["shared_head.norm.weight"])

    def norm(self, rows: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return weight * rows * (rows.square().mean(-1, keepdim=True) + self.model.config.rms_norm_eps).rsqrt()


def shipped(grown: PreTrainedModel, modules: int, folder: Path) -> Shipped:
    weights = save_with_modules(grown.eval(), modules, folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    return Shipped(folder, model, list(grown.model.layers[-modules:]), weights)


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Shipped:
    """GLM-4.5-Air, whose number of layers is part of the names of the module's weights."""
    layers = 46
    # The first layers are dense. A module's layer has experts, whatever its number.
    sizes = {**SIZES, "num_hidden_layers": layers + 1, "first_k_dense_replace": layers}
    torch.manual_seed(0)
    grown = AutoModelForCausalLM.from_config(CONFIG_MAPPING["glm4_moe"](**sizes), dtype=torch.float32)
    return shipped(grown, 1, tmp_path_factory.mktemp("glm"))


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Shipped:
    """Two modules behind two layers. Nobody has published such a Llama, so its names are set here."""
    made = shipped(tiny_model(num_hidden_layers=4), 2, tmp_path_factory.mktemp("two"))
    with_names(made.model)
    return made


def with_names(model: PreTrainedModel) -> PreTrainedModel:
    model.config.num_mtp_layers, model._keys_to_ignore_on_load_unexpected = 2, [r"model\.layers\.[23]\."]
    return model


def compare(made: Shipped, target: EagerTarget, budget: int, prompt: np.ndarray = PROMPT) -> None:
    drafter, sampler = Mtp(budget=budget, depth=budget), Obedient(7)
    drafter.setup(target)
    drafter.begin(prompt)
    step = target.prefill(prompt, sampler, 60, drafter.requires)
    context = np.append(prompt, step.next_token)
    for accepted in (0, budget, 1, min(2, budget), 0):
        drafter.observe(step)
        tree = drafter.draft(context)
        tokens, reached = made.chain(context, budget)
        assert tree.tokens.tolist() == [context[-1], *tokens]
        assert tree.parents.tolist() == list(range(-1, budget))
        assert tree.probabilities is not None
        assert tree.probabilities.tolist() == pytest.approx([1.0, *reached], rel=1e-3)
        sampler.path = list(range(accepted + 1))
        step = target.verify(tree)
        context = np.append(context, step.new_tokens)


def test_the_drafts_of_published_files_are_those_of_plain_arithmetic(published: Shipped) -> None:
    compare(published, EagerTarget(published.model), 4)


@pytest.mark.parametrize("budget", [1, 2, 5])
def test_several_modules_draft_one_after_another(two: Shipped, budget: int) -> None:
    target = EagerTarget(two.model)
    for prompt in (PROMPT, PROMPT[:2], PROMPT[:1]):
        compare(two, target, budget, prompt)


def test_a_model_needs_whole_modules(two: Shipped, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(target: Any, problem: str) -> None:
        with pytest.raises(BadInput, match=rf"^method: .*{problem}"):
            Mtp().setup(target)

    refused(EagerTarget(tiny_model()), "LlamaForCausalLM has none")
    refused(WeightlessTarget(), "mtp reads hidden states")
    (tmp_path / "config.json").write_bytes((two.folder / "config.json").read_bytes())
    whole, name = load_file(two.folder / "model.safetensors"), "model.layers.3.eh_proj.weight"
    without = {key: value for key, value in whole.items() if key != name}
    for weights, problem in (
        (without, r"lacks layers.1.eh_proj.weight;"),
        ({**whole, name: torch.ones(2, 2)}, r"another shape for layers.1.eh_proj.weight;"),
        ({**whole, "model.layers.3.self_attn.q_proj.bias": torch.ones(2)}, r"does not read: .*q_proj.bias;"),
    ):
        save_file(weights, tmp_path / "model.safetensors", {"format": "pt"})
        damaged = with_names(AutoModelForCausalLM.from_pretrained(tmp_path))
        refused(EagerTarget(damaged), f"{tmp_path}, for multi-token prediction, .*{problem}")
    (tmp_path / "model.safetensors").unlink()
    refused(EagerTarget(damaged), f"in {tmp_path} cannot be loaded")
    monkeypatch.delattr("transformers.modeling_layers.MtpModel")
    refused(EagerTarget(two.model), f"not {transformers.__version__}")
