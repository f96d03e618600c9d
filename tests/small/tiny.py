"""Small things to test with: random models, a tokenizer of characters, random trees, an obedient sampler."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerFast

from aded.core.drafter import Drafter, Step
from aded.core.sampler import Sampler
from aded.core.tree import DraftTree

VOCABULARY = 64
WINDOW = 8
SPECIALS = ["<unk>", "<s>", "</s>", "<|user|>", "<|assistant|>"]
CHAT_TEMPLATE = (
    "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
# Name -> model type, attention, what differs from the common config.
MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "llama": ("llama", "sdpa", {}),
    "llama-eager": ("llama", "eager", {}),
    "qwen2": ("qwen2", "sdpa", {}),
    "qwen2-window": (
        "qwen2",
        "sdpa",
        {"use_sliding_window": True, "sliding_window": WINDOW, "max_window_layers": 1},
    ),
    "qwen3": ("qwen3", "sdpa", {}),
    "mistral": ("mistral", "sdpa", {"sliding_window": None}),
    "mistral-window": ("mistral", "sdpa", {"sliding_window": WINDOW}),
    "gemma": ("gemma", "sdpa", {}),
    "gemma2-window": ("gemma2", "eager", {"sliding_window": WINDOW, "query_pre_attn_scalar": 8}),
    "gemma3-window": (
        "gemma3_text",
        "sdpa",
        {
            "sliding_window": WINDOW,
            "query_pre_attn_scalar": 8,
            "layer_types": ["sliding_attention", "full_attention"],
        },
    ),
}


def tiny_model(name: str = "llama", **overrides: Any) -> PreTrainedModel:
    """A random float32 model of two layers whose greedy answers vary: its weights are large. It has no EOS."""
    kind, attention, special = MODELS[name]
    settings: dict[str, Any] = {
        "vocab_size": VOCABULARY,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "max_position_embeddings": 128,
        "initializer_range": 0.5,
        "tie_word_embeddings": False,
        "bos_token_id": 1,
        "eos_token_id": None,
        "pad_token_id": 0,
    }
    config = CONFIG_MAPPING[kind](**{**settings, **special, **overrides})
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, attn_implementation=attention, dtype=torch.float32)
    return model.eval()


def tiny_tokenizer(extra: Sequence[str] = ()) -> PreTrainedTokenizerFast:
    """One token a character, a few special ones, and a chat template."""
    tokens = [*SPECIALS, "\n", *map(chr, range(32, 127)), *extra]
    core = Tokenizer(models.WordLevel({token: index for index, token in enumerate(tokens)}, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    core.decoder = decoders.Fuse()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core,
        unk_token="<unk>",
        bos_token="<s>",
        eos_token="</s>",
        additional_special_tokens=SPECIALS[3:],
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def random_tree(rng: np.random.Generator, nodes: int, root: int, vocabulary: int = VOCABULARY) -> DraftTree:
    """Each node below a random earlier one, with a token that its siblings lack."""
    tokens, parents, taken = [root], [-1], set[tuple[int, int]]()
    while len(tokens) < nodes:
        place = (int(rng.integers(len(tokens))), int(rng.integers(vocabulary)))
        if place not in taken:
            taken.add(place)
            parents.append(place[0])
            tokens.append(place[1])
    return DraftTree(np.array(tokens, np.int64), np.array(parents, np.int64))


@st.composite
def trees(draw: st.DrawFn, most: int = 12, vocabulary: int = VOCABULARY) -> DraftTree:
    nodes = draw(st.integers(1, most))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return random_tree(rng, nodes, int(rng.integers(vocabulary)), vocabulary)


def path_to(tree: DraftTree, node: int) -> list[int]:
    """Nodes from the root to `node`, by following parents."""
    path = [node]
    while tree.parents[path[0]] >= 0:
        path.insert(0, int(tree.parents[path[0]]))
    return path


def paths_of(tree: DraftTree) -> list[tuple[int, ...]]:
    """Each drafted node as the tokens from the root to it, in the tree's order."""
    return [tuple(tree.tokens[path_to(tree, node)[1:]].tolist()) for node in range(1, len(tree))]


def drafted_along(drafter: Drafter, prompt: list[int], answer: list[int]) -> list[DraftTree]:
    """The trees of an answer of which each step decides one token."""
    drafter.begin(np.array(prompt))
    trees, text = [], [*prompt, *answer]
    for known in range(len(prompt), len(text)):
        drafter.observe(Step(DraftTree.root(text[known - 1]), [0], text[known]))
        trees.append(drafter.draft(np.array(text[: known + 1])))
    drafter.end()
    return trees


class Obedient(Sampler):
    """A sampler that accepts the path it is given, whatever the logits say."""

    def __init__(self, token: int = 5) -> None:
        self.path, self.token = [0], token

    def walk(self, tree: DraftTree, logits: torch.Tensor | None, position: int) -> tuple[list[int], int]:
        path, self.path = self.path, [0]
        return path, self.token


def save_model(folder: Path, model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast | None = None) -> Path:
    """With a tokenizer, as `model=FOLDER` takes it."""
    model.save_pretrained(folder)
    (tokenizer or tiny_tokenizer()).save_pretrained(folder)
    return folder


@cache
def chat_model() -> Any:
    """A model with all of the tokenizer's tokens, kept: leave it as it is."""
    return tiny_model(vocab_size=128)


def generated(model: Any, prompt: Sequence[int] | np.ndarray, tokens: int, **settings: Any) -> list[int]:
    """The greedy answer of transformers' own `generate`."""
    ids, asked = torch.tensor([list(prompt)]), {"do_sample": False, "max_new_tokens": tokens, **settings}
    answer = model.generate(ids, attention_mask=torch.ones_like(ids), **asked)
    return answer[0, len(prompt) :].tolist()


def plain_logits(model: PreTrainedModel, ids: Sequence[int]) -> torch.Tensor:
    """[vocabulary]: the last row of an ordinary forward without a cache."""
    with torch.inference_mode():
        return model(input_ids=torch.tensor([list(ids)]), use_cache=False).logits[0, -1]
