"""How a head with a lesson is trained: steps of the optimizer over texts, and checkpoints from which they go on."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any, Protocol

import torch
from omegaconf import DictConfig
from safetensors import safe_open
from safetensors.torch import save
from transformers import PreTrainedModel

from aded.config.command_line import plain, run_config
from aded.config.objects import Kinds
from aded.errors import BadInput
from aded.files.atomic import check_ours, check_outputs, whole_file
from aded.kernels import threads
from aded.records.config import flat
from aded.settings import Positive, Rate
from aded.shown import say
from aded.targets.engine import Loaded
from baselines.heads.head_files import CONFIG, WEIGHTS
from scripts.train.answers import HEADS, answered, inputs, read_pairs, target_of

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ReadText:
    """A prompt with its answer, as read by the target: what heads with layers of their own learn from.

    ids: int64 [n]; start: the answer's first token.
    features: float16 [n, width], what the head reads; last: float16 [n, hidden], the target's last hidden states.
    """

    ids: torch.Tensor
    start: int
    features: torch.Tensor
    last: torch.Tensor


@torch.no_grad()
def read_text(
    model: PreTrainedModel, prompt: Sequence[int], answer: Sequence[int], layers: Sequence[int]
) -> ReadText:
    """A prompt and its answer. Features are what enters the layers, or the last hidden states if none is named."""
    ids = torch.tensor([*prompt, *answer])
    output = model.get_decoder()(ids[None], output_hidden_states=True, use_cache=False)
    last = output.last_hidden_state[0].half()
    taken = torch.cat([output.hidden_states[layer][0] for layer in layers], -1).half() if layers else last
    return ReadText(ids, len(prompt), taken, last)


CHECKPOINT = "checkpoint.safetensors"
TAUGHT: Kinds = {**HEADS, "intermediate_size": Positive | None, "checkpoint_minutes": Rate}
"""Keys of the trainings of heads that have layers of their own."""
SHAPE = (
    "hidden_size",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "vocab_size",
    "rms_norm_eps",
    "max_position_embeddings",
    "rope_parameters",
    "hidden_act",
)
"""Keys of the target's config that its heads have too."""
FREE = ("out", "threads", "checkpoint_minutes", "paths")
"""Keys that a training may change when it goes on."""
Pair = tuple[list[int], list[int]]
"""A prompt and its answer, as token ids."""


class Lesson(Protocol):
    """What a head is taught."""

    @property
    def head(self) -> torch.nn.Module: ...

    def __call__(self, text: ReadText, generator: torch.Generator) -> tuple[torch.Tensor, list[float]]:
        """(loss, per drafted token how often the head's first choice is the target's), over the answer."""
        ...


class Training:
    """A head with its optimizer: steps through the texts, each epoch in another order.

    count: of the texts. write: the head's file, given its folder and facts for it.
    """

    def __init__(
        self, lesson: Lesson, cfg: DictConfig, count: int, write: Callable[[Path, dict[str, str]], None]
    ) -> None:
        self.lesson, self.head, self.cfg, self.count, self.write = lesson, lesson.head, cfg, count, write
        self.out, self.done = Path(cfg.out).expanduser(), 0
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

    def step(self, texts: list[ReadText]) -> tuple[float, list[float]]:
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
        return sum(losses) / len(losses), torch.tensor(rights).nanmean(0).tolist()

    def save(self, facts: dict[str, str]) -> None:
        """The checkpoint, then the head's file."""
        optimizer = self.optimizer.state_dict()
        state = {f"head.{name}": value for name, value in self.head.state_dict().items()}
        for number, moments in optimizer["state"].items():
            state |= {f"optimizer.{number}.{name}": value for name, value in moments.items()}
        settings = {
            "config": self.settings(),
            "done": self.done,
            "total": self.total,
            "groups": optimizer["param_groups"],
            "schedule": self.schedule.state_dict(),
        }
        self.out.mkdir(parents=True, exist_ok=True)
        with whole_file(self.out / CHECKPOINT) as file:
            file.write(save(state, {name: json.dumps(value) for name, value in settings.items()}))
        self.write(self.out, {**facts, "steps": f"{self.done} of {self.total}"})

    def settings(self) -> dict[str, Any]:
        """By key, those that a training must have in common with the checkpoint that it goes on from."""
        return {key: value for key, value in flat(plain(self.cfg)) if key.split(".")[0] not in FREE}

    def resume(self) -> None:
        """Go on from a checkpoint, if there is one. Raises BadInput for one of other settings."""
        path = self.out / CHECKPOINT
        if not path.exists():
            return
        try:
            with safe_open(path, "pt") as file:
                settings: dict[str, Any] = {name: json.loads(value) for name, value in file.metadata().items()}
                state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - it is no dict
            before, total, done = settings["config"], settings["total"], settings["done"]
        except Exception:  # a damaged file fails in many ways
            raise BadInput("out", f"{path} is no checkpoint of a head; name another folder") from None
        for key, value in self.settings().items():
            if before.get(key) != value:
                said = f"{path} is of a training with {key}={before.get(key)}, and this one has {value}"
                raise BadInput("out", f"{said}; name another folder")
        if total != self.total:
            raise BadInput(
                "out", f"{path} is of a run of {total} steps, this one has {self.total}; name another folder"
            )
        try:
            self._load(state, settings)
        except Exception:  # of another shape, where the target is another one under the same name
            raise BadInput("out", f"{path} is no checkpoint of such a head; name another folder") from None
        self.done = done
        log.info("going on after step %d of %d", self.done, self.total)

    def _load(self, state: dict[str, torch.Tensor], settings: dict[str, Any]) -> None:
        moments: dict[int, dict[str, torch.Tensor]] = {}
        head = {}
        for place, value in state.items():
            part, _, name = place.partition(".")
            if part == "head":
                head[name] = value
            else:
                number, _, moment = name.partition(".")
                moments.setdefault(int(number), {})[moment] = value
        self.head.load_state_dict(head)
        self.optimizer.load_state_dict({"state": moments, "param_groups": settings["groups"]})
        self.schedule.load_state_dict(settings["schedule"])

    def run(self, read: Callable[[int], ReadText], facts: dict[str, str]) -> None:
        """All remaining steps, and the head's file. read: the text of a number; each is read once, and kept."""
        texts: dict[int, ReadText] = {}
        saved = monotonic()
        while self.done < self.total:
            numbers = self.order(self.done)
            for number in numbers:
                if number not in texts:
                    texts[number] = read(number)
            loss, right = self.step([texts[number] for number in numbers])
            if self.done % 10 == 0:
                rates = " ".join(f"{rate:.1%}" for rate in right)
                log.info("step %d of %d: loss %.3f, right %s", self.done, self.total, loss, rates)
            if monotonic() - saved > 60 * self.cfg.checkpoint_minutes:
                self.save(facts)
                saved = monotonic()
        self.save(facts)


def taught_and_unseen(pairs: Sequence[Pair], every: int) -> tuple[list[Pair], list[Pair]]:
    """Every n-th pair is kept out of the training. Raises BadInput where none is left."""
    taught = [pair for number, pair in enumerate(pairs) if number % every != every - 1]
    if not taught:
        raise BadInput("prompts", "there are no answers to train on; ask 2 or more")
    return taught, list(pairs[every - 1 :: every])


def run_training(
    name: str, teach: Callable[[DictConfig, Loaded, list[Pair], dict[str, str]], None], about: str, schema: Kinds
) -> None:
    """The command whose config is conf/NAME.yaml: the target answers, and `teach` trains a head on the answers.

    teach: given the config, the target, prompts with their answers, and facts about them
    about: the command's docstring. schema: the config's keys
    """

    def run(cfg: DictConfig) -> None:
        out = Path(cfg.out).expanduser()
        check_outputs([("out", out / WEIGHTS)], inputs(cfg).items())
        check_ours([out / WEIGHTS, out / CONFIG], "out")
        loaded = target_of(cfg)
        threads.for_torch(cfg.threads)
        shards, facts = answered(cfg, loaded)
        teach(cfg, loaded, list(read_pairs(shards)), facts)

    interrupted = "interrupted; answers and the last checkpoint are kept: start the same command again"
    run_config(name, run, about, interrupted, schema)


def train(
    lesson: Lesson,
    cfg: DictConfig,
    taught: Sequence[Pair],
    unseen: Sequence[Pair],
    read: Callable[[Pair], ReadText],
    write: Callable[[Path, dict[str, str]], None],
    facts: dict[str, str],
) -> None:
    """Train the lesson's head, from its checkpoint if there is one; print how often it is right on unseen answers.

    read: what the target says of a prompt and its answer. write: the head's files, given their folder and facts.
    """
    training = Training(lesson, cfg, len(taught), write)
    training.resume()
    facts |= {"answers": str(len(taught)), "tokens": str(sum(len(answer) for _, answer in taught))}
    training.run(lambda number: read(taught[number]), facts)
    print_accuracies(lesson, [read(pair) for pair in unseen])
    say(f"head: {training.out / WEIGHTS}")


@torch.no_grad()
def print_accuracies(lesson: Lesson, texts: list[ReadText]) -> None:
    """Per drafted token, how often the head's first choice is the target's."""
    if texts:
        generator = torch.Generator().manual_seed(0)
        rates = torch.tensor([lesson(text, generator)[1] for text in texts]).nanmean(0).tolist()
        say(f"unseen answers, first choice right: {', '.join(f'{rate:.1%}' for rate in rates)}")
