from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig
from own_answers import broken_off, pairs_of, taught
from safetensors import safe_open
from tiny import VOCABULARY, tiny_model
from transformers import PreTrainedModel

from aded.config.command_line import CONF
from aded.core.decode import decode
from aded.core.sampler import Greedy
from aded.errors import BadInput
from aded.targets.eager import EagerTarget
from baselines.heads.dflash.drafter import Dflash
from baselines.heads.dflash.files import save_head
from baselines.heads.dflash.model import Block
from scripts.train.dflash import new_block, new_head, teach
from scripts.train.dflash_training import BlockLesson
from scripts.train.text import ReadText, read_text
from scripts.train.training import Training

ALL = torch.arange(VOCABULARY)
BLOCK = Block(4, 63, (0,))


def settings(out: Path, *more: str) -> DictConfig:
    tiny = ["block_size=4", "mask_token_id=63", "target_layers=[0]", "layers=1", "batch_size=2", "epochs=3"]
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return compose("train_dflash", [f"out={out}", *tiny, *more])


def new_training(model: PreTrainedModel, tokens: torch.Tensor, anchors: int) -> tuple[Training, list[ReadText]]:
    """A training of 100 steps, and its two short texts."""
    texts = [read_text(model, *pair, [1]) for pair in pairs_of(model, 2, 12)]
    projection = model.get_output_embeddings().weight[tokens].detach()
    head = new_head(model, tokens, BLOCK, 2, None)
    lesson = BlockLesson(head, model.get_input_embeddings(), projection, anchors, 4.0)
    cfg = settings(Path(), "learning_rate=0.01", "epochs=100")
    return Training(lesson, cfg, len(texts), lambda folder, facts: None), texts


def test_a_head_learns_what_can_be_known() -> None:
    """By heart: the answers that it is taught."""
    training, texts = new_training(tiny_model(), ALL, 8)
    rates = [training.step(texts)[1] for _ in range(training.total)]
    assert all(first < 0.3 and last > 0.8 for first, last in zip(rates[0], rates[-1], strict=True))


def test_it_learns_what_it_will_draft(tmp_path: Path) -> None:
    """The share of right first choices, per drafted token, is that of drafting behind each token of the answer."""
    model, tokens = tiny_model(), ALL[::2]
    training, texts = new_training(model, tokens, 99)
    for _ in range(12):
        training.step(texts)
    save_head(training.lesson.head.bfloat16().float(), tmp_path, {}, 2)  # type: ignore[arg-type]
    text = texts[0]
    right = training.lesson(text, torch.Generator())[1]
    truth = tokens[model(text.ids[None]).logits[0][:, tokens].argmax(-1)]
    target, drafter = EagerTarget(model), Dflash(str(tmp_path))
    drafter.setup(target)
    expected: list[list[bool]] = [[] for _ in right]
    for behind in range(text.start, len(text.ids)):
        drafter.begin(text.ids[:behind].numpy())
        drafter.observe(target.prefill(text.ids[:behind].numpy(), Greedy(), 20, drafter.requires))
        drafted = drafter.draft(text.ids[: behind + 1].numpy()).tokens[1:]
        for place, token in enumerate(drafted.tolist()):
            if behind + place < len(text.ids):
                expected[place].append(bool(token == truth[behind + place]))
    assert right == pytest.approx([float(np.mean(each)) for each in expected])
    assert all(0 < rate < 1 for rate in right)


def test_an_interrupted_training_goes_on(tmp_path: Path) -> None:
    """To the same head, bit for bit."""
    model = tiny_model()
    pairs = pairs_of(model)
    whole = taught(teach, model, settings(tmp_path / "whole"), pairs)
    cfg = settings(tmp_path / "parts", "checkpoint_minutes=1e-9")
    broken_off(teach, model, cfg, pairs)
    again = taught(teach, model, cfg, pairs)
    assert again.keys() == whole.keys()
    assert all(torch.equal(again[name], value) for name, value in whole.items())
    with safe_open(tmp_path / "parts" / "model.safetensors", "pt") as file:
        assert file.metadata() == {"answers": "6", "tokens": "120", "model": "tiny", "steps": "9 of 9"}
    with pytest.raises(BadInput, match=r"^out: .* is of a training with epochs=3, and this one has 4"):
        taught(teach, model, settings(tmp_path / "parts", "epochs=4"), pairs)
    with pytest.raises(BadInput, match=r"^out: .* is of a run of 9 steps, this one has 6"):
        taught(teach, model, settings(tmp_path / "parts"), pairs[:4])
    with pytest.raises(BadInput, match=r"^out: .* is no checkpoint of such a head"):
        taught(teach, tiny_model(intermediate_size=16), cfg, pairs)


def test_its_file_is_drafted_with(tmp_path: Path) -> None:
    """Of a narrower head the sizes are its own, and what it has learned by heart is accepted."""
    model = tiny_model()
    pairs = pairs_of(model)
    taught(teach, model, settings(tmp_path, "intermediate_size=24", "epochs=60", "learning_rate=0.01"), pairs)
    target, drafter = EagerTarget(model), Dflash(str(tmp_path))
    drafter.setup(target)
    assert drafter.head is not None
    assert drafter.head.config.intermediate_size == 24
    answer = decode(target, drafter, np.array(pairs[0][0]), Greedy(), max_new_tokens=20)
    assert answer.token_ids == pairs[0][1]
    assert answer.new_tokens > 1.5 * len(answer.accept_lengths)


def test_what_cannot_be_learned_from_is_refused(tmp_path: Path) -> None:
    model = tiny_model()
    with pytest.raises(BadInput, match=r"^model: .* gemma"):
        new_head(tiny_model("gemma"), ALL, BLOCK, 1, None)
    with pytest.raises(BadInput, match=r"^layers: must be 2 or less"):
        new_head(model, ALL, BLOCK, 3, None)
    with pytest.raises(BadInput, match=r"^target_layers: must be some of the target's layers 0 to 0, not \[1\]"):
        new_block(settings(tmp_path, "target_layers=[1]"), model)
    with pytest.raises(BadInput, match=r"^mask_token_id: must be one of the target's 64 tokens"):
        new_block(settings(tmp_path, "mask_token_id=64"), model)
    with pytest.raises(BadInput, match=r"^prompts: there are no answers to train on"):
        taught(teach, model, settings(tmp_path), [([1, 2], [3])])
