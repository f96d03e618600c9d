from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from tiny import VOCABULARY, paths_of, plain_logits, tiny_model
from transformers.models.llama.configuration_llama import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaModel

from aded.core.decode import decode
from aded.core.drafter import Step, WrappedDrafter
from aded.core.sampler import Greedy
from aded.core.tree import DraftTree
from aded.errors import BadInput
from aded.targets.eager import EagerTarget
from baselines.heads.hydra import PUBLISHED, Hydra, HydraHeads, load_hydra_heads
from baselines.heads.medusa import MedusaHeads

HEADS, BLOCKS, BUDGET, TOP_K = 3, 2, 12, 3
PREFIX = "prefix_embeding_layer."


@pytest.fixture(scope="module")
def target() -> EagerTarget:
    return EagerTarget(tiny_model())


def published(target: EagerTarget, plus: bool) -> dict[str, torch.Tensor]:
    heads = HydraHeads(HEADS, BLOCKS, target.config.hidden_size, VOCABULARY, target.config if plus else None)
    shapes = {name: value.shape for name, value in heads.state_dict().items()}
    if plus:  # what nothing reads
        shapes[f"{PREFIX}embed_tokens.weight"] = torch.Size([VOCABULARY, 32])
        shapes[f"{PREFIX}layers.0.self_attn.rotary_emb.inv_freq"] = torch.Size([4])
    torch.manual_seed(3)
    return {name: 0.5 * torch.randn(shape) for name, shape in shapes.items()}


def saved(folder: Path, state: Any) -> Path:
    torch.save(state, folder / PUBLISHED)
    return folder


class Compared(WrappedDrafter):
    """Compares every tree with Hydra written down plainly: every continuation of top_k tokens a head, one by one, and
    the best of them all. With prefix attention the whole text is read anew at each step."""

    def __init__(self, hydra: Hydra, state: dict[str, torch.Tensor], target: EagerTarget, plus: bool) -> None:
        super().__init__(hydra)
        self.state, self.target, self.plus, self.trees = state, target, plus, 0
        self.requires = frozenset({"hidden", "prompt_hidden"})

    def begin(self, prompt_ids: np.ndarray, seed: int = 0) -> None:
        super().begin(prompt_ids, seed)
        self.states = torch.empty(0, self.target.config.hidden_size)

    def observe(self, step: Step) -> None:
        super().observe(step)
        assert step.hidden is not None
        new = step.prompt_hidden if step.prompt_hidden is not None else step.hidden[step.path]
        self.states = torch.cat([self.states, new])

    def read(self) -> torch.Tensor:
        if not self.plus:
            return self.states[-1]
        llama = LlamaModel(LlamaConfig(**{**self.target.config.to_dict(), "num_hidden_layers": 1})).eval()
        own = {name.removeprefix(PREFIX): value for name, value in self.state.items() if name.startswith(PREFIX)}
        own.pop("layers.0.self_attn.rotary_emb.inv_freq")
        llama.load_state_dict(own)
        return llama(inputs_embeds=self.states[None]).last_hidden_state[0, -1]

    def next(self, head: int, read: torch.Tensor, tokens: list[int]) -> list[tuple[float, int]]:
        embedded = self.target.model.get_input_embeddings()(torch.tensor(tokens))
        x = torch.cat([read, *embedded])
        for block in range(BLOCKS):
            at = f"hydra_mlp.{head}.{2 * block + 1 if self.plus else block}."
            linear = torch.nn.functional.linear(x, self.state[f"{at}linear.weight"], self.state[f"{at}linear.bias"])
            if block == 0:
                x = self.state[f"{at}res_connection.weight"] @ x + self.state[f"{at}res_connection.bias"]
            x = x + linear * torch.sigmoid(linear)
        at = f"hydra_lm_head.{head}" + ".1" * self.plus
        best = (self.state[f"{at}.weight"] @ x + self.state[f"{at}.bias"]).softmax(0).topk(TOP_K)
        return list(zip(best.values.tolist(), best.indices.tolist(), strict=True))

    @torch.inference_mode()
    def draft(self, context: np.ndarray) -> DraftTree:
        tree, paths = super().draft(context), [(1.0, [int(context[-1])])]
        read, level = self.read(), paths[:]
        for head in range(HEADS):
            level = [(p * q, [*path, token]) for p, path in level for q, token in self.next(head, read, path)]
            paths += level
        _, *best = sorted(paths, key=lambda one: (-one[0], len(one[1])))[: BUDGET + 1]
        assert set(paths_of(tree)) == {tuple(path[1:]) for _, path in best}
        self.trees += 1
        true = int(plain_logits(self.target.model, context.tolist()).argmax())  # so that paths are accepted too
        extra = [] if tree.child(0, true) is not None else [[true]]
        return DraftTree.from_sequences(int(context[-1]), [*extra, *paths_of(tree)], 20)


@pytest.mark.parametrize("plus", [False, True], ids=["Hydra", "Hydra++"])
def test_the_tree_is_that_of_a_plain_reference_node_by_node(tmp_path: Path, target: EagerTarget, plus: bool) -> None:
    state = published(target, plus)
    hydra = Hydra(str(saved(tmp_path, state)), budget=BUDGET, top_k=TOP_K)
    hydra.setup(target)
    assert hydra.requires == ({"hidden", "prompt_hidden"} if plus else {"hidden"})
    compared, prompt = Compared(hydra, state, target, plus), np.arange(7) % VOCABULARY
    answer = decode(target.fork(), compared, prompt, Greedy(), max_new_tokens=20)
    assert compared.trees == len(answer.accept_lengths) < answer.new_tokens


def test_what_is_no_hydra_of_this_model_is_refused(tmp_path: Path, target: EagerTarget) -> None:
    def refused(problem: str, config: object = target.config, folder: str | None = str(tmp_path)) -> None:
        with pytest.raises(BadInput, match=rf"^method.heads: .*{problem}"):
            load_hydra_heads(folder, target.config.hidden_size, VOCABULARY, config)

    refused("no heads come along", folder=None)
    state = published(target, plus=True)
    saved(tmp_path, {name: value for name, value in state.items() if name != "hydra_mlp.0.1.res_connection.bias"})
    refused("it lacks hydra_mlp.0.1.res_connection.bias")
    saved(tmp_path, state)
    refused("it has a layer of a Llama", SimpleNamespace())
    saved(tmp_path, MedusaHeads(2, 1, 8).state_dict())
    refused("holds no Hydra heads")
    saved(tmp_path, published(target, plus=False))
    for text, problem in (("[]", "is no config"), ('{"hidden_state_offset": 1}', "read 1 layers below")):
        (tmp_path / "config.json").write_text(text)
        refused(problem)
    (tmp_path / "config.json").write_text('{"hidden_state_offset": 0}')
    assert len(load_hydra_heads(str(tmp_path), target.config.hidden_size, VOCABULARY, target.config)) == HEADS
