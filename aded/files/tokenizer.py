"""Between text and token ids: the tokenizer's fingerprint and stop strings. The loop itself knows no text."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from aded.core.decode import StopRule

_PROBE = 'def f(x):\n    return x  # 3.14, "naïve" 東京\n<|im_start|></s>'


def tokenizer_fingerprint(tokenizer: PreTrainedTokenizerBase) -> str:
    """sha256 hex of the vocabulary and of how a probe text is split: equal if and only if ids mean the same."""
    vocabulary = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    probe = tokenizer(_PROBE, add_special_tokens=False)["input_ids"]
    return hashlib.sha256(json.dumps([vocabulary, probe]).encode()).hexdigest()


def stop_rule(tokenizer: PreTrainedTokenizerBase, strings: Sequence[str]) -> StopRule | None:
    """A rule that holds once the decoded answer contains one of the strings; None without strings.

    It depends on the answer's tokens alone, so a speculative answer stops where an autoregressive one does.
    """
    if not strings:
        return None
    # A stop string of c bytes ends in the last token and starts at most c tokens before it.
    tail = max(len(string.encode()) for string in strings) + 1

    def stops(token_ids: list[int]) -> bool:
        text = tokenizer.decode(token_ids[-tail:], skip_special_tokens=False)
        return any(string in text for string in strings)

    return stops


def cut_at(text: str, strings: Sequence[str]) -> str:
    """The text before the first stop string."""
    return text[: min((at for string in strings if (at := text.find(string)) >= 0), default=len(text))]
