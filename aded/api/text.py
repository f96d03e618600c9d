"""A prompt in any form, and the text of an answer that is still being written."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from aded.bench.questions import ids_of_messages
from aded.errors import BadInput, check_utf8
from aded.files.models.tokenizer import answer_text, has_id, shown, stop_in
from aded.settings import Text, checked

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from aded.files.models.tokenizer import AnyTokenizer

PROMPT_KEY = "prompt"
NO_PROMPT = "must be text, token ids, or a list of {'role': ..., 'content': ...}"
BYTE = re.compile(r"<0x[0-9A-Fa-f]{2}>")
"""A token that is one byte, of a tokenizer that falls back to bytes."""
CLEANED = 3
"""A tokenizer that cleans up spaces may change so many characters at the end: " n'" becomes "n't"."""


def check_is_tokenizer(tokenizer: Any) -> None:
    """Raises BadInput for what is no tokenizer of transformers."""
    from transformers import PreTrainedTokenizerBase

    if not isinstance(tokenizer, PreTrainedTokenizerBase):
        raise BadInput("tokenizer", f"{type(tokenizer).__name__} is no tokenizer of transformers")


def check_known(ids: np.ndarray, vocabulary: int) -> None:
    """Raises BadInput for a token of a prompt, int64 [m], that a model of so many tokens does not have."""
    if ids.max() >= vocabulary:
        raise BadInput(
            PROMPT_KEY, f"has token {ids.max()}, and the model has {vocabulary}; is it the model's tokenizer?"
        )


def prompt_ids(
    prompt: Any, tokenizer: AnyTokenizer, chat_template_kwargs: Mapping[str, Any] | None = None
) -> np.ndarray:
    """The token ids, int64 [m], m >= 1. Raises BadInput.

    prompt: text; ids as a list, an array or a tensor, [m] or [1, m]; what a tokenizer returned; or chat messages, a
        list of {"role": ..., "content": ...}, to which the tokenizer's chat template is applied.
    chat_template_kwargs: what the chat template reads beside messages.
    """
    if chat_template_kwargs and not _is_chat(prompt):
        raise BadInput("chat_template_kwargs", "goes with chat messages, and the prompt is none")
    if isinstance(prompt, Mapping):
        if "input_ids" not in prompt:
            raise BadInput(PROMPT_KEY, "has no input_ids; messages are a list of {'role': ..., 'content': ...}")
        prompt = prompt["input_ids"]
    if isinstance(prompt, str):
        check_utf8(prompt, PROMPT_KEY)
        ids = tokenizer(prompt)["input_ids"]
    elif _is_chat(prompt):
        ids = ids_of_messages(prompt, tokenizer, PROMPT_KEY, "it", chat_template_kwargs=chat_template_kwargs)
    else:
        ids = prompt
    try:
        found = np.asarray(ids.cpu() if hasattr(ids, "cpu") else ids)
    except TypeError:  # a tensor of floating-point numbers that numpy lacks
        raise BadInput(PROMPT_KEY, NO_PROMPT) from None
    except ValueError:  # rows of different lengths
        raise BadInput(PROMPT_KEY, "is a batch; give one prompt at a time") from None
    if found.ndim == 2 and len(found) > 1:
        raise BadInput(PROMPT_KEY, f"is a batch of {len(found)}; give one prompt at a time")
    if found.ndim not in (1, 2):
        raise BadInput(PROMPT_KEY, NO_PROMPT)
    found = found.reshape(-1)
    if len(found) == 0:
        raise BadInput(PROMPT_KEY, "has no token; give at least one, such as the tokenizer's bos_token")
    if not np.issubdtype(found.dtype, np.integer):
        raise BadInput(PROMPT_KEY, NO_PROMPT)
    if found.min() < 0 or not has_id(tokenizer, int(found.max())):
        raise BadInput(
            PROMPT_KEY,
            f"has token {found.max() if found.min() >= 0 else found.min()}; the tokenizer has {len(tokenizer)}",
        )
    return found.astype(np.int64)


def _is_chat(prompt: Any) -> bool:
    return isinstance(prompt, Sequence) and bool(prompt) and isinstance(prompt[0], Mapping)


def checked_stops(stop: str | Sequence[str]) -> list[str]:
    """The strings before which an answer ends; one of them may be given alone. Raises BadInput."""
    stops: list[str] = checked([stop] if isinstance(stop, str) else stop, list[Text], "stop")
    return stops


class TextStream:
    """Pieces of an answer's text, which together are `answer_text`: only what no later token can change."""

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
