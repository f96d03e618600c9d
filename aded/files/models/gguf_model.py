"""A GGUF file, converted once: an ordinary folder with safetensors in bfloat16 and the tokenizer.

Later starts take seconds: they check each file's size and hash.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path

from aded.errors import naming_the_extra
from aded.files.atomic import lock_file
from aded.identity import sha256

NEEDED = {"model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json"}
MANIFEST = "manifest.json"
log = logging.getLogger(__name__)


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
