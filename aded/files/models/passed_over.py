"""What transformers passes over in silence among a model's files, though answers are others without it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from aded.errors import BadInput
from aded.files.json_lines import LINE, json_value, read_text, typed

GENERATION = "generation_config.json"


@dataclass(frozen=True)
class GenerationFile:
    """What a run reads of generation_config.json."""

    __pydantic_config__ = LINE
    eos_token_id: int | tuple[int, ...] | None = None


def check_nothing_is_passed_over(path: str, key: str, revision: str) -> None:
    """Raise BadInput, naming `key`, for a damaged generation_config.json, in whose place transformers takes what
    config.json says of EOS; and for an adapter, which transformers leaves out where PEFT is not installed.

    path: a Hub id or a folder, whose other files can be loaded. revision: of the Hub id.
    """
    from transformers.utils import find_adapter_config_file, is_peft_available

    folder = Path(path).expanduser()
    if (file := folder / GENERATION).is_file():
        value = json_value(read_text(file, key), key, str(file))
        typed(value, GenerationFile, key, str(file), "settings, with a token id or several as eos_token_id")
    place = str(folder) if folder.is_dir() else path
    if not is_peft_available() and find_adapter_config_file(place, revision=revision) is not None:
        raise BadInput(key, f"{path} has an adapter, which needs the package peft; install it, or merge the adapter")
