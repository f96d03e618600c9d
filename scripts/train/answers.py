"""What heads are trained on: a target's own greedy answers, with the hidden state that decided each token.

Answers are computed in batches, padded on the left, one shard file per batch, so that an interrupted run goes on.
"""

from __future__ import annotations

import ast
import itertools
import json
import logging
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from io import StringIO
from pathlib import Path

import numpy as np
import torch
from omegaconf import DictConfig, OmegaConf
from safetensors.torch import load_file, save
from tqdm import tqdm
from transformers import DynamicCache, PreTrainedModel, PreTrainedTokenizerBase

from aded.bench.questions import ChatTemplate
from aded.bench.run import cache_of, checked_model, load
from aded.config.command_line import PATHS, plain
from aded.config.objects import GROUP, Kinds, instantiate
from aded.errors import BadInput
from aded.files.atomic import whole_file
from aded.identity import file_fingerprint, sha256, tokenizer_fingerprint
from aded.kernels.attention import CACHE
from aded.settings import Count, FilePath, Positive, Rate, Seed, Share
from aded.targets.eager import EagerTarget
from aded.targets.engine import Loaded
from datastore.corpora.corpus import Corpus

log = logging.getLogger(__name__)

REQUESTS = (
    "Complete this Python function. Answer with the whole function in one code block.\n\n```python\n{}```",
    "Write the body of this function.\n\n```python\n{}```",
    "Implement the following in Python and explain it:\n\n{}",
)


def stubs(document: str) -> Iterator[str]:
    """Header and docstring of every documented function of a source file, dedented."""
    try:
        tree = ast.parse(document)
    except (SyntaxError, ValueError):
        return
    lines = StringIO(document, newline=None).readlines()  # as ast counts them: a form feed ends none
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and ast.get_docstring(node):
            end = node.body[0].end_lineno
            yield textwrap.dedent("".join(lines[node.lineno - 1 : end]))


def prompts(
    documents: Iterable[str], tokenizer: PreTrainedTokenizerBase, longest: int, raw_share: float, seed: int
) -> Iterator[list[int]]:
    """Token ids of prompts of source files: chat requests to complete a function, and code to continue.

    They are as many as the documents' functions yield.

    longest: most tokens of a prompt.
    raw_share: share of prompts that are code without a request.
    """
    rng = np.random.default_rng(seed)
    sources = list(documents)
    found = [stub for source in sources for stub in stubs(source)]
    order = iter(rng.permutation(len(found)))
    while True:
        if rng.random() < raw_share:
            source = sources[int(rng.integers(len(sources)))]
            start = source.find("\n", int(rng.integers(len(source) + 1))) + 1
            ids = tokenizer(source[start : start + 6 * longest], add_special_tokens=False)["input_ids"]
            ids = ids[: int(rng.integers(longest // 4, longest + 1))]
        else:
            at = next(order, None)
            if at is None:
                return
            request = REQUESTS[int(rng.integers(len(REQUESTS)))].format(found[at])
            ids = ChatTemplate().ids(tokenizer, [request], [])
        if 0 < len(ids) <= longest:
            yield ids


def chat_prompts(corpus: Corpus, tokenizer: PreTrainedTokenizerBase, longest: int, seed: int) -> Iterator[list[int]]:
    """Token ids of the distinct prompts of conversations, in random order. longest: most tokens of a prompt."""
    asked = list(dict.fromkeys(messages[prompt] for messages, prompt in corpus.cleaned() if prompt is not None))
    for at in np.random.default_rng(seed).permutation(len(asked)):
        ids = ChatTemplate().ids(tokenizer, [asked[at]], [])
        if len(ids) <= longest:
            yield ids


IGNORED = -100
"""In place of a token where there is none."""
TRAINING: Kinds = {
    **dict.fromkeys(("model", "datastore"), GROUP),
    "paths": PATHS,
    "out": FilePath,
    "threads": Count | None,
    "prompts": Positive,
    "asking": {
        **dict.fromkeys(("longest_prompt", "max_new_tokens", "batch_size"), Positive),
        "raw_share": Share,
        "seed": Seed,
    },
}
"""Keys of all trainings on a target's own answers."""
HEADS: Kinds = {
    **TRAINING,
    "chat": GROUP | None,
    "epochs": Count,
    **dict.fromkeys(("batch_size", "vocabulary", "validation_every"), Positive),
    "learning_rate": Rate,
}
"""Keys of all trainings of heads."""


def target_of(cfg: DictConfig) -> Loaded:
    """The model that is asked, on the eager engine."""
    return load(checked_model(plain(cfg.model)), "eager", cache_of(cfg))


def answered(cfg: DictConfig, loaded: Loaded) -> tuple[list[Path], dict[str, str]]:
    """The answers' shards, computed where they are missing, and facts about them for the heads' file."""
    corpus, asking = instantiate(plain(cfg.datastore.corpus), "datastore.corpus", Corpus), cfg.asking
    facts = {
        "model": str(cfg.model.path),
        "tokenizer": tokenizer_fingerprint(loaded.tokenizer),
        "corpus": corpus.name,
        "asking": json.dumps(OmegaConf.to_container(asking, resolve=True), sort_keys=True),
    }
    code = prompts(corpus.documents(), loaded.tokenizer, asking.longest_prompt, asking.raw_share, asking.seed)
    asked: dict[str, Iterable[list[int]]] = {corpus.name: code}
    if cfg.get("chat"):
        chat = instantiate(plain(cfg.chat), "chat", Corpus)
        found = list(chat_prompts(chat, loaded.tokenizer, asking.longest_prompt, asking.seed))
        if not found:
            problem = f"no conversation of {chat.name} begins with a prompt of at most {asking.longest_prompt} tokens"
            raise BadInput("chat", problem)
        asked[chat.identity] = found
    shards = [_answers(cfg, loaded, stream, facts | {"corpus": name}) for name, stream in asked.items()]
    return list(itertools.chain.from_iterable(shards)), facts | {"corpus": ", ".join(asked)}


def _answers(cfg: DictConfig, loaded: Loaded, asked: Iterable[list[int]], facts: dict[str, str]) -> list[Path]:
    """The shards of the answers to the first prompts of a corpus. facts: what the prompts depend on."""
    assert isinstance(loaded.target, EagerTarget)
    depends_on = facts | {"model": plain(cfg.model), "weights": file_fingerprint(cfg.model.path)}
    folder = Path(cache_of(cfg)) / "answers" / sha256(json.dumps(depends_on))[:16]
    log.info("answering %d prompts of %s into %s", cfg.prompts, facts["corpus"], folder)
    return answer_all(
        loaded.target.model,
        itertools.islice(asked, cfg.prompts),
        loaded.eos_token_ids,
        folder,
        most=cfg.asking.max_new_tokens,
        batch_size=cfg.asking.batch_size,
    )


def inputs(cfg: DictConfig) -> dict[str, str | None]:
    """The files that a training of heads reads, by their keys."""
    corpora = {"datastore.corpus.path": cfg.datastore.corpus, "chat.path": cfg.chat or {}}
    return {"model.path": cfg.model.path} | {key: corpus.get("path") for key, corpus in corpora.items()}


@torch.inference_mode()
def answer_batch(
    model: PreTrainedModel, batch: Sequence[Sequence[int]], eos: frozenset[int], most: int
) -> list[tuple[list[int], torch.Tensor]]:
    """Greedy answers of at most `most` tokens: (ids, float [m, hidden], the state that decided each of them)."""
    width = max(map(len, batch))
    visible = torch.zeros(len(batch), width + most, dtype=torch.bool)
    ids = torch.zeros(len(batch), width, dtype=torch.long)
    for row, prompt in enumerate(batch):
        ids[row, width - len(prompt) :] = torch.tensor(prompt)
        visible[row, width - len(prompt) :] = True
    visible[:, width:] = True
    positions = (visible.cumsum(1) - 1).clamp(min=0)
    cache, decoder = DynamicCache(), model.get_decoder()
    answers: list[list[int]] = [[] for _ in batch]
    states: list[list[torch.Tensor]] = [[] for _ in batch]
    alive, start = torch.arange(len(batch)), 0
    for end in range(width, width + most):
        output = decoder(
            input_ids=ids,
            attention_mask=visible[alive, :end],
            position_ids=positions[alive, start:end],
            use_cache=True,
            **{CACHE: cache},
        )
        hidden = output.last_hidden_state[:, -1]
        tokens = model.lm_head(hidden).argmax(dim=-1)
        for row, token, state in zip(alive.tolist(), tokens.tolist(), hidden.half(), strict=True):
            answers[row].append(token)
            states[row].append(state)
        going = torch.tensor([token not in eos for token in tokens.tolist()])
        if not going.any():
            break
        if not going.all():  # rows that are finished leave the batch
            alive, tokens = alive[going], tokens[going]
            cache.batch_select_indices(going)
        ids, start = tokens[:, None], end
    return [(ids_, torch.stack(rows)) for ids_, rows in zip(answers, states, strict=True)]


def answer_all(
    model: PreTrainedModel,
    asked: Iterable[Sequence[int]],
    eos: frozenset[int],
    folder: Path,
    *,
    most: int,
    batch_size: int,
) -> list[Path]:
    """Answer prompts batch by batch, similar lengths together; return the shards. Those of the same prompts are kept.

    asked: prompts, as token ids.
    eos: tokens that end an answer.
    most: most tokens of an answer.
    """
    folder.mkdir(parents=True, exist_ok=True)
    shards = []
    for number, batch in enumerate(tqdm(batches(asked, batch_size), "answers", disable=not sys.stderr.isatty())):
        path = folder / f"answers-{number:05d}.safetensors"
        shards.append(path)
        if path.exists() and [prompt for prompt, _ in read_pairs([path])] == [list(prompt) for prompt in batch]:
            continue
        answers = answer_batch(model, batch, eos, most)
        tensors = {
            "ids": torch.tensor([token for ids, _ in answers for token in ids], dtype=torch.int32),
            "hidden": torch.cat([hidden for _, hidden in answers]),
            "lengths": torch.tensor([len(ids) for ids, _ in answers], dtype=torch.int32),
            "prompts": torch.tensor([token for prompt in batch for token in prompt], dtype=torch.int32),
            "prompt_lengths": torch.tensor([len(prompt) for prompt in batch], dtype=torch.int32),
        }
        with whole_file(path) as file:
            file.write(save(tensors))
    return shards


def batches(asked: Iterable[Sequence[int]], size: int) -> Iterator[list[Sequence[int]]]:
    """Batches of similar lengths: the prompts of 16 batches at a time are sorted by length."""
    asked = iter(asked)
    while group := sorted(itertools.islice(asked, 16 * size), key=len):
        for start in range(0, len(group), size):
            yield group[start : start + size]


def read_answers(shards: Iterable[Path]) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """(ids int64 [m], hidden float16 [m, hidden]) of every answer of the shards."""
    for path in shards:
        shard = load_file(path)
        lengths = shard["lengths"].tolist()
        yield from zip(shard["ids"].long().split(lengths), shard["hidden"].split(lengths), strict=True)


def read_pairs(shards: Iterable[Path]) -> Iterator[tuple[list[int], list[int]]]:
    """(prompt, answer) as token ids, of every answer of the shards."""
    for path in shards:
        shard = load_file(path)
        if "prompts" not in shard:  # an earlier version's
            continue
        prompts, answers = (
            [row.tolist() for row in shard[ids].split(shard[lengths].tolist())]
            for ids, lengths in (("prompts", "prompt_lengths"), ("ids", "lengths"))
        )
        yield from zip(prompts, answers, strict=True)


def most_frequent(targets: torch.Tensor, most: int) -> torch.Tensor:
    """int64 [<= most]: the most frequent tokens of the targets, in the order of their ids."""
    tokens, times = targets[targets != IGNORED].unique(return_counts=True)
    return tokens[times.argsort(descending=True)[:most]].sort().values
