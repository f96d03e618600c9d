"""Trains the look-up language model of a token stream.

aded.drafters.backoff.lookup has the model's formula, computed from tables.

AdamW reads STREAMS places of the stream side by side, LENGTH tokens of each at a step, so that the memory goes on
from step to step. The loss is a sampled softmax (Jean et al., 2015): over the FREQUENT most frequent tokens and over
SAMPLED others, drawn by count^0.75. A penalty on the square of the normaliser's logarithm teaches scores that are
log-probabilities as they are (Devlin et al., 2014): whoever drafts needs those of few tokens, and no sum over all.

Every CHECKPOINT_STEPS steps all that changes is written beside the file to build, so that the same command goes on.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch.nn.functional import layer_norm, relu
from tqdm import tqdm

from aded.errors import BadInput
from aded.files.atomic import whole_file
from aded.files.datastores.array_file import write_arrays
from aded.files.datastores.lookup_file import FORMAT, HIDDEN, PAST, VERSION, WEIGHTS, WIDTH
from aded.identity import sha256

log = logging.getLogger(__name__)

INPUT_SCALE = 4.0
"""Of embeddings as inputs: as outputs they are smaller."""


class LookupNetwork(torch.nn.Module):
    """log_unigram: float32 [R], where the biases begin"""

    def __init__(self, log_unigram: torch.Tensor) -> None:
        super().__init__()

        def random(*shape: int, scale: float) -> torch.nn.Parameter:
            return torch.nn.Parameter(torch.randn(*shape) * scale)

        def constant(values: torch.Tensor) -> torch.nn.Parameter:
            return torch.nn.Parameter(values.clone())

        self.embedding = random(len(log_unigram), WIDTH, scale=0.05)
        self.bias = constant(log_unigram)
        self.before = random(WIDTH, PAST * HIDDEN, scale=(WIDTH * PAST) ** -0.5)
        self.keep = constant(torch.zeros(WIDTH, HIDDEN))
        self.keep_bias = constant(torch.linspace(1, 5, HIDDEN))
        self.add = random(WIDTH, HIDDEN, scale=WIDTH**-0.5)
        self.b = constant(torch.zeros(HIDDEN))
        self.c = constant(torch.full((HIDDEN,), 0.5))
        self.w1 = random(HIDDEN, HIDDEN, scale=(2 / HIDDEN) ** 0.5)
        self.b1 = constant(torch.zeros(HIDDEN))
        self.w2 = random(2 * HIDDEN, WIDTH, scale=(2 * HIDDEN) ** -0.5)
        self.b2 = constant(torch.zeros(WIDTH))
        self.level = constant(torch.zeros(2 * HIDDEN))
        self.gain = constant(torch.ones(WIDTH))
        self.shift = constant(torch.zeros(WIDTH))

    def forward(self, rows: torch.Tensor, memory: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """(y, float32 [B, T, WIDTH]; the level, float32 [B, T]; the memory at the end). The score of a next token is
        y . embedding(token) + bias(token) + level.

        rows: int64 [B, PAST - 1 + T], the rows of tokens, with those before the first that is predicted from
        memory: float32 [B, HIDDEN], before rows[:, PAST - 1]
        """
        x = self.embedding[rows] * INPUT_SCALE
        length = x.shape[1]
        places = (x @ self.before).unflatten(-1, (PAST, HIDDEN)).unbind(-2)
        summed = self.b + sum(place[:, PAST - 1 - i : length - i] for i, place in enumerate(places))
        keep, added = self.memory_tables(x[:, PAST - 1 :])
        memories = []
        for k, v in zip(keep.unbind(1), added.unbind(1), strict=True):
            memory = k * memory + v
            memories.append(memory)
        first = relu(summed + self.c * torch.stack(memories, 1))
        second = relu(first @ self.w1 + self.b1)
        hidden = torch.cat([first, second], -1)
        y = hidden @ self.w2 + self.b2
        level = (hidden @ self.level).float()
        return layer_norm(y.float(), (WIDTH,), self.gain, self.shift), level, memory.detach()

    def memory_tables(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """What the memory keeps of itself, and what a token adds to it: float32 [..., HIDDEN] of x [..., WIDTH]."""
        keep = torch.sigmoid((x @ self.keep).float() + self.keep_bias)
        return keep, (1 - keep) * (x @ self.add).float()

    @torch.no_grad()
    def tables(self) -> dict[str, np.ndarray]:
        """The arrays of a look-up file but `rows`."""
        x = self.embedding * INPUT_SCALE
        before = (x @ self.before).unflatten(-1, (PAST, HIDDEN))
        tables = torch.cat([before, torch.stack(self.memory_tables(x), 1)], 1)
        return {
            "tables": _bfloat16(tables),
            "output": _bfloat16(self.embedding * self.gain),
            "bias": (self.bias + self.embedding @ self.shift).numpy(),
            **{name: getattr(self, name).numpy().ravel() for name in WEIGHTS},
        }


def _bfloat16(numbers: torch.Tensor) -> np.ndarray:
    """Their bits, uint16 [all]."""
    bits: np.ndarray = numbers.to(torch.bfloat16).view(torch.uint16).numpy()
    return bits.ravel()


MOST_ROWS = 16_384
"""Rows of the tables: the most frequent tokens, the separator, and one for all other tokens."""
STREAMS, LENGTH = 16, 128
MOST_STEPS, MOST_PASSES = 24_000, 4
"""Training ends after so many steps, or passes over the stream."""
RATE, WARM_UP, FALLING = 2e-3, 100, 0.7
"""The learning rate, the steps in which it rises to it, and the last share of all steps, in which it falls to 0."""
FREQUENT, SAMPLED = 1024, 512
PENALTY = 0.1
CHECKPOINT_STEPS = 500
UNSEEN = 100
"""One token of so many is set aside, at the stream's end, to measure the loss on."""
Numbers = Mapping[str, torch.Tensor]


class Stream:
    """A token stream in rows.

    rows: int32 [vocabulary + 1], the row of each token and of the separator
    ids: int32 [n], the stream's rows; is_text: bool [n], False for separators
    counts: int64 [R], occurrences of each row in the part that is learned
    learned: how many tokens that part has; the others are set aside
    """

    def __init__(self, tokens: np.ndarray, vocabulary: int) -> None:
        """tokens: int [n], with the separator, `vocabulary`, after each document"""
        counts = np.bincount(tokens, minlength=vocabulary + 1)
        frequent = np.argsort(-counts[:vocabulary], kind="stable")[: MOST_ROWS - 2]
        frequent = frequent[counts[frequent] > 0]
        self.rows = np.full(vocabulary + 1, len(frequent) + 1, np.int32)
        self.rows[frequent], self.rows[vocabulary] = np.arange(len(frequent)), len(frequent)
        self.ids = torch.from_numpy(self.rows[tokens])
        self.is_text = torch.from_numpy(tokens != vocabulary)
        self.learned = len(tokens) - max(len(tokens) // UNSEEN, 2 * LENGTH)
        if self.learned < STREAMS * (PAST + 2 * LENGTH):
            raise BadInput("lookup", f"the corpus has {len(tokens)} tokens, too few to learn a model from")
        self.counts = torch.bincount(self.ids[: self.learned], minlength=len(frequent) + 2)

    def pieces(self, at: torch.Tensor, length: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """(inputs, the token after each, is that text?), int64 and bool [k, ...], of the pieces that begin at `at`.

        inputs: [k, PAST - 1 + length], with what stands before; at: int64 [k]
        """
        places = at[:, None] + torch.arange(1 - PAST, length)
        after = places[:, PAST - 1 :] + 1
        return self.ids[places].long(), self.ids[after].long(), self.is_text[after]


def sampled_loss(
    network: LookupNetwork,
    y: torch.Tensor,
    level: torch.Tensor,
    targets: torch.Tensor,
    shares: torch.Tensor,
    generator: torch.Generator,
) -> torch.Tensor:
    """Mean -log p by a sampled softmax, and the penalty.

    y, level: float32 [n, WIDTH] and [n]; targets: int64 [n], rows
    shares: float32 [R], by which rows are drawn; those of frequent rows are 0
    """
    frequent = int((shares == 0).sum())
    drawn = torch.multinomial(shares, SAMPLED, replacement=True, generator=generator)
    rows = torch.cat([torch.arange(frequent), drawn])
    bias = network.bias[rows] - torch.cat([torch.zeros(frequent), torch.log(SAMPLED * shares[drawn])])
    with torch.autocast("cpu", torch.bfloat16, enabled=has_bfloat16()):
        scores = y @ network.embedding[rows].T
    scores = scores.float() + bias
    # What is asked for stands among the frequent rows, or beside all; never among those that were drawn.
    scores[:, frequent:].masked_fill_(targets[:, None] == drawn, -torch.inf)
    own = (y * network.embedding[targets]).sum(-1) + network.bias[targets]
    beside = own.masked_fill(targets < frequent, -torch.inf)
    normaliser = torch.logsumexp(torch.cat([scores, beside[:, None]], 1), 1)
    return (normaliser - own + PENALTY * (normaliser + level).square()).mean()


def has_bfloat16() -> bool:
    """Does this processor compute in bfloat16?"""
    found = torch.cpu.get_capabilities()
    return bool(found.get("avx512_bf16") or found.get("amx_bf16") or found.get("bf16"))


class Training:
    """One training, step by step. Each step follows from its number and from `state`."""

    def __init__(self, stream: Stream) -> None:
        self.stream, self.step = stream, 0
        self.steps = min(MOST_STEPS, MOST_PASSES * stream.learned // (STREAMS * LENGTH))
        torch.manual_seed(0)
        counts = stream.counts + 1.0
        self.network = LookupNetwork(torch.log(counts / counts.sum()))
        self.memory = torch.zeros(STREAMS, self.network.b.shape[0])
        self._shares = counts**0.75
        self._shares[: min(FREQUENT, len(counts) - 1)] = 0
        self._shares /= self._shares.sum()
        matrices = [each for each in self.network.parameters() if each.dim() > 1]
        vectors = [each for each in self.network.parameters() if each.dim() == 1]
        groups = [{"params": matrices, "weight_decay": 0.01}, {"params": vectors, "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.98), fused=True)

    def advance(self) -> float:
        """One step; return the loss."""
        left = (self.steps - self.step) / self.steps
        for group in self.optimizer.param_groups:
            group["lr"] = RATE * min((self.step + 1) / WARM_UP, left / FALLING, 1.0)
        share = (self.stream.learned - PAST) // STREAMS
        at = PAST - 1 + torch.arange(STREAMS) * share + self.step * LENGTH % (share - LENGTH)
        inputs, targets, is_text = self.stream.pieces(at, LENGTH)
        with torch.autocast("cpu", torch.bfloat16, enabled=has_bfloat16()):
            y, level, self.memory = self.network(inputs, self.memory)
        generator = torch.Generator().manual_seed(self.step)
        loss = sampled_loss(self.network, y[is_text], level[is_text], targets[is_text], self._shares, generator)
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimizer.step()
        self.step += 1
        return loss.item()

    @property
    def state(self) -> dict[str, torch.Tensor]:
        """All that changes, by name."""
        found = {"memory": self.memory, **{name: each.detach() for name, each in self.network.named_parameters()}}
        for name, each in self.network.named_parameters():
            found |= {f"{name}.{kind}": value for kind, value in self.optimizer.state[each].items()}
        return found

    def restore(self, state: Numbers, step: int) -> None:
        """Go on from the `state` before this step. Raises KeyError and RuntimeError for that of another network."""
        self.network.load_state_dict({name: state[name] for name, _ in self.network.named_parameters()})
        for name, each in self.network.named_parameters():
            kinds = ("step", "exp_avg", "exp_avg_sq")
            self.optimizer.state[each] = {kind: state[f"{name}.{kind}"] for kind in kinds}
        self.memory, self.step = state["memory"], step

    @torch.no_grad()
    def unseen_loss(self) -> tuple[float, float]:
        """(mean -log p over all rows, mean square of the normaliser's logarithm) of the text that was set aside."""
        stream, network = self.stream, self.network
        memory, losses, squares = self.memory[:1] * 0, [], []
        for first in range(stream.learned + PAST, len(stream.ids) - LENGTH - 1, LENGTH):
            inputs, targets, is_text = stream.pieces(torch.tensor([first]), LENGTH)
            y, level, memory = network(inputs, memory)
            scores = y[is_text] @ network.embedding.T + network.bias
            normaliser = torch.logsumexp(scores, 1)
            losses.append(normaliser - scores.gather(1, targets[is_text][:, None])[:, 0])
            squares.append((normaliser + level[is_text]).square())
        return float(torch.cat(losses).mean()), float(torch.cat(squares).mean())


def train_lookup(path: Path, tokens: np.ndarray, header: Mapping[str, str], *, progress: bool) -> None:
    """Write the look-up file whole or not at all. Raises OSError, and BadInput for too few tokens.

    tokens: int32 [n], with a separator after each document
    """
    checkpoint = path.with_name(f".{path.name}.training")
    sizes = (WIDTH, HIDDEN, PAST, MOST_ROWS, STREAMS, LENGTH)
    about = sha256(json.dumps([*sizes, RATE, WARM_UP, FALLING, FREQUENT, SAMPLED, PENALTY, sha256(tokens.tobytes())]))
    training = _begun(lambda: Training(Stream(tokens, int(header["vocabulary"]))), checkpoint, about)
    with tqdm(desc="train", unit=" steps", initial=training.step, total=training.steps, disable=not progress) as bar:
        while training.step < training.steps:
            loss = training.advance()
            bar.update()
            bar.set_postfix_str(f"{loss:.2f} nats", refresh=False)
            if training.step % CHECKPOINT_STEPS == 0:
                with whole_file(checkpoint) as file:
                    file.write(save(training.state, {"about": about, "step": str(training.step)}))
    loss, square = training.unseen_loss()
    log.info("look-up model: %.3f nats a token on unseen text, normaliser within %.2f", loss, square**0.5)
    arrays = {"rows": training.stream.rows, **training.network.tables()}
    facts = {"nats": f"{loss:.4f}", "steps": str(training.steps)}
    write_arrays(path, {"format": FORMAT, "version": VERSION, **header, **facts}, arrays)
    checkpoint.unlink(missing_ok=True)


def _begun(new: Callable[[], Training], checkpoint: Path, about: str) -> Training:
    """The training of a command that was interrupted, if it was this one; else a new one."""
    training = new()
    try:
        with safe_open(checkpoint, "pt") as file:
            facts = file.metadata() or {}
            if facts.get("about") == about:
                training.restore({name: file.get_tensor(name) for name in file.keys()}, int(facts["step"]))  # noqa: SIM118
                log.info("look-up model: training goes on from step %d of %d", training.step, training.steps)
    except FileNotFoundError:
        pass
    except (OSError, SafetensorError, KeyError, RuntimeError, ValueError):
        log.warning("%s is damaged: training begins anew", checkpoint)
        training = new()  # a part may have been restored
    return training
