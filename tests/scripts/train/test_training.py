from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig
from safetensors import safe_open
from safetensors.torch import load_file
from tiny import VOCABULARY, tiny_model, tiny_tokenizer
from transformers import PreTrainedModel

from aded.config.command_line import CONF
from aded.core.decode import decode
from aded.core.sampler import Greedy
from aded.errors import BadInput
from aded.targets.eager import EagerTarget
from aded.targets.engine import Loaded
from baselines.autoregressive import Autoregressive
from baselines.heads.dflash import Block, Dflash, save_head
from baselines.heads.eagle import Eagle2, HeadReader
from baselines.heads.eagle_head import published_layers
from baselines.heads.layers import SharedLayers
from scripts.train import dflash, eagle
from scripts.train.dflash import BlockLesson
from scripts.train.eagle import EagleLesson
from scripts.train.training import ReadText, Training, read_text, taught_and_unseen

pytestmark = pytest.mark.thorough
Pairs = list[tuple[list[int], list[int]]]
ALL = torch.arange(VOCABULARY)
BLOCK = Block(4, 63, (0,))
READS = {"eagle2": (), "eagle3": published_layers(2), "dflash": (1,)}
OWN = ["block_size=4", "mask_token_id=63", "target_layers=[0]", "layers=1"]
each_kind = pytest.mark.parametrize("kind", READS)


def settings(kind: str, out: Path, *more: str) -> DictConfig:
    config, own = ("train_dflash", OWN) if kind == "dflash" else ("train_eagle", [f"kind={kind}"])
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return compose(config, [f"out={out}", *own, "batch_size=2", "epochs=3", *more])


def pairs_of(model: PreTrainedModel, count: int = 6, tokens: int = 20) -> Pairs:
    target = EagerTarget(model)
    prompts = [np.array([3 + number, 40, 7 + 5 * number]) for number in range(count)]
    answers = [decode(target, Autoregressive(), each, Greedy(), max_new_tokens=tokens) for each in prompts]
    return [(prompt.tolist(), answer.token_ids) for prompt, answer in zip(prompts, answers, strict=True)]


def taught(kind: str, model: PreTrainedModel, cfg: DictConfig, pairs: Pairs) -> dict[str, torch.Tensor]:
    teach: Callable[..., None] = dflash.teach if kind == "dflash" else eagle.teach
    teach(cfg, Loaded(EagerTarget(model), tiny_tokenizer(), frozenset()), pairs, {"model": "tiny"})
    return load_file(Path(cfg.out) / "model.safetensors")


def new_training(
    kind: str, model: PreTrainedModel, tokens: torch.Tensor, monkeypatch: pytest.MonkeyPatch, anchors: int = 99
) -> tuple[Training, list[ReadText]]:
    """A training of 100 steps, and its two short texts. Noise is for longer ones."""
    monkeypatch.setattr("scripts.train.eagle.NOISE", 0.0)
    texts = [read_text(model, *pair, READS[kind]) for pair in pairs_of(model, 2, 12)]
    projection, embed = model.get_output_embeddings().weight[tokens].detach(), model.get_input_embeddings()
    lesson: Any
    if kind == "dflash":
        lesson = BlockLesson(dflash.new_head(model, tokens, BLOCK, 2, None), embed, projection, anchors, 4.0)
    else:
        head = eagle.new_head(kind, model, tokens, None)
        lesson = EagleLesson(head, embed, projection, 2 if kind == "eagle3" else 1)
    cfg = settings(kind, Path(), f"learning_rate={0.01 if kind == 'dflash' else 0.02}", "epochs=100")
    return Training(lesson, cfg, len(texts), lambda folder, facts: None), texts


@each_kind
def test_a_head_learns_what_can_be_known(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    training, texts = new_training(kind, tiny_model(), ALL, monkeypatch, anchors=8)
    rates = [training.step(texts)[1] for _ in range(training.total)]
    assert all(first < 0.3 and last > 0.8 for first, last in zip(rates[0], rates[-1], strict=True))


def test_each_epoch_reads_all_texts_once_in_another_order_and_every_third_is_kept_out() -> None:
    lesson: Any = SimpleNamespace(head=torch.nn.Linear(1, 1))
    training = Training(lesson, settings("eagle2", Path()), 7, lambda folder, facts: None)
    epochs = [[text for step in range(first, first + 4) for text in training.order(step)] for first in (0, 4, 8)]
    assert [sorted(texts) for texts in epochs] == [list(range(7))] * 3
    assert epochs[0] != epochs[1] != epochs[2]
    assert training.total == 12
    pairs: Pairs = [([number], []) for number in range(7)]
    assert taught_and_unseen(pairs, 3) == ([pairs[number] for number in (0, 1, 3, 4, 6)], [pairs[2], pairs[5]])


@torch.no_grad()
def drafted_by_eagle(lesson: EagleLesson, model: PreTrainedModel, text: ReadText, behind: int) -> list[int]:
    reader = HeadReader(lesson.head, SharedLayers(EagerTarget(model), "EAGLE"))
    reader.read(text.ids[1 : behind + 1], text.features[:behind])
    found = [reader.candidates(1)[0][0, 0]]
    for place in range(behind, min(behind + lesson.steps, len(text.ids)) - 1):
        found.append(reader.read_drafted(1, text.ids[place + 1 : place + 2].numpy(), np.array([0]))[0][0, 0])
    return found


def drafted_by_dflash(target: EagerTarget, drafter: Dflash, text: ReadText, behind: int) -> list[int]:
    prompt = text.ids[:behind].numpy()
    drafter.begin(prompt)
    drafter.observe(target.prefill(prompt, Greedy(), 20, drafter.requires))
    return drafter.draft(text.ids[: behind + 1].numpy()).tokens[1:].tolist()


@each_kind
def test_it_learns_what_it_will_draft(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The share of right first choices, per drafted token, is that of drafting behind each token of the answer."""
    model, tokens = tiny_model(), ALL[::2]
    training, texts = new_training(kind, model, tokens, monkeypatch)
    for _ in range(12):
        training.step(texts)
    lesson: Any = training.lesson
    if kind == "dflash":
        save_head(lesson.head.bfloat16().float(), tmp_path, {}, 2)
        target, drafter = EagerTarget(model), Dflash(str(tmp_path))
        drafter.setup(target)
    text = texts[0]
    right = lesson(text, torch.Generator())[1]
    truth = tokens[model(text.ids[None]).logits[0][:, tokens].argmax(-1)]
    expected: list[list[bool]] = [[] for _ in right]
    for behind in range(text.start, len(text.ids)):
        if kind == "dflash":
            drafted = drafted_by_dflash(target, drafter, text, behind)
        else:
            drafted = drafted_by_eagle(lesson, model, text, behind)
        for place, token in enumerate(drafted[: len(text.ids) - behind]):
            expected[place].append(bool(token == truth[behind + place]))
    assert right == pytest.approx([float(np.mean(each)) for each in expected])
    assert all(0 < rate < 1 for rate in right)


@each_kind
def test_an_interrupted_training_goes_on(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model()
    pairs, facts = pairs_of(model), {"answers": "6", "tokens": "120", "model": "tiny"}
    whole = taught(kind, model, settings(kind, tmp_path / "whole"), pairs)
    cfg = settings(kind, tmp_path / "parts", "checkpoint_minutes=1e-9")

    def metadata() -> dict[str, str]:
        with safe_open(tmp_path / "parts" / "model.safetensors", "pt") as file:
            return file.metadata()

    step = Training.step

    def interrupted(training: Training, texts: list[ReadText]) -> tuple[float, list[float]]:
        if training.done == 4:
            raise KeyboardInterrupt
        return step(training, texts)

    with monkeypatch.context() as patched:
        patched.setattr(Training, "step", interrupted)
        with pytest.raises(KeyboardInterrupt):
            taught(kind, model, cfg, pairs)
    assert metadata() == {**facts, "steps": "4 of 9"}
    again = taught(kind, model, cfg, pairs)
    assert again.keys() == whole.keys()
    assert all(torch.equal(again[name], value) for name, value in whole.items())
    assert metadata() == {**facts, "steps": "9 of 9"}
    with pytest.raises(BadInput, match=r"^out: .* is of a training with learning_rate=.*, and this one has 0.5"):
        taught(kind, model, settings(kind, tmp_path / "parts", "learning_rate=0.5"), pairs)
    with pytest.raises(BadInput, match=r"^out: .* is of a run of 9 steps, this one has 6"):
        taught(kind, model, settings(kind, tmp_path / "parts"), pairs[:4])
    with pytest.raises(BadInput, match=r"^out: .* is no checkpoint of such a head"):
        taught(kind, tiny_model(intermediate_size=16), cfg, pairs)
    (tmp_path / "parts" / "checkpoint.safetensors").write_bytes(b"{")
    with pytest.raises(BadInput, match=r"^out: .* is no checkpoint of a head"):
        taught(kind, model, cfg, pairs)


@pytest.mark.parametrize("kind", ["eagle2", "dflash"])
def test_its_file_is_drafted_with(kind: str, tmp_path: Path) -> None:
    model = tiny_model()
    pairs = pairs_of(model)
    more = ["intermediate_size=24", "epochs=60", "learning_rate=0.01"]
    taught(kind, model, settings(kind, tmp_path, *more), pairs)
    target, drafter = EagerTarget(model), (Dflash if kind == "dflash" else Eagle2)(str(tmp_path))
    drafter.setup(target)
    head: Any = drafter.head if isinstance(drafter, Dflash) else drafter.reader.head  # type: ignore[union-attr]
    assert head.config.intermediate_size == 24
    answer = decode(target, drafter, np.array(pairs[0][0]), Greedy(), max_new_tokens=20)
    assert answer.token_ids == pairs[0][1]
    assert answer.new_tokens > 1.3 * len(answer.accept_lengths)


def test_what_cannot_be_learned_from_is_refused(tmp_path: Path) -> None:
    model = tiny_model()
    with pytest.raises(BadInput, match=r"^model: .* qwen2"):
        eagle.new_head("eagle2", tiny_model("qwen2"), ALL, None)
    with pytest.raises(BadInput, match=r"^layers: must be 2 or less"):
        dflash.new_head(model, ALL, BLOCK, 3, None)
    with pytest.raises(BadInput, match=r"^target_layers: must be some of the target's layers 0 to 0, not \[1\]"):
        dflash.new_block(settings("dflash", tmp_path, "target_layers=[1]"), model)
    with pytest.raises(BadInput, match=r"^mask_token_id: must be one of the target's 64 tokens"):
        dflash.new_block(settings("dflash", tmp_path, "mask_token_id=64"), model)
    for kind in READS:
        with pytest.raises(BadInput, match=r"^prompts: there are no answers to train on"):
            taught(kind, model, settings(kind, tmp_path), [([1, 2], [3])])
