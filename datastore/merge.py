"""Merges n-gram files of parts of a corpus: aded merge out=FILE INPUT INPUT ...

Separate jobs can count the parts. The merged file equals a file built from the whole corpus. Exit codes as in
datastore.build.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from aded.config.command_line import run_command
from aded.errors import BadInput
from aded.files.atomic import check_outputs
from aded.files.datastores.array_file import check_replaceable
from aded.files.datastores.ngram_file import NgramFile, open_ngrams
from aded.shown import say, show_log
from datastore.cleaning.cleaning import merged
from datastore.ngrams import FileWindows, count_windows, write_ngrams
from datastore.scratch import scratch_folder


@dataclass
class MergeSettings:
    out: str | None = None
    """The file to write."""


def merge(out: Path, inputs: Sequence[Path], *, progress: bool = False) -> None:
    """Write the summed counts of the inputs, out of core. Raises BadInput when the inputs do not fit together.

    No input may be named twice, and none may be `out`.
    """
    check_outputs([*(("inputs", path) for path in inputs), ("out", out)])
    check_replaceable("out", out)
    files = [open_ngrams(path) for path in inputs]
    for file in files:
        _check(file, files[0])
    header = {key: files[0].header[key] for key in ("tokenizer", "vocabulary")}
    for key in ("documents", "tokens", "skipped"):
        header[key] = str(sum(int(file.header.get(key, 0)) for file in files))
    prompts = np.unique(np.concatenate([file.prompts for file in files if file.prompts is not None]))
    header["prompts"] = str(len(prompts))
    header |= merged([file.header for file in files], [str(file.path) for file in files])
    header["corpus"] = "+".join(dict.fromkeys(file.header.get("corpus", "") for file in files))
    sources = dict.fromkeys(file.header.get("source", "") for file in files)
    if "" not in sources:  # all files are of a release that noted it
        header["source"] = " + ".join(sources)
    with scratch_folder({"out": out}) as folder:
        write_ngrams(
            out, count_windows(FileWindows(files), files[0].order, folder, progress=progress), header, prompts
        )


def _check(file: NgramFile, first: NgramFile) -> None:
    """Raise BadInput unless the file is whole, and its tokenizer, vocabulary and order are those of `first`."""
    file.verify()
    file.check_tokenizer(first.header["tokenizer"])
    if file.prompts is None:
        raise BadInput("inputs", f"{file.path} does not know its prompts; build it again")
    if (file.vocabulary, file.order) != (first.vocabulary, first.order):
        raise BadInput(
            "inputs",
            f"{file.path} holds n-grams of up to {file.order} of {file.vocabulary} tokens, {first.path} of up to "
            f"{first.order} of {first.vocabulary}; merge files of one kind",
        )


def run(inputs: list[str], settings: MergeSettings) -> None:
    if not settings.out or not inputs:
        raise BadInput("inputs" if settings.out else "out", "write: aded merge out=FILE INPUT INPUT ...")
    show_log()
    merge(Path(settings.out).expanduser(), [Path(path) for path in inputs], progress=sys.stderr.isatty())
    say(f"built {settings.out}")


def main() -> None:
    run_command(run, MergeSettings, __doc__ or "")
