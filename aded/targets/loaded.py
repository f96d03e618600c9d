"""What loading a model returns."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from aded.core.target import Target

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class Loaded(NamedTuple):
    """A target, its tokenizer, and the tokens that end an answer."""

    target: Target
    tokenizer: PreTrainedTokenizerBase
    eos_token_ids: frozenset[int]
