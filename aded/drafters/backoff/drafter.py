"""ADED beyond the paper: an adaptive back-off model of the target's output in place of the tri-gram matrix.

It mixes corpus n-grams of several orders, the tokens of prompt, output and earlier answers, copies of long matches,
and the target's own distributions at all verified nodes. The weights of the mixture are learned from the target's
decisions. The draft tree holds the most probable paths, and has the size at which this machine decodes fastest.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy as copied
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from aded.core.drafter import Drafter, Step
from aded.core.step_cost import TreeSize
from aded.core.target import Target
from aded.core.tree import DraftTree
from aded.drafters.backoff.candidates import CORPUS, LENGTHS, PROMPT, SESSION, TARGET
from aded.drafters.backoff.context_table import ROW, empty_table, forget
from aded.drafters.backoff.corpus import CONTEXTS, open_corpus
from aded.drafters.backoff.history import clear, empty_history
from aded.drafters.backoff.learning import learn_and_search, learn_and_search_chain, read_prompt, recycle
from aded.drafters.backoff.mixture import MixtureSources
from aded.drafters.backoff.packed_state import PackedState
from aded.drafters.backoff.suggestions import suggest
from aded.drafters.backoff.tree_search import new_scratch
from aded.drafters.backoff.weights import learn_power, new_weights
from aded.drafters.tree_sizing import check_cost, tree_size
from aded.errors import BadInput
from aded.files.ngram_file import NgramFile
from aded.settings import Budget, Count, FilePath, Positive, Scope, Share


class BackoffDrafter(Drafter):
    """At each step: learn from the tokens decided since the last step, then search below them.

    datastore: corpus n-grams of orders 2 to contexts["corpus"] + 1
    budget: most drafted nodes per step
    adaptation: how long learned state is kept: off (nothing is learned), prompt (cleared at each prompt), session
        (kept across questions)
    contexts: longest context in tokens per source, 0: the source is off. Sources: corpus (up to 4), target, session
        and prompt (up to 6)
    copy: copy what followed the longest match
    top_k: successors per corpus context
    keep: factor by which the weights of a context's successors shrink each time a token follows it
    gate_rate, curve_rate: how fast mixture weights and calibration curve follow, 0: they stay as they are
    depth: most drafted tokens on one path
    shape: of a draft: tree (the most probable nodes), or chain (below each node its most probable token alone)
    max_contexts: contexts of the session's table, 72 bytes each
    max_history: tokens that can be copied from, 20 bytes each
    cost: how to size a tree: measured (by step times measured on this machine), a file of scripts.bench_verify (by
        the step times in it), or none (each tree has the whole budget)
    """

    def __init__(
        self,
        datastore: NgramFile,
        *,
        budget: Budget = 64,
        adaptation: Scope = "session",
        contexts: Mapping[str, int],
        copy: bool = True,
        top_k: Count = 8,
        keep: Annotated[float, Field(gt=0, le=1)] = 0.9,
        gate_rate: Share = 0.005,
        curve_rate: Share = 0.005,
        depth: Count = 32,
        shape: Literal["tree", "chain"] = "tree",
        max_contexts: Positive = 1 << 20,
        max_history: Positive = 1 << 20,
        cost: FilePath = "measured",
    ) -> None:
        self.datastore, self.adaptation, self.cost = datastore, adaptation, check_cost(cost)
        self.budget, self.depth = budget, depth
        self._learn_and_search = learn_and_search if shape == "tree" else learn_and_search_chain
        self.keep, self.gate_rate, self.curve_rate = keep, gate_rate, curve_rate
        if adaptation == "off":
            self.gate_rate = self.curve_rate = 0.0
        longest = _longest(contexts, adaptation, copy)
        self.sources = MixtureSources(
            open_corpus(datastore, int(longest[CORPUS])),
            target=empty_table(1 << 18 if longest[TARGET] else 1),
            session=empty_table(max_contexts if longest[SESSION] else 1),
            prompt=empty_table(1 << 16 if longest[PROMPT] else 1),
            history=empty_history(max_history),
            longest=longest,
            vocabulary=np.array([datastore.vocabulary]),
            top_k=np.array([top_k]),
        )
        self.weights = new_weights()
        self.tree_size: TreeSize | None = None
        self._no_stop = np.zeros(self.budget + 1)
        self._read_nothing()

    def _read_nothing(self) -> None:
        self.scratch = new_scratch(self.budget)
        self._state = PackedState((self.sources, self.weights, self.scratch))
        self._tree: DraftTree | None = None
        self._context = np.empty(0, np.int64)
        self._learned = 0

    def sibling(self) -> BackoffDrafter:
        """A drafter for another answer that is decoded at the same time.

        The two share the corpus and, with adaptation session, what answers teach: the session's contexts, the gates
        and the calibration. Each has its own prompt, history and search. Not for several threads.
        """
        other, sources = copied(self), self.sources
        other.sources = sources._replace(
            prompt=empty_table(len(sources.prompt.marks)), history=empty_history(len(sources.history.tokens))
        )
        if self.adaptation != "session":
            other.sources = other.sources._replace(target=empty_table(len(sources.target.marks)))
            other.weights = new_weights()
        other._read_nothing()
        return other

    def setup(self, target: Target) -> None:
        recycles = self.sources.longest[TARGET] and "logits" in target.provides
        self.requires = frozenset({"logits"} if recycles else ())
        self.tree_size = tree_size(self.cost, target, self.budget)

    def begin(self, prompt_ids: np.ndarray, seed: int = 0) -> None:
        """Read the prompt. If it continues the last answer, as a conversation's next turn does, read only the new
        tokens."""
        if self.adaptation != "session":
            self.reset()
        first = self._learned
        if first > len(prompt_ids) or not np.array_equal(prompt_ids[:first], self._context):
            forget(self.sources.prompt)
            first = 0
        read_prompt(self._state, prompt_ids, first, self.keep)
        self._context, self._learned, self._tree = prompt_ids, len(prompt_ids), None

    def draft(self, context: np.ndarray) -> DraftTree:
        scratch, power = self.scratch, float(self.weights.power[0])
        n = self._learn_and_search(
            self._state,
            context,
            self._learned,
            self.keep,
            self.gate_rate,
            self.curve_rate,
            self.budget,
            self.depth,
            self._no_stop if self.tree_size is None else self.tree_size.least_probabilities ** (1.0 / power),
        )
        self._context, self._learned = context, len(context)
        probabilities = scratch.probabilities[:n] ** power
        if self.tree_size is not None:
            n = self.tree_size.choose_size(probabilities)
        self._tree = DraftTree(scratch.tokens[:n].copy(), scratch.parents[:n].copy(), probabilities[:n])
        return self._tree

    def draft_beside(
        self, context: np.ndarray, others: DraftTree, mixing: np.ndarray
    ) -> tuple[DraftTree, np.ndarray] | None:
        """The search mixes the others' nodes with its own candidates. A chain does without them."""
        if self._learn_and_search is learn_and_search_chain:
            return None
        suggestions = self.scratch.suggestions
        suggest(suggestions, others, mixing)
        tree = self.draft(context)
        suggestions.nodes[0] = 0
        return tree, self.scratch.own[: len(tree)].copy()

    def observe(self, step: Step) -> None:
        if self.tree_size is not None:
            self.tree_size.learn(len(step.tree), len(step.path))
        if self._tree is not None and self.curve_rate > 0.0:
            # Not step.tree: when a run is resumed, that holds the accepted path alone.
            drafted, accepted = self._tree, step.tree.tokens[step.path[1:]]
            learn_power(self.weights.power, drafted.probabilities, drafted.parents, drafted.tokens, accepted)
        if step.logits is None or self.adaptation == "off":
            return
        best, logits = step.top_k(ROW)
        # Normalised over the best tokens: a sum over the vocabulary would cost more than the search.
        probabilities = np.exp(logits - logits[:, :1])
        probabilities /= probabilities.sum(1, keepdims=True)
        recycle(
            self.sources.target,
            int(self.sources.longest[TARGET]),
            self._context,
            step.tree.tokens,
            step.tree.parents,
            best,
            probabilities,
        )

    def reset(self) -> None:
        for table in (self.sources.target, self.sources.session, self.sources.prompt):
            forget(table)
        clear(self.sources.history)
        self._context, self._learned = np.empty(0, np.int64), 0
        for array, initial in zip(self.weights, new_weights(), strict=True):
            array[:] = initial
        if self.tree_size is not None:
            self.tree_size.restart()

    def describe(self) -> dict[str, str]:
        return self.datastore.describe()


def _longest(contexts: Mapping[str, int], adaptation: str, copy: bool) -> np.ndarray:
    """MixtureSources.longest. Raises BadInput naming the key."""
    limits = {"corpus": (CORPUS, CONTEXTS), "target": (TARGET, LENGTHS)}
    limits |= {"session": (SESSION, LENGTHS), "prompt": (PROMPT, LENGTHS)}
    if unknown := set(contexts) - set(limits):
        raise BadInput("method.contexts", f"{', '.join(sorted(unknown))} is none of {', '.join(limits)}")
    longest = np.zeros(len(limits) + 1, np.int64)
    for name, (source, most) in limits.items():
        length = contexts.get(name, 0)
        if not 0 <= length <= most:
            raise BadInput(f"method.contexts.{name}", f"{length} must lie between 0 and {most}")
        longest[source] = length
    if adaptation != "session":
        longest[SESSION] = 0
    if adaptation == "off":
        longest[TARGET] = longest[PROMPT] = 0
    longest[-1] = int(copy and adaptation != "off")
    return longest
