"""ADED beyond the paper: an adaptive back-off model of the target's output in place of the tri-gram matrix.

Its experts are corpus n-grams of several orders, the tokens of prompt, output and earlier answers, copies of long
matches, the target's own distributions at all verified nodes, the passages of a corpus nearest to the text, and a
language model of table look-ups. A network, learned from the answers of other models, weighs their evidence. The
draft tree holds the most probable paths, and has the size at which this machine decodes fastest.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from copy import copy as shallow_copy
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from aded.compiled import new_record
from aded.core.drafter import Drafter, Step, Teacher
from aded.core.target import Target
from aded.core.tree import DraftTree
from aded.drafters.backoff.candidates import (
    CORPUS,
    LENGTHS,
    NEAREST,
    PROMPT,
    SESSION,
    SOURCE_NAMES,
    SOURCES,
    TARGET,
    set_external_candidates,
)
from aded.drafters.backoff.contexts import (
    LONGEST_CONTEXT,
    ROW,
    clear_table,
    empty_table,
    open_beside,
    open_corpus,
    reset_table,
)
from aded.drafters.backoff.experts import OPTIONS, Experts
from aded.drafters.backoff.history import clear_history, clear_unigrams, empty_history, empty_unigrams
from aded.drafters.backoff.learning import NumbaState, chain_below, read_decided, read_prompt, recycle, tree_below
from aded.drafters.backoff.lookup import lookup_of, no_lookup
from aded.drafters.backoff.retrieval import (
    clear_text,
    forked,
    open_nearest,
    retrieve_for_answer,
    retrieve_for_prompt,
)
from aded.drafters.backoff.scorer import SHIPPED, read_scorer
from aded.drafters.backoff.tree_search import new_scratch
from aded.errors import BadInput, naming
from aded.files.datastores.lookup_file import open_lookup
from aded.files.datastores.ngram_file import NgramFile
from aded.files.datastores.suffix_file import open_suffixes
from aded.identity import tokenizer_fingerprint
from aded.settings import Budget, Count, FilePath, Positive, Scope


def longest_contexts(contexts: Mapping[str, int], adaptation: str) -> np.ndarray:
    """int64 [SOURCES]: the longest context of each source. Raises BadInput naming the key."""
    if unknown := set(contexts) - set(SOURCE_NAMES):
        raise BadInput("method.contexts", f"{', '.join(sorted(unknown))} is none of {', '.join(SOURCE_NAMES)}")
    longest = np.zeros(SOURCES, np.int64)
    for source, name in enumerate(SOURCE_NAMES):
        length, most = contexts.get(name, 0), LONGEST_CONTEXT if source == CORPUS else LENGTHS
        if not 0 <= length <= most:
            raise BadInput(f"method.contexts.{name}", f"{length} must lie between 0 and {most}")
        longest[source] = length
    if adaptation != "session":
        longest[SESSION] = 0
    if adaptation == "off":
        longest[TARGET] = longest[PROMPT] = longest[NEAREST] = 0
    return longest


def known_by(lengths: np.ndarray, copied: bool) -> str:
    """Who drafted a node, see BackoffDrafter.node_parts. lengths: int64 [SOURCES], 0: the source did not know it."""
    order = np.argsort(-lengths, kind="stable")
    known = [f"{SOURCE_NAMES[source]} {lengths[source]}" for source in order if lengths[source]]
    return ", ".join([*known, "copy"] if copied else known) or "skip-gram or unigram"


LOOKUP_PAYS = 8e-3
"""Seconds of a step from which the look-up model is asked: it adds up to 0.3 ms, and 4 % accepted tokens."""


class BackoffDrafter(Drafter):
    """At each step: read the tokens decided since the last step, then search below them.

    datastore: corpus n-grams of up to contexts["corpus"] + 1 tokens
    budget: most drafted nodes per step
    adaptation: how long learned state is kept: off (nothing is learned), prompt (cleared at each prompt), session
        (kept across questions)
    contexts: longest context in tokens per source, 0: the source is off. Sources: corpus (up to 4), target, session,
        prompt and nearest (up to 6)
    retrieval: the suffix file of a corpus, whose passages nearest to the text are read like the prompt; None: none.
        It adds about 0.2 ms to a draft, which pays where a step of the target takes more than about 16 ms
    copy: copy what followed the longest match
    skip_grams: contexts of some of the last three tokens, in session and prompt
    unigrams: draft the most frequent tokens where nothing better is known, and weigh how often each token occurred
    top_k: successors per corpus context
    keep: factor by which the weights of a context's successors shrink each time a token follows it
    scorer: the weights of the network that weighs all evidence, of scripts.train.scorer; the shipped ones were
        learned from answers to Arena-Hard's questions
    lookup: the look-up file of a corpus (aded build lookup=FILE), a small language model that reads the text and the
        probable nodes; None: none. Where the drafter's trees are cut to what pays, it is only asked where a step
        takes long enough to pay for it; as a part of a hybrid it is always asked
    depth: most drafted tokens on one path
    shape: of a draft: tree (the most probable nodes), or chain (below each node its most probable token alone)
    max_contexts: contexts of the session's table, 72 bytes each
    max_history: tokens that can be copied from, 20 bytes each
    """

    learned_from = frozenset({"a corpus", "other models' answers"})

    def __init__(
        self,
        datastore: NgramFile,
        *,
        budget: Budget = 64,
        adaptation: Scope = "session",
        contexts: Mapping[str, int],
        retrieval: FilePath | None = None,
        copy: bool = True,
        skip_grams: bool = True,
        unigrams: bool = True,
        top_k: Count = 24,
        keep: Annotated[float, Field(gt=0, le=1)] = 0.9,
        scorer: FilePath = SHIPPED,
        lookup: FilePath | None = None,
        depth: Count = 32,
        shape: Literal["tree", "chain"] = "tree",
        max_contexts: Positive = 1 << 20,
        max_history: Positive = 1 << 20,
    ) -> None:
        self.datastore, self.adaptation = datastore, adaptation
        self.budget, self.depth = budget, depth
        self.keep, self.chain = keep, shape == "chain"
        longest = longest_contexts(contexts, adaptation)
        if not datastore.has_ngrams:
            longest[CORPUS] = 0
        self.lookup = None if lookup is None else open_beside("method.lookup", lookup, open_lookup, datastore)
        learns = adaptation != "off"
        self.retrieval_file = None
        if retrieval and learns and longest[NEAREST]:
            self.retrieval_file = open_beside("method.retrieval", retrieval, open_suffixes, datastore)
        if self.retrieval_file is None:
            longest[NEAREST] = 0
        self.nearest = open_nearest(self.retrieval_file)
        self.experts = Experts(
            open_corpus(datastore, int(longest[CORPUS]), top_k),
            target=empty_table(1 << 18 if longest[TARGET] else 1),
            session=empty_table(max_contexts if longest[SESSION] else 1),
            prompt=empty_table(1 << 18 if longest[PROMPT] else 1),
            nearest=self.nearest.table,
            history=empty_history(max_history),
            unigrams=empty_unigrams(),
            lookup=no_lookup() if self.lookup is None else lookup_of(self.lookup.model),
            options=new_record(OPTIONS),
        )
        options = self.experts.options
        options.longest[:], options.vocabulary = longest, datastore.vocabulary
        options.copies, options.skip_grams = copy and learns, skip_grams and learns
        options.unigrams = unigrams and learns
        options.lookup = self.lookup is not None
        self._scorers = {
            asked: read_scorer(scorer, self.retrieval_file is not None, asked)
            for asked in {False, self.lookup is not None}
        }
        reads_corpus = bool(longest[CORPUS]) or self.retrieval_file is not None or self.lookup is not None
        teachers: frozenset[Teacher] = frozenset({"a corpus"} if reads_corpus else ())
        self.learned_from = teachers | {"other models' answers"}
        self._no_stop = np.zeros(self.budget + 1)
        self._read_nothing()

    def _read_nothing(self) -> None:
        self.scratch = new_scratch(self.budget)
        self._ask_lookup(bool(self.experts.options.lookup))
        self.context, self._latest_draft = np.empty(0, np.int64), DraftTree.root(0)
        self._observed: Step | None = None
        self._undrafted = list[int]()
        """Tokens decided since the latest draft."""

    def _ask_lookup(self, asked: bool) -> None:
        """Is the look-up model asked, if there is one?"""
        self.experts.options.lookup = asked and self.lookup is not None
        scorer, self.scorer_source = self._scorers[bool(self.experts.options.lookup)]
        self.state = NumbaState((self.experts, scorer, self.scratch))

    def fork(self) -> BackoffDrafter:
        """A drafter for another answer that is decoded at the same time.

        The two share the corpus and, with adaptation session, the contexts of session and target. Each has its own
        prompt, history and search. Not for several threads.
        """
        other, experts = shallow_copy(self), self.experts
        other.nearest = forked(self.nearest)
        other.experts = experts._replace(
            prompt=empty_table(len(experts.prompt.tags)),
            nearest=other.nearest.table,
            history=empty_history(len(experts.history.tokens)),
            unigrams=empty_unigrams(),
        )
        if self.adaptation != "session":
            other.experts = other.experts._replace(target=empty_table(len(experts.target.tags)))
        other._read_nothing()
        return other

    def check_tokenizer(self, tokenizer: Any) -> None:
        for key, file in (("method.lookup", self.lookup), ("method.retrieval", self.retrieval_file)):
            if file is not None:
                with naming(key):
                    file.check_tokenizer(tokenizer_fingerprint(tokenizer))

    def setup(self, target: Target) -> None:
        recycles = self.experts.options.longest[TARGET] and "logits" in target.provides
        self.requires = frozenset({"logits"} if recycles else ())
        self._ask_lookup(self.tree_sizer is None or self.tree_sizer.cost.seconds[0] >= LOOKUP_PAYS)

    def end_at(self, eos_token_ids: Collection[int]) -> None:
        ends = np.array(sorted(eos_token_ids), np.int64)
        if not np.array_equal(ends, self.scratch.ends):
            self.scratch = self.scratch._replace(ends=ends)
            self._ask_lookup(bool(self.experts.options.lookup))

    def begin(self, prompt_ids: np.ndarray, seed: int = 0) -> None:
        """Read the prompt. If it continues the last answer, as a conversation's next turn does, read only the new
        tokens."""
        self._observed, self._undrafted = None, []
        if self.adaptation != "session":
            self.reset()
        first = len(self.context)
        if first > len(prompt_ids) or not np.array_equal(prompt_ids[:first], self.context):
            clear_table(self.experts.prompt)
            self.experts.unigrams.prompt[:] = 0
            clear_text(self.nearest)
            first = 0
        read_prompt(self.state, prompt_ids, first, self.keep)
        if self.retrieval_file is not None:
            retrieve_for_prompt(self.nearest, prompt_ids, first, self.experts.options.longest[NEAREST])
        self.context = prompt_ids

    def draft(self, context: np.ndarray) -> DraftTree:
        nodes = self.scratch.nodes
        self._read(context)
        least = self._no_stop if self.tree_sizer is None else self.tree_sizer.least_probabilities
        n = (chain_below if self.chain else tree_below)(self.state, self.budget, self.depth, least)
        if self.datastore is not None:
            self.datastore.check_blocks()
        if self.retrieval_file is not None:
            with naming("method.retrieval"):
                self.retrieval_file.check_blocks()
        tokens, parents, reached = (nodes[name][:n].copy() for name in ("token", "parent", "probability"))
        self._latest_draft = DraftTree(tokens, parents, reached)
        return self._latest_draft

    def _read(self, context: np.ndarray) -> None:
        """Learn what the target decided since the latest draft. context: int64 [m], up to there."""
        first = len(self.context)
        self.learn_observed(context)
        read_decided(self.state, context, first, self.keep)
        if self.retrieval_file is not None:
            retrieve_for_answer(self.nearest, context, first, self.experts.options.longest[NEAREST])
        self.context, self._undrafted = context, []

    def draft_with_candidates(
        self, context: np.ndarray, others: DraftTree, mixing: np.ndarray
    ) -> tuple[DraftTree, np.ndarray] | None:
        """The search mixes the others' nodes with its own candidates. A chain does without them."""
        if self.chain:
            return None
        external = self.scratch.external
        set_external_candidates(external, others, mixing)
        tree = self.draft(context)
        external.nodes = 0
        return tree, self.scratch.nodes["own"][: len(tree)].copy()

    def observe(self, step: Step) -> None:
        """Keep the step for the next draft, which reads it. Of steps without a draft only the tokens are read."""
        self._observed = step
        self._undrafted += step.new_tokens

    def end(self) -> None:
        self._read(np.append(self.context, np.array(self._undrafted, np.int64)))

    def learn_observed(self, context: np.ndarray) -> None:
        """Recycle the target's own probabilities at the nodes of the latest step. context: behind its tokens."""
        step, self._observed = self._observed, None
        if step is None or step.logits is None or not self.experts.options.longest[TARGET]:
            return
        best, logits = step.top_k(ROW)
        # Normalised over the best tokens: a sum over the vocabulary would cost more than the search.
        probabilities = np.exp(logits - logits[:, :1])
        probabilities /= probabilities.sum(1, keepdims=True)
        recycle(
            self.experts.target,
            int(self.experts.options.longest[TARGET]),
            context[: len(context) - len(step.new_tokens)],
            step.tree.tokens,
            step.tree.parents,
            best,
            probabilities,
        )

    def node_parts(self, tree: DraftTree) -> list[str]:
        """Each source that knew the token, with the tokens of the longest context after which it did, longest first.

        `copy` is the longest match; `skip-gram or unigram` stands where neither a source nor the match drafted the
        node.
        """
        nodes, drafted = self.scratch.nodes, self._latest_draft.find(tree)[1:]
        lengths, copied = nodes["known_lengths"], nodes["match"][:, 0] >= 0
        return ["", *(known_by(lengths[node], copied[node]) if node >= 0 else "" for node in drafted)]

    def reset(self) -> None:
        for table in (self.experts.target, self.experts.session, self.experts.prompt):
            reset_table(table)
        clear_text(self.nearest)
        clear_history(self.experts.history)
        clear_unigrams(self.experts.unigrams)
        self.context = np.empty(0, np.int64)

    def describe(self) -> dict[str, str]:
        facts = {**self.datastore.describe(), "scorer": self.scorer_source}
        if self.lookup is not None and self.experts.options.lookup:
            facts["lookup"] = self.lookup.header["fingerprint"]
        if self.retrieval_file is not None:
            facts["retrieval"] = self.retrieval_file.header["fingerprint"]
            # A check of one corpus for a benchmark's questions says nothing of another corpus.
            if (key := "datastore_questions") in facts and facts[key] != self.retrieval_file.describe().get(key):
                del facts[key]
        return facts
