"""What a target is asked, whose answers heads and scorer learn from.

Of a corpus of Python source files: chat requests to complete a function, and code to continue. A corpus of
conversations has prompts of its own.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterable, Iterator
from io import StringIO

import numpy as np
from transformers import PreTrainedTokenizerBase

from aded.bench.questions import ChatTemplate
from datastore.corpora.corpus import Corpus

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
    """Token ids of prompts, as many as the documents' functions yield.

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
