"""The text of an answer that is still being written: only what no later token can change."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from aded.files.models.tokenizer import answer_text, shown, stop_in
from aded.settings import Text, checked

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

BYTE = re.compile(r"<0x[0-9A-Fa-f]{2}>")
"""A token that is one byte, of a tokenizer that falls back to bytes."""
CLEANED = 3
"""A tokenizer that cleans up spaces may change so many characters at the end: " n'" becomes "n't"."""


def checked_stops(stop: str | Sequence[str]) -> list[str]:
    """The strings before which an answer ends; one of them may be given alone. Raises BadInput."""
    stops: list[str] = checked([stop] if isinstance(stop, str) else stop, list[Text], "stop")
    return stops


class TextStream:
    """Pieces of an answer's text, which together are `answer_text`."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, stop: Sequence[str] = ()) -> None:
        self._tokenizer, self._stop = tokenizer, stop
        self._given = 0
        """Characters."""
        self._held = CLEANED if getattr(tokenizer, "clean_up_tokenization_spaces", False) else 0

    def more(self, token_ids: Sequence[int]) -> str:
        """What can be said of the answer so far, beyond what was."""
        return self._beyond(self._certain(token_ids))

    def rest(self, token_ids: Sequence[int]) -> str:
        """What is left, as the answer is complete."""
        return self._beyond(answer_text(self._tokenizer, token_ids, self._stop))

    def _beyond(self, text: str) -> str:
        piece = text[self._given :]
        self._given += len(piece)
        return piece

    def _certain(self, token_ids: Sequence[int]) -> str:
        """The beginning of the text that stays, whatever follows."""
        end = len(token_ids)
        # Bytes are text once their character is whole; until then a decoder may show all of a run as U+FFFD.
        while end and BYTE.fullmatch(str(self._tokenizer.convert_ids_to_tokens(token_ids[end - 1]))):
            end -= 1
        whole = str(self._tokenizer.decode(list(token_ids[:end]), skip_special_tokens=False)).rstrip("\ufffd")
        at = stop_in(whole, self._stop)
        text = shown(self._tokenizer, token_ids[:end], at - (at == len(whole)) * _begun(whole, self._stop))
        return text.rstrip("\ufffd")[: -self._held or None]


def _begun(text: str, stop: Sequence[str]) -> int:
    """Characters at the end of the text that may be the beginning of a stop string."""
    return max(
        (n for string in stop for n in range(1, min(len(string), len(text) + 1)) if text.endswith(string[:n])),
        default=0,
    )
