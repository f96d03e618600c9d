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
from aded.errors import BadInput
from aded.targets.eager import EagerTarget
from baselines.heads.eagle.drafter import Eagle2, HeadReader
from baselines.heads.eagle.files import published_layers
from baselines.heads.shared.layers import SharedLayers
from scripts.train.eagle import new_head, teach
from scripts.train.eagle_training import EagleLesson
from scripts.train.text import ReadText, read_text
from scripts.train.training import Training

ALL = torch.arange(VOCABULARY)
LAYERS = {"eagle2": (), "eagle3": published_layers(2)}


def settings(kind: str, out: Path, *more: str) -> DictConfig:
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return compose("train_eagle", [f"kind={kind}", f"out={out}", "batch_size=2", "epochs=3", *more])


def new_training(
    kind: str, model: PreTrainedModel, tokens: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> tuple[Training, list[ReadText]]:
    """A training of 100 steps, and its two short texts. Noise is for longer ones."""
    monkeypatch.setattr("scripts.train.eagle_training.NOISE", 0.0)
    texts = [read_text(model, *pair, LAYERS[kind]) for pair in pairs_of(model, 2, 12)]
    projection = model.get_output_embeddings().weight[tokens].detach()
    head = new_head(kind, model, tokens, None)
    lesson = EagleLesson(head, model.get_input_embeddings(), projection, 2 if kind == "eagle3" else 1)
    cfg = settings(kind, Path(), "learning_rate=0.02", "epochs=100")
    return Training(lesson, cfg, len(texts), lambda folder, facts: None), texts


@pytest.mark.parametrize("kind", LAYERS)
def test_a_head_learns_what_can_be_known(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By heart: the answers that it is taught."""
    training, texts = new_training(kind, tiny_model(), ALL, monkeypatch)
    rates = [training.step(texts)[1] for _ in range(training.total)]
    assert all(first < 0.2 and last > 0.8 for first, last in zip(rates[0], rates[-1], strict=True))


@pytest.mark.parametrize("kind", LAYERS)
def test_it_learns_what_it_will_draft(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The share of right first choices, per drafted token, is that of drafting behind each token of the answer."""
    model, tokens = tiny_model(), ALL[::2]
    training, texts = new_training(kind, model, tokens, monkeypatch)
    for _ in range(12):
        training.step(texts)
    lesson, text = training.lesson, texts[0]
    right = lesson(text, torch.Generator())[1]
    truth = tokens[model(text.ids[None]).logits[0][:, tokens].argmax(-1)]
    assert isinstance(lesson, EagleLesson)
    reader = HeadReader(lesson.head, SharedLayers(EagerTarget(model), "EAGLE"))
    expected: list[list[bool]] = [[] for _ in right]
    with torch.inference_mode():
        for behind in range(text.start, len(text.ids)):
            reader.start()
            reader.read(text.ids[1 : behind + 1], text.features[:behind])
            found = reader.candidates(1)
            for step, place in enumerate(range(behind, min(behind + lesson.steps, len(text.ids)))):
                if step:
                    found = reader.read_drafted(1, text.ids[place : place + 1].numpy(), np.array([0]))
                expected[step].append(bool(found[0][0, 0] == truth[place]))
    assert right == pytest.approx([float(np.mean(each)) for each in expected])
    assert all(0 < rate < 1 for rate in right)


@pytest.mark.parametrize("kind", LAYERS)
def test_an_interrupted_training_goes_on(kind: str, tmp_path: Path) -> None:
    """To the same head, bit for bit."""
    model = tiny_model()
    pairs = pairs_of(model)
    whole = taught(teach, model, settings(kind, tmp_path / "whole"), pairs)
    cfg = settings(kind, tmp_path / "parts", "checkpoint_minutes=1e-9")
    broken_off(teach, model, cfg, pairs)
    with safe_open(tmp_path / "parts" / "model.safetensors", "pt") as file:
        assert file.metadata()["steps"] == "4 of 9"
    again = taught(teach, model, cfg, pairs)
    assert again.keys() == whole.keys()
    assert all(torch.equal(again[name], value) for name, value in whole.items())
    with safe_open(tmp_path / "parts" / "model.safetensors", "pt") as file:
        assert file.metadata() == {"answers": "6", "tokens": "120", "model": "tiny", "steps": "9 of 9"}
    with pytest.raises(BadInput, match=r"^out: .* is of a training with learning_rate=.*, and this one has 0.5"):
        taught(teach, model, settings(kind, tmp_path / "parts", "learning_rate=0.5"), pairs)
    with pytest.raises(BadInput, match=r"^out: .* is of a run of 9 steps, this one has 6"):
        taught(teach, model, settings(kind, tmp_path / "parts"), pairs[:4])
    with pytest.raises(BadInput, match=r"^out: .* is no checkpoint of such a head"):
        taught(teach, tiny_model(intermediate_size=16), cfg, pairs)


def test_of_a_narrower_head_the_sizes_are_its_own(tmp_path: Path) -> None:
    """And its file is drafted with."""
    model = tiny_model()
    taught(teach, model, settings("eagle2", tmp_path, "intermediate_size=24"), pairs_of(model))
    drafter = Eagle2(str(tmp_path))
    drafter.setup(EagerTarget(model))
    assert drafter.reader is not None
    assert drafter.reader.head.config.intermediate_size == 24


def test_what_cannot_be_learned_from_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"^model: .* qwen2"):
        new_head("eagle2", tiny_model("qwen2"), ALL, None)
    with pytest.raises(BadInput, match=r"^prompts: there are no answers to train on"):
        taught(teach, tiny_model(), settings("eagle2", tmp_path), [([1, 2], [3])])
