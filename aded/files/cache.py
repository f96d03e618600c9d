"""The folder that keeps what is made once: converted models, compiled kernels, indices."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """ADED_CACHE, or ~/.cache/aded; the same as `paths.cache` of a run."""
    return Path(os.environ.get("ADED_CACHE") or "~/.cache/aded").expanduser()
