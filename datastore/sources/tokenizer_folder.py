"""Vocabularies of SentencePiece and tiktoken, as the folder of a tokenizer of transformers.

The contents of the files may change with the version of transformers and tokenizers. What must not change is the
tokenizer's fingerprint (aded/identity.py), which the source's yaml names.
"""

from __future__ import annotations

import base64
import shutil
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from aded.errors import BadInput
from aded.files.models.tokenizer import FILES
from aded.identity import tokenizer_fingerprint
from datastore.sources.answers import SOURCE_KEY

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

LENGTH_OF_LLAMA_2 = 4096
LENGTH_OF_TIKTOKEN = 131_072
LLAMA_3_SPECIAL_TOKENS = (
    "<|begin_of_text|>",
    "<|end_of_text|>",
    "<|reserved_special_token_0|>",
    "<|reserved_special_token_1|>",
    "<|finetune_right_pad_id|>",
    "<|step_id|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eom_id|>",
    "<|eot_id|>",
    "<|python_tag|>",
    "<|image|>",
    *(f"<|reserved_special_token_{number}|>" for number in range(2, 246)),
)
"""In the order of their ids, after models/llama3/tokenizer.py of meta-llama/llama-models."""
LLAMA_3_DIGITS = r"\p{N}{1,3}"
QWEN_DIGITS = r"\p{N}"
PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|DIGITS| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""Where a text is split into what tokens are made of: Llama 3 and Qwen differ in how many digits stay together."""


def llama_2(raw: Sequence[Path], *, fingerprint: str) -> list[bytes]:
    """tokenizer.json and tokenizer_config.json of a SentencePiece model. Raises BadInput."""
    import sentencepiece  # noqa: F401 - transformers reads the file with it
    from transformers.models.llama.tokenization_llama import LlamaTokenizer

    with TemporaryDirectory() as folder:
        shutil.copy(raw[0], Path(folder) / "tokenizer.model")
        tokenizer = LlamaTokenizer.from_pretrained(
            folder, add_bos_token=True, legacy=True, model_max_length=LENGTH_OF_LLAMA_2
        )
    return _saved(tokenizer, fingerprint)


def llama_3(raw: Sequence[Path], *, fingerprint: str) -> list[bytes]:
    """tokenizer.json and tokenizer_config.json of Llama 3's tiktoken file. Raises BadInput."""
    pattern = PATTERN.replace("DIGITS", LLAMA_3_DIGITS)
    return _tiktoken(raw[0], pattern, LLAMA_3_SPECIAL_TOKENS, LLAMA_3_SPECIAL_TOKENS[0], "<|eot_id|>", fingerprint)


def qwen(raw: Sequence[Path], *, fingerprint: str) -> list[bytes]:
    """tokenizer.json and tokenizer_config.json of Qwen's tiktoken file. Raises BadInput."""
    special = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
    return _tiktoken(raw[0], PATTERN.replace("DIGITS", QWEN_DIGITS), special, None, special[-1], fingerprint)


def _tiktoken(
    path: Path, pattern: str, special: Sequence[str], bos: str | None, eos: str, fingerprint: str
) -> list[bytes]:
    from transformers import PreTrainedTokenizerFast
    from transformers.convert_slow_tokenizer import TikTokenConverter

    class Converter(TikTokenConverter):
        # tiktoken's own reader keeps a copy in the temporary folder, and reads that one the next time.
        load_tiktoken_bpe = staticmethod(_ranks)

    converter = Converter(str(path), pattern=pattern, extra_special_tokens=list(special))
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=converter.converted(),
        bos_token=bos,
        eos_token=eos,
        clean_up_tokenization_spaces=False,
        model_max_length=LENGTH_OF_TIKTOKEN,
    )
    return _saved(tokenizer, fingerprint)


def _ranks(tiktoken_url: str) -> dict[bytes, int]:
    """Token -> rank of a tiktoken file, whose lines are a token in base64 and its rank."""
    pairs = (line.split() for line in Path(tiktoken_url).read_bytes().splitlines() if line)
    return {base64.b64decode(token): int(rank) for token, rank in pairs}


def _saved(tokenizer: PreTrainedTokenizerBase, fingerprint: str) -> list[bytes]:
    found = tokenizer_fingerprint(tokenizer)
    if found != fingerprint:
        raise BadInput(
            SOURCE_KEY, f"these versions of transformers and tokenizers read the vocabulary otherwise ({found})"
        )
    with TemporaryDirectory() as folder:
        tokenizer.save_pretrained(folder)
        return [(Path(folder) / name).read_bytes() for name in FILES]
