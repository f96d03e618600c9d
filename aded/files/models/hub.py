"""Hub ids and local folders, as the ordinary `from_pretrained` takes them. Code of theirs is run where it is
trusted alone."""

from __future__ import annotations

import shlex
from os.path import expanduser
from pathlib import Path
from typing import Any

from aded.errors import BadInput, first_line
from aded.extras import missing_packages


def pretrained(
    auto: Any, path: str, key: str = "model.path", *, trust_remote_code: bool = False, **options: Any
) -> Any:
    """auto.from_pretrained(path). Raises BadInput, one line that names `key`, for everything that fails there."""
    local = Path(expanduser(path))
    looks_local = local.is_absolute() or path.startswith((".", "~")) or path.count("/") > 1
    if looks_local and not local.is_dir():
        raise BadInput(key, f"no folder {path}; give a Hub id or a folder that from_pretrained can read")
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
