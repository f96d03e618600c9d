"""EAGLE-1, EAGLE-2 and EAGLE-3: a small head drafts from the target's features, token by token.

The head's own output stands for the features of drafted tokens, so it drafts as deep as one likes. EAGLE-1 (arXiv
2401.15077) has a fixed tree; EAGLE-2 (2406.16858) lets the same head grow the tree by its probabilities; EAGLE-3
(2503.01840) reads what enters three layers of the target. All default settings are those of SafeAILab/EAGLE.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar

import numpy as np
import torch
from transformers import DynamicCache

from aded.core.drafter import Drafter, Step
from aded.core.target import Target
from aded.core.tree import DraftTree
from aded.settings import Budget, Count, FilePath
from baselines.growth import Growth, Shape
from baselines.heads.eagle_head import Eagle3Head, EagleHead, load_head
from baselines.heads.layers import SharedLayers, side_by_side

NextTokens = tuple[np.ndarray, np.ndarray]
"""(tokens int64 [r, k], their probabilities float64 [r, k]): the k most probable next tokens of r rows."""
Read = Callable[[np.ndarray, np.ndarray], NextTokens]
"""See HeadReader.read_drafted."""

MC_SIM_7B_63: tuple[tuple[int, ...], ...] = (
    *((0,), (1,), (2,), (3,)),
    *((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (2, 0), (2, 1), (3, 0)),
    *((0, 0, 0), (0, 0, 1), (0, 0, 2), (0, 1, 0), (0, 1, 1), (0, 2, 0), (0, 2, 1), (1, 0, 0)),
    *((0, 0, 0, 0), (0, 0, 0, 1), (0, 0, 0, 2), (0, 0, 0, 0, 0), (0, 0, 0, 0, 1)),
)
"""The published tree: a node is the ranks of the tokens on its path (`mc_sim_7b_63` of SafeAILab/EAGLE)."""


def fixed_tree(root: int, first: NextTokens, read: Read, choices: Sequence[tuple[int, ...]]) -> DraftTree:
    """The nodes of `choices`, level by level. first: what may follow the root, one row.

    choices: paths of ranks, each after its prefix. Ranks beyond the candidates are left out, and what is below them.
    """
    tokens, parents, reached = [root], [-1], [1.0]
    node_of: dict[tuple[int, ...], int] = {(): 0}
    row_of: dict[tuple[int, ...], int] = {(): 0}
    found = first
    for depth in range(1, 1 + max(map(len, choices), default=0)):
        level = [
            path for path in choices if len(path) == depth and path[:-1] in row_of and path[-1] < found[0].shape[1]
        ]
        for path in level:
            row, rank = row_of[path[:-1]], path[-1]
            node_of[path] = len(tokens)
            tokens.append(int(found[0][row, rank]))
            parents.append(node_of[path[:-1]])
            reached.append(reached[parents[-1]] * float(found[1][row, rank]))
        inner = [path for path in level if any(other[:depth] == path and len(other) > depth for other in choices)]
        if not inner:
            break
        above = np.array([row_of[path[:-1]] for path in inner])
        found = read(np.array([tokens[node_of[path]] for path in inner]), above)
        row_of = {path: row for row, path in enumerate(inner)}
    return DraftTree(np.array(tokens), np.array(parents), np.array(reached))


def smaller(choices: Sequence[tuple[int, ...]], budget: int) -> list[tuple[int, ...]]:
    """The `budget` choices of the lowest ranks and depths; each has its prefix."""
    return sorted(choices, key=lambda path: (len(path) + sum(path), len(path), path))[:budget]


ROWS_AT_ONCE = 512
"""Rows of the text that are read together: the mask between them grows with the square."""


class HeadReader:
    """A head beside the target whose embedding and output projection it may share.

    Rows of tokens and features are read once and stay in the cache. Drafted rows are read below them, and forgotten.
    """

    def __init__(self, head: EagleHead, shared: SharedLayers) -> None:
        self.device, self.dtype = shared.device, shared.dtype
        self.head = head.to(self.device, self.dtype)
        self.tokens = None if head.tokens is None else head.tokens.cpu()
        self._embed = head.embed_tokens if hasattr(head, "embed_tokens") else shared.embed
        self._project = head.lm_head if hasattr(head, "lm_head") else shared.projection(self.tokens)
        self.start()

    def start(self) -> None:
        """Forget all rows."""
        self.cache, self.length = DynamicCache(), 0

    def read(self, tokens: torch.Tensor, features: torch.Tensor) -> None:
        """Read rows of the text: the features at a token, [n, width], and the token after it, int64 [n]."""
        for ids, part in zip(tokens.split(ROWS_AT_ONCE), features.split(ROWS_AT_ONCE), strict=True):
            seen = torch.ones(len(ids), len(ids), dtype=torch.bool, device=self.device).tril()
            positions = torch.arange(self.length, self.length + len(ids), device=self.device)
            taken = self.head.features(part.to(self.device, self.dtype))
            self._outputs = self._forward(ids.to(self.device), taken, positions, seen)[-1:]
            self.length += len(ids)
        self._seen = torch.zeros(1, 0, dtype=torch.bool, device=self.device)
        self._depth = 0

    def candidates(self, k: int) -> NextTokens:
        """The k most probable next tokens of the rows that were read last, or fewer if the head knows fewer."""
        logits = self._project(self.head.before_projection(self._outputs))
        best = logits.float().log_softmax(dim=-1).topk(min(k, logits.shape[-1]))
        tokens, probabilities = best.indices.cpu(), best.values.double().exp()
        return (tokens if self.tokens is None else self.tokens[tokens]).numpy(), probabilities.cpu().numpy()

    def read_drafted(self, k: int, tokens: np.ndarray, above: np.ndarray) -> NextTokens:
        """Read drafted tokens, int64 [r], and say what may follow each. above: their rows in the last call."""
        rows = torch.from_numpy(above).to(self.device)
        own = torch.eye(len(tokens), dtype=torch.bool, device=self.device)
        self._seen = torch.cat([self._seen[rows], own], dim=1)
        positions = torch.full((len(tokens),), self.length + self._depth, device=self.device)
        ids = torch.from_numpy(tokens).to(self.device)
        self._outputs = self._forward(ids, self._outputs[rows], positions, self._seen)
        self._depth += 1
        return self.candidates(k)

    def forget_drafted(self) -> None:
        if drafted := self.cache.get_seq_length() - self.length:
            self.cache.crop(-drafted)

    def _forward(
        self, tokens: torch.Tensor, features: torch.Tensor, positions: torch.Tensor, seen: torch.Tensor
    ) -> torch.Tensor:
        """Outputs, [n, hidden]. seen: bool [n, rows behind the text's], which rows each sees besides the text's."""
        mask = torch.cat([seen.new_ones(len(tokens), self.length), seen], dim=1)
        return self.head(self._embed(tokens)[None], features[None], positions[None], mask[None, None], self.cache)[0]


class Eagle(Drafter):
    """EAGLE-1: the published tree of 25 nodes, or its most probable part.

    heads: a folder with config.json and model.safetensors or pytorch_model.bin
    budget: most drafted nodes per step; the published tree has 25
    """

    learned_from = frozenset({"the target's answers"})
    kind: ClassVar[type[EagleHead]] = EagleHead
    requires = frozenset({"hidden", "prompt_hidden"})
    adaptation = "off"

    def __init__(self, heads: FilePath, *, budget: Budget = 25) -> None:
        self.place, self.budget = heads, budget
        self.reader: HeadReader | None = None
        self.reset()

    def setup(self, target: Target) -> None:
        """Load the head, which must have the target's sizes."""
        shared = SharedLayers(target, "EAGLE")
        layers = shared.target.config.num_hidden_layers
        head, self.reads = load_head(
            self.place, self.kind, hidden=shared.hidden, vocabulary=shared.vocabulary, layers=layers
        )
        if self.reads:
            shared.target.read_layers(self.reads)
        self.reader = HeadReader(head, shared)
        self.reset()

    def reset(self) -> None:
        self._unread: list[tuple[torch.Tensor, list[int]]] = []
        if self.reader is not None:
            self.reader.start()

    def begin(self, prompt_ids: np.ndarray, seed: int = 0) -> None:
        self.reset()
        self._following = prompt_ids[1:].tolist()

    def observe(self, step: Step) -> None:
        """Keep what was decided, until the next draft reads it: features, and the token after each."""
        self._unread.append((self._features(step), [*self._following, *step.new_tokens]))
        self._following = []

    def _features(self, step: Step) -> torch.Tensor:
        """float [r, width], of the text that the step read."""
        return step.text_hidden

    @torch.inference_mode()
    def draft(self, context: np.ndarray) -> DraftTree:
        root = int(context[-1])
        if self.reader is None or not self._unread or self.budget == 0:
            return DraftTree.root(root)
        tokens = [token for _, group in self._unread for token in group]
        self.reader.read(torch.tensor(tokens), torch.cat([features for features, _ in self._unread]))
        self._unread.clear()
        tree = self._tree(self.reader, root)
        self.reader.forget_drafted()
        return tree

    def _tree(self, reader: HeadReader, root: int) -> DraftTree:
        choices = smaller(MC_SIM_7B_63, self.budget)
        k = 1 + max(path[-1] for path in choices)
        return fixed_tree(root, reader.candidates(k), partial(reader.read_drafted, k), choices)


class Eagle2(Eagle):
    """EAGLE-2: the most probable nodes that a beam search reaches.

    heads: a folder with config.json and model.safetensors or pytorch_model.bin
    budget: most drafted nodes per step; published: 60 with the root
    depth: levels of the tree
    top_k: nodes that are read per level, and candidates below each
    """

    def __init__(self, heads: FilePath, *, budget: Budget = 59, depth: Count = 6, top_k: Count = 10) -> None:
        super().__init__(heads, budget=budget)
        self.depth, self.top_k = depth, top_k

    def _tree(self, reader: HeadReader, root: int) -> DraftTree:
        growth = Growth(root, Shape(self.budget, self.depth, [self.top_k], self.top_k, 0.0))
        growth.add(*reader.candidates(self.top_k))
        while growth.level < self.depth and growth.read_next():
            growth.add(*reader.read_drafted(self.top_k, growth.tokens[growth.latest], growth.above))
        return growth.draft()


class Eagle3(Eagle2):
    """EAGLE-3: as Eagle2, with a head that reads what enters three layers of the target.

    heads: a folder with config.json and model.safetensors or pytorch_model.bin
    budget: most drafted nodes per step; published: 60 with the root
    depth: levels of the tree
    top_k: nodes that are read per level, and candidates below each
    """

    kind = Eagle3Head
    requires = frozenset({"layers", "prompt_layers"})

    def __init__(self, heads: FilePath, *, budget: Budget = 59, depth: Count = 8, top_k: Count = 10) -> None:
        super().__init__(heads, budget=budget, depth=depth, top_k=top_k)

    def _features(self, step: Step) -> torch.Tensor:
        return side_by_side(step.text_layers, self.reads)
