"""Hub ids and local folders, as the ordinary `from_pretrained` takes them. Code of theirs is run where it is
trusted alone."""

from __future__ import annotations

import re
import shlex
from os.path import expanduser
from pathlib import Path
from typing import Any

from aded.errors import BadInput, first_line, missing_packages

COUNTED = re.compile(r"n(um)?_.*(layer|expert)s?|depth|.*_layers")
"""Keys of config.json for each of which transformers makes something, before it reads a weight."""
MOST = 4096
"""Of any of these. Models have hundreds."""


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
