"""Medusa: heads on the target's last hidden state draft several tokens ahead (Cai et al. 2024, arXiv 2401.10774).

Head k reads the state at a position and predicts the token k positions after the one decided there, without knowing
the tokens between: residual blocks x + silu(W x + b), then a projection to the vocabulary. So a path's probability is
the product of its tokens' probabilities. The tree has the most probable paths, found best first; for given
probabilities no tree of as many nodes has a longer expected accepted length. (The published tree of 63 nodes is such
a tree for average accuracies, and the same at each step.)

Each published head has a projection of its own. Ours use the target's projection, so a file has a few MB of residual
blocks only. They use only the rows of the tokens they were trained on, which makes a draft several times faster.

The names of a file's tensors are those of the published `medusa_lm_head.pt`: `K.L.linear.weight` and
`K.L.linear.bias` for block L of head K, and after the last block the head's own projection `K.L.weight`, if it has
one. Reading a `.pt` file executes nothing in it. Our files are safetensors and also have `tokens`, int32: the tokens
the heads were trained on.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save

from aded.core.drafter import Drafter, Step
from aded.core.target import Target
from aded.core.tree import DraftTree
from aded.errors import BadInput
from aded.files.atomic import write_outputs
from aded.settings import Budget, Count, FilePath
from baselines.growth import tree_of_logits
from baselines.heads.head_files import HEADS_KEY, find_file, read_tensors, with_numbers
from baselines.heads.layers import SharedLayers

PUBLISHED = "medusa_lm_head.pt"
OURS = "heads.safetensors"


class ResBlock(torch.nn.Module):
    """x + silu(W x + b), the identity before training: [.., hidden] to [.., hidden]."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(hidden, hidden)
        torch.nn.init.zeros_(self.linear.weight)
        torch.nn.init.zeros_(self.linear.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.nn.functional.silu(self.linear(x))


class MedusaHeads(torch.nn.Module):
    """All heads of a file.

    heads: number of heads
    blocks: residual blocks per head
    hidden: size of the target's hidden state
    vocabulary: tokens of the heads' own projections; None: they use the target's projection
    tokens: int64 [m], the rows of the target's projection to use; None: all
    """

    def __init__(
        self,
        heads: int,
        blocks: int,
        hidden: int,
        vocabulary: int | None = None,
        tokens: torch.Tensor | None = None,
    ) -> None:
        super().__init__()
        self.vocabulary, self.tokens = vocabulary, tokens
        own = [] if vocabulary is None else [torch.nn.Linear(hidden, vocabulary, bias=False)]
        self.stacks = torch.nn.ModuleList(
            torch.nn.Sequential(*(ResBlock(hidden) for _ in range(blocks)), *own) for _ in range(heads)
        )

    def __len__(self) -> int:
        return len(self.stacks)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """[.., hidden] to [heads, .., hidden], or to [heads, .., vocabulary] if the heads have projections."""
        return torch.stack([stack(hidden) for stack in self.stacks])


def save_heads(heads: MedusaHeads, path: Path, metadata: dict[str, str]) -> None:
    """Write the heads in bfloat16, as safetensors, whole or not at all. Raises BadInput."""
    state = {name.removeprefix("stacks."): value.to(torch.bfloat16) for name, value in heads.state_dict().items()}
    if heads.tokens is not None:
        state["tokens"] = heads.tokens.int()
    write_outputs(path.parent, {path.name: save(state, metadata)}, "out")


def load_heads(place: str, hidden: int, vocabulary: int) -> MedusaHeads:
    """The heads of a file, or of the file in a folder, in float32.

    place: file or folder; a relative path is searched in the working directory, then in the repository
    hidden, vocabulary: the target's sizes

    Raises BadInput naming the file if there is none, if it cannot be read, or if its shapes do not fit.
    """
    held = f"{OURS} or a published {PUBLISHED}"
    wanted = f"a file, or a folder that holds {held}: train some with python -m scripts.train.medusa"
    path = find_file(place, (OURS, PUBLISHED), wanted)
    state = read_tensors(path, frozenset({"tokens"}))
    tokens = _tokens(state.pop("tokens", None), path, vocabulary)
    names = [re.fullmatch(r"(\d+)\.(\d+)\.(linear\.weight|linear\.bias|weight)", name) for name in state]
    count = len({name[1] for name in names if name})
    blocks = sum(name[1] == "0" and name[3] == "linear.weight" for name in names if name)
    own = vocabulary if f"0.{blocks}.weight" in state else None
    return with_numbers(
        lambda: MedusaHeads(count, blocks, hidden, own, tokens), state, path, "Medusa heads", "stacks."
    )


def _tokens(tokens: torch.Tensor | None, path: Path, vocabulary: int) -> torch.Tensor | None:
    """The `tokens` of a file, checked: lookups check no bounds."""
    if tokens is None:
        return None
    if tokens.ndim != 1 or tokens.dtype not in (torch.int32, torch.int64) or len(tokens) == 0:
        raise BadInput(HEADS_KEY, f"{path}: its tokens must be a list of token ids")
    if not ((tokens >= 0) & (tokens < vocabulary)).all():
        raise BadInput(
            HEADS_KEY, f"{path} was trained for another model: its tokens lie outside of the {vocabulary} known"
        )
    if len(tokens.unique()) < len(tokens):
        raise BadInput(HEADS_KEY, f"{path}: some of its tokens occur twice")
    return tokens.long()


class Medusa(Drafter):
    """Drafts the most probable paths.

    heads: a file of heads, or a folder with one
    budget: most drafted nodes per step
    top_k: candidates per head
    """

    learned_from = frozenset({"the target's answers"})
    requires = frozenset({"hidden"})
    adaptation = "off"

    def __init__(self, heads: FilePath, *, budget: Budget = 63, top_k: Count = 10) -> None:
        self.place, self.budget, self.top_k = heads, budget, top_k
        self.reset()

    def setup(self, target: Target) -> None:
        """Load the heads, which must have the target's sizes. Heads without a projection use the target's."""
        shared = SharedLayers(target, "medusa")
        self.heads = load_heads(self.place, shared.hidden, shared.vocabulary).to(shared.device, shared.dtype)
        self.tokens, self.dtype = self.heads.tokens, shared.dtype
        self._project = None if self.heads.vocabulary is not None else shared.projection(self.tokens)

    def reset(self) -> None:
        self._state: torch.Tensor | None = None

    def begin(self, prompt_ids: np.ndarray, seed: int = 0) -> None:
        self.reset()

    @torch.inference_mode()
    def draft(self, context: np.ndarray) -> DraftTree:
        root = int(context[-1])
        if self._state is None or self.budget == 0:
            return DraftTree.root(root)
        logits = self._logits(self._state)
        return tree_of_logits(root, logits, self.top_k, self.tokens, self.budget)

    def _logits(self, state: torch.Tensor) -> torch.Tensor:
        """[heads, tokens] for a hidden state, [hidden]; tokens: the whole vocabulary, or those of the heads."""
        out = self.heads(state.to(self.dtype))
        return out if self._project is None else self._project(out)

    def observe(self, step: Step) -> None:
        assert step.hidden is not None
        self._state = step.hidden[step.path[-1]]

    def node_parts(self, tree: DraftTree) -> list[str]:
        """The head of each depth."""
        return ["", *(f"head {depth}" for depth in tree.depths[1:])]
