"""A tokenizer without transformers: the package tokenizers, called as a tokenizer of transformers is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Tokenizer, pre_tokenizers

from aded.errors import BadInput
from aded.files.json_lines import LINE, json_value, read_text, typed
from aded.files.models.embedded_model import place_of

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
