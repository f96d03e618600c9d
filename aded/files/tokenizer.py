"""Tokenizers: loading, fingerprints and stop strings. The decoding loop itself knows no text."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from aded.errors import BadInput
from aded.files.embedded_model import place_of
from aded.files.hub import pretrained
from aded.files.pack import AbsentTokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from aded.core.decode import StopRule
    from aded.files.plain_tokenizer import PlainTokenizer

    AnyTokenizer = PreTrainedTokenizerBase | PlainTokenizer | AbsentTokenizer

_fingerprints: WeakKeyDictionary[Any, tuple[int, str]] = WeakKeyDictionary()
"""Tokenizer -> its number of tokens then, and its fingerprint."""
_PROBE = 'def f(x):\n    return x  # 3.14, "naïve" 東京\n<|im_start|></s>'


def load_tokenizer(
    name: str | Path, cache: str | Path | None = None, key: str = "tokenizer", **options: Any
) -> PreTrainedTokenizerBase:
    """The tokenizer of a model, tried on a text. Raises BadInput naming `key`.

    name, cache: as place_of takes them.
    options: of from_pretrained.
    """
    from transformers import AutoTokenizer  # takes seconds to import, and most commands load no tokenizer

    folder = place_of(name, key, cache)
    tokenizer: PreTrainedTokenizerBase = pretrained(AutoTokenizer, folder, key, **options)
    try:
        tokenizer.decode(tokenizer(_PROBE)["input_ids"])
        tokenizer_fingerprint(tokenizer)
    except Exception as error:  # files can be loaded and yet hold nonsense
        raise BadInput(key, f"the tokenizer of {folder} cannot tokenise ({type(error).__name__}: {error})") from None
    return tokenizer


def tokenizer_fingerprint(tokenizer: AnyTokenizer) -> str:
    """sha256 hex of the vocabulary and of a probe text's token ids: equal if and only if ids mean the same."""
    if isinstance(tokenizer, AbsentTokenizer):
        return tokenizer.fingerprint
    vocabulary = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    probe = tokenizer(_PROBE, add_special_tokens=False)["input_ids"]
    return hashlib.sha256(json.dumps([vocabulary, probe]).encode()).hexdigest()


def known_fingerprint(tokenizer: AnyTokenizer) -> str:
    """tokenizer_fingerprint, computed once for a tokenizer, as it takes 0.1 s."""
    size, known = _fingerprints.get(tokenizer, (-1, ""))
    if size != len(tokenizer):
        known = tokenizer_fingerprint(tokenizer)
        _fingerprints[tokenizer] = (len(tokenizer), known)
    return known


def stop_rule(tokenizer: AnyTokenizer, strings: Sequence[str]) -> StopRule | None:
    """A rule that is true once the decoded answer contains one of the strings; None without strings.

    The rule depends on the answer's tokens alone: speculative and autoregressive decoding stop at the same token.
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
