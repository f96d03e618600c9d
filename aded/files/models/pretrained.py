"""Hub ids and local folders, as the ordinary `from_pretrained` takes them, and what it passes over in silence.

Code of theirs is run where it is trusted alone. Weights that the files lack are refused, where transformers only
warns and draws random numbers; so is what it leaves out though answers are others without it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from os.path import expanduser
from pathlib import Path
from typing import Any

from aded.errors import BadInput, first_line, missing_packages
from aded.files.json_lines import LINE, json_value, read_text, typed

COUNTED = re.compile(r"n(um)?_.*(layer|expert)s?|depth|.*_layers")
"""Keys of config.json for each of which transformers makes something, before it reads a weight."""
MOST = 4096
"""Of any of these. Models have hundreds."""
SHOWN = 3
"""Names of tensors in a line."""
GENERATION = "generation_config.json"


def pretrained(
    auto: Any, path: str, key: str = "model.path", *, trust_remote_code: bool = False, **options: Any
) -> Any:
    """auto.from_pretrained(path). Raises BadInput, one line that names `key`, for everything that fails there."""
    local = Path(expanduser(path))
    looks_local = local.is_absolute() or path.startswith((".", "~")) or path.count("/") > 1
    if looks_local and not local.is_dir():
        raise BadInput(key, f"no folder {path}; give a Hub id or a folder that from_pretrained can read")
    _check_counts(str(local) if local.is_dir() else path, key, options.get("revision"))
    try:
        # Said, as else transformers asks whoever sits at the terminal.
        options["trust_remote_code"] = trust_remote_code
        return auto.from_pretrained(str(local) if local.is_dir() else path, **options)
    except Exception as error:  # damaged files fail in many ways
        if missing := missing_packages(error):
            raise BadInput(key, f"{path} needs what is not installed: pip install {shlex.join(missing)}") from None
        if isinstance(error, ImportError):
            advice = "install what it names"
        elif "trust_remote_code" in str(error):
            advice = "its code is not run; where you trust it, say model.trust_remote_code=true of a target"
        elif local.is_dir():
            advice = "complete the folder (config.json, *.safetensors, tokenizer files)"
        else:
            advice = "give a Hub id that is reachable and that your login may read, or a local folder"
        raise BadInput(key, f"{path} cannot be loaded: {first_line(error)}; {advice}") from None


def _check_counts(path: str, key: str, revision: str | None) -> None:
    """Raise BadInput for a config.json after which transformers would make layers without end."""
    from transformers import PreTrainedConfig

    try:
        settings, _ = PreTrainedConfig.get_config_dict(path, revision=revision)
    except Exception:  # `from_pretrained` says what is wrong
        return
    inside = [settings, *(value for value in settings.values() if isinstance(value, dict))]
    for name, value in (item for each in inside for item in each.items()):
        if isinstance(value, int) and value > MOST and COUNTED.fullmatch(name):
            raise BadInput(key, f"{path}: its config.json says {name}: {value:.3g}; no model has more than {MOST}")


def check_weights(model: Any, report: Mapping[str, Any], path: str, key: str) -> None:
    """Raise BadInput unless the files had each tensor of the model, in its shape, and no other for its layers.

    What stands beside the layers, such as an encoder of pictures, is another part of the checkpoint.

    report: of from_pretrained(..., output_loading_info=True).
    """
    own = [name for name in report["unexpected_keys"] if _within_layers(model, name)]
    for problem, names, remedy in (
        ("lacks", report["missing_keys"], "are the names prefixed, or a file missing?"),
        (
            "has another shape for",
            [name for name, *_ in report["mismatched_keys"]],
            "is config.json another model's?",
        ),
        ("has what the model does not read:", own, "is config.json another model's, or are adapters not merged?"),
    ):
        if names:
            shown = ", ".join(sorted(names)[:SHOWN])
            more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
            raise BadInput(key, f"{path} {problem} {shown}{more}; {remedy}")


def _within_layers(model: Any, name: str) -> bool:
    """Does a tensor's name lead into a layer, or to a layer that the model might have?"""
    modules = dict(model.named_modules())
    parts = name.split(".")
    above = next(".".join(parts[:end]) for end in range(len(parts) - 1, -1, -1) if ".".join(parts[:end]) in modules)
    return modules[above] not in (model, model.base_model, model.get_decoder())


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
