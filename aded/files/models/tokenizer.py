"""Tokenizers, of transformers and without it, and stop strings. The decoding loop itself knows no text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenizers import Tokenizer, pre_tokenizers

from aded.errors import BadInput
from aded.files.json_lines import LINE, json_value, read_text, typed
from aded.files.models.embedded_model import place_of
from aded.files.models.pretrained import pretrained
from aded.identity import PROBE, tokenizer_fingerprint

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from aded.core.decode import StopRule
    from aded.files.pack import AbsentTokenizer

FILES = ("tokenizer.json", "tokenizer_config.json")


@dataclass(frozen=True)
class AddedToken:
    """A special token in full."""

    __pydantic_config__ = LINE
    content: str


@dataclass(frozen=True)
class TokenizerConfig:
    """What is read of tokenizer_config.json."""

    __pydantic_config__ = LINE
    tokenizer_class: str = ""
    legacy: bool | None = None
    eos_token: AddedToken | str | None = None


class PlainTokenizer:
    """Texts to ids and back. It knows no chat template.

    tokenizer: of the package tokenizers.
    eos_token: the text of the token that ends an answer; None: no token does.
    """

    def __init__(self, tokenizer: Tokenizer, eos_token: str | None = None) -> None:
        self.backend, self.eos_token = tokenizer, eos_token
        self.eos_token_id = None if eos_token is None else tokenizer.token_to_id(eos_token)

    def __call__(
        self, text: str, add_special_tokens: bool = True, split_special_tokens: bool = False
    ) -> dict[str, list[int]]:
        """{"input_ids": ...}. split_special_tokens: a special token's text is text like any other."""
        self.backend.encode_special_tokens = split_special_tokens
        return {"input_ids": self.backend.encode(text, add_special_tokens=add_special_tokens).ids}

    def __len__(self) -> int:
        return self.backend.get_vocab_size()

    def decode(self, token_ids: Sequence[int], skip_special_tokens: bool = False) -> str:
        return self.backend.decode(list(token_ids), skip_special_tokens=skip_special_tokens)

    def get_vocab(self) -> dict[str, int]:
        return self.backend.get_vocab()


if TYPE_CHECKING:
    AnyTokenizer = PreTrainedTokenizerBase | PlainTokenizer | AbsentTokenizer


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
        tokenizer.decode(tokenizer(PROBE)["input_ids"])
        tokenizer_fingerprint(tokenizer)
    except Exception as error:  # files can be loaded and yet hold nonsense
        raise BadInput(key, f"the tokenizer of {folder} cannot tokenise ({type(error).__name__}: {error})") from None
    return tokenizer


def read_plain_tokenizer(name: str | Path, key: str) -> PlainTokenizer:
    """The tokenizer of a folder with tokenizer.json and tokenizer_config.json, or `embedded`.

    Raises BadInput naming `key`.
    """
    folder = Path(place_of(name, key)).expanduser()
    file, config_file = (folder / name for name in FILES)
    try:
        tokenizer = Tokenizer.from_str(read_text(file, key))
    except BadInput:
        raise
    except Exception as error:  # tokenizers raises plain Exception
        raise BadInput(key, f"{file} is no tokenizer ({error})") from None
    config = TokenizerConfig()
    if config_file.exists():
        value = json_value(read_text(config_file, key), key, str(config_file))
        config = typed(value, TokenizerConfig, key, str(config_file), "the config of a tokenizer")
    metaspace = isinstance(tokenizer.pre_tokenizer, pre_tokenizers.Metaspace)
    if metaspace and config.tokenizer_class.startswith("Llama") and not config.legacy:
        # As transformers reads it: no space is put before a text that follows a special token.
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    eos = config.eos_token
    return PlainTokenizer(tokenizer, eos.content if isinstance(eos, AddedToken) else eos)


def vocabulary_size(tokenizer: AnyTokenizer) -> int:
    """One more than the highest token id: some tokenizers leave ids out."""
    return max(len(tokenizer), 1 + max(tokenizer.get_vocab().values()))


def has_id(tokenizer: AnyTokenizer, token: int) -> bool:
    """Is the id within the vocabulary?"""
    return token < len(tokenizer) or token < vocabulary_size(tokenizer)


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
    return text[: stop_in(text, strings)]


def stop_in(text: str, strings: Sequence[str]) -> int:
    """Where the first stop string begins; without one, the text's length."""
    return min((at for string in strings if (at := text.find(string)) >= 0), default=len(text))


def answer_text(tokenizer: AnyTokenizer, token_ids: Sequence[int], strings: Sequence[str] = ()) -> str:
    """The text of an answer, without special tokens, before the first stop string, which may have some in it."""
    whole = str(tokenizer.decode(list(token_ids), skip_special_tokens=False))
    return cut_at(shown(tokenizer, token_ids, stop_in(whole, strings)), strings)


def shown(tokenizer: AnyTokenizer, token_ids: Sequence[int], end: int) -> str:
    """The first `end` characters of the tokens' whole text, without special tokens."""

    def text(count: int, skip: bool) -> str:
        return str(tokenizer.decode(list(token_ids[:count]), skip_special_tokens=skip))

    inside = len(token_ids)
    if end >= len(text(inside, skip=False)):
        return text(inside, skip=True)
    while inside and len(text(inside, skip=False)) > end:
        inside -= 1
    begun = end - len(text(inside, skip=False))  # characters of the token in which it ends
    return text(inside + 1, skip=True)[: len(text(inside, skip=True)) + begun]
