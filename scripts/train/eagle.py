"""A head of EAGLE-2 (arXiv 2406.16858) or EAGLE-3 (2503.01840) for a frozen target.

    python -m scripts.train.eagle kind=eagle2|eagle3 [model=NAME] [out=FOLDER] [prompts=N] [KEY=VALUE ...]

conf/train_eagle.yaml explains every key. First the target answers prompts of the datastore's corpus, greedily, and
those of a corpus of conversations, if `chat` names one. It reads them once more: a head learns to continue its
features. Embedding and output projection stay the target's, and the head uses the rows of the most frequent tokens.
It begins as the target's last layer. An interrupted run goes on after its last checkpoint; the head's file is written
at each checkpoint too.
"""

from __future__ import annotations

import logging
import math
from pathlib import Path
from time import monotonic
from typing import Any, Literal

import torch
from omegaconf import DictConfig
from transformers import PreTrainedModel
from transformers.models.llama.configuration_llama import LlamaConfig

from aded.command_line import run_config
from aded.config import Kinds
from aded.errors import BadInput
from aded.files.atomic import check_outputs, whole_file
from aded.kernels import threads
from aded.settings import Count, Positive, Rate
from aded.targets.eager import EagerTarget
from aded.targets.loaded import Loaded
from baselines.heads.eagle.files import WEIGHTS, published_layers, save_head
from baselines.heads.eagle.model import Eagle3Head, EagleHead
from scripts.train.answers import HEADS, answered, inputs, most_frequent, read_pairs, target_of
from scripts.train.eagle_training import Lesson, Text, begin_as_last_layer, read_text

KINDS: dict[str, type[EagleHead]] = {"eagle2": EagleHead, "eagle3": Eagle3Head}
EAGLE: Kinds = {
    **HEADS,
    "kind": Literal["eagle2", "eagle3"],
    "intermediate_size": Positive | None,
    "steps": Count,
    "checkpoint_minutes": Rate,
}
"""The keys at the top of conf/train_eagle.yaml."""
CHECKPOINT = "checkpoint.pt"
SHAPE = ("hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim", "vocab_size", "rms_norm_eps")
OTHER = ("max_position_embeddings", "rope_parameters", "hidden_act")
Pair = tuple[list[int], list[int]]
"""A prompt and its answer, as token ids."""
log = logging.getLogger(__name__)


def new_head(kind: str, model: PreTrainedModel, tokens: torch.Tensor, intermediate_size: int | None) -> EagleHead:
    """A head of the target's shape that begins as its last layer. tokens: int64 [m], which it knows, increasing."""
    target: Any = model.config.get_text_config(decoder=True)
    if target.model_type != "llama":
        raise BadInput("model", f"heads are trained for Llama's layers; this model is of type {target.model_type}")
    config = LlamaConfig(
        **{key: getattr(target, key) for key in (*SHAPE, *OTHER)},
        num_hidden_layers=1,
        intermediate_size=intermediate_size or target.intermediate_size,
    )
    torch.manual_seed(0)
    width = config.hidden_size * (3 if kind == "eagle3" else 1)
    head = KINDS[kind](config, width, draft_vocabulary=len(tokens))
    head.d2t.copy_(tokens - torch.arange(len(tokens)))
    begin_as_last_layer(head, model)
    return head


class Training:
    """A head with its optimizer: steps through the texts, each epoch in another order.

    facts: for the head's file. reads: the target's layers that the head reads.
    """

    def __init__(self, lesson: Lesson, cfg: DictConfig, count: int, reads: tuple[int, ...]) -> None:
        self.lesson, self.head, self.cfg, self.count, self.reads = lesson, lesson.head, cfg, count, reads
        self.out, self.done = Path(cfg.out), 0
        self.total = cfg.epochs * math.ceil(count / cfg.batch_size)
        self.optimizer = torch.optim.AdamW(self.head.parameters(), lr=cfg.learning_rate, betas=(0.9, 0.95))
        self.schedule = torch.optim.lr_scheduler.OneCycleLR(
            self.optimizer, cfg.learning_rate, self.total, pct_start=0.05
        )

    def order(self, step: int) -> list[int]:
        """The texts of a step."""
        each = math.ceil(self.count / self.cfg.batch_size)
        generator = torch.Generator().manual_seed(step // each)
        texts: list[int] = torch.randperm(self.count, generator=generator).tolist()
        return texts[step % each * self.cfg.batch_size :][: self.cfg.batch_size]

    def step(self, texts: list[Text]) -> tuple[float, list[float]]:
        """One step of the optimizer; the mean loss and accuracies."""
        generator = torch.Generator().manual_seed(self.done)
        losses, rights = [], []
        self.optimizer.zero_grad()
        for text in texts:
            loss, right = self.lesson(text, generator)
            (loss / len(texts)).backward()
            losses.append(float(loss.detach()))
            rights.append(right)
        torch.nn.utils.clip_grad_norm_(self.head.parameters(), 0.5)
        self.optimizer.step()
        self.schedule.step()
        self.done += 1
        return sum(losses) / len(losses), torch.tensor(rights).mean(0).tolist()

    def save(self, facts: dict[str, str]) -> None:
        """The checkpoint, then the head's file."""
        state = {
            "done": self.done,
            "total": self.total,
            "head": self.head.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
        }
        self.out.mkdir(parents=True, exist_ok=True)
        with whole_file(self.out / CHECKPOINT) as file:
            torch.save(state, file)
        save_head(self.head, self.out, {**facts, "steps": f"{self.done} of {self.total}"}, self.reads)

    def resume(self) -> None:
        """Go on from a checkpoint, if there is one. Raises BadInput for one of other settings."""
        path = self.out / CHECKPOINT
        if not path.exists():
            return
        try:
            state = torch.load(path, weights_only=True)
            total, self.done = state["total"], state["done"]
            self.head.load_state_dict(state["head"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.schedule.load_state_dict(state["schedule"])
        except Exception:  # a damaged zip or pickle fails in many ways, and so does one of another head
            raise BadInput("out", f"{path} is no checkpoint of such a head; name another folder") from None
        if total != self.total:
            raise BadInput(
                "out", f"{path} is of a run of {total} steps, this one has {self.total}; name another folder"
            )
        log.info("going on after step %d of %d", self.done, self.total)


@torch.no_grad()
def accuracies(lesson: Lesson, texts: list[Text]) -> list[float]:
    """Per drafted token, how often the head's first choice is the target's."""
    generator = torch.Generator().manual_seed(0)
    return torch.tensor([lesson(text, generator)[1] for text in texts]).mean(0).tolist()


def run(cfg: DictConfig) -> None:
    """Answers, training, the head's files; prints the accuracy on the answers set aside for validation."""
    check_outputs([("out", Path(cfg.out) / WEIGHTS)], inputs(cfg).items())
    loaded = target_of(cfg)
    threads.use_torch(cfg.threads)
    shards, facts = answered(cfg, loaded)
    teach(cfg, loaded, list(read_pairs(shards)), facts)


def teach(cfg: DictConfig, loaded: Loaded, pairs: list[Pair], facts: dict[str, str]) -> None:
    """Train a head on prompts with their answers, and write it."""
    assert isinstance(loaded.target, EagerTarget)
    model = loaded.target.model
    pairs = [(prompt, answer) for prompt, answer in pairs if len(answer) > cfg.steps]
    every = cfg.validation_every
    taught = [pair for number, pair in enumerate(pairs) if number % every != every - 1]
    if not taught:
        raise BadInput("prompts", "there are no answers to train on; ask 2 or more")
    tokens = most_frequent(torch.tensor([token for _, answer in taught for token in answer]), cfg.vocabulary)
    reads = published_layers(loaded.target.config.num_hidden_layers) if cfg.kind == "eagle3" else ()
    head = new_head(cfg.kind, model, tokens, cfg.intermediate_size)
    steps = cfg.steps if cfg.kind == "eagle3" else 1
    projection = model.get_output_embeddings().weight[tokens].detach().float()
    lesson = Lesson(head, model.get_input_embeddings(), projection, steps)
    training = Training(lesson, cfg, len(taught), reads)
    training.resume()
    facts |= {"answers": str(len(taught)), "tokens": str(sum(len(answer) for _, answer in taught))}
    log.info("%s answers, %s tokens, %d steps", facts["answers"], facts["tokens"], training.total)
    _train(training, model, taught, facts)
    training.save(facts)
    if unseen := pairs[every - 1 :: every]:
        rates = accuracies(lesson, [read_text(model, *pair, reads) for pair in unseen])
        print(f"unseen answers, first choice right: {', '.join(f'{rate:.1%}' for rate in rates)}")
    print(f"head: {training.out / WEIGHTS}")


def _train(training: Training, model: PreTrainedModel, taught: list[Pair], facts: dict[str, str]) -> None:
    """All remaining steps. A text is read once, and its features are kept in memory."""
    texts: dict[int, Text] = {}
    saved = monotonic()
    while training.done < training.total:
        numbers = training.order(training.done)
        for number in numbers:
            if number not in texts:
                texts[number] = read_text(model, *taught[number], training.reads)
        loss, right = training.step([texts[number] for number in numbers])
        if training.done % 10 == 0:
            rates = " ".join(f"{rate:.1%}" for rate in right)
            log.info("step %d of %d: loss %.3f, right %s", training.done, training.total, loss, rates)
        if monotonic() - saved > 60 * training.cfg.checkpoint_minutes:
            training.save(facts)
            saved = monotonic()


def main() -> None:
    interrupted = "interrupted; answers and the last checkpoint are kept: start the same command again"
    run_config("train_eagle", run, interrupted, EAGLE)


if __name__ == "__main__":
    main()
