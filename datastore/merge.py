"""Merges n-gram files of parts of a corpus: python -m datastore.merge out=FILE INPUT INPUT ...

Separate jobs can count the parts. The merged file equals a file built from the whole corpus. Exit codes as in
datastore.build.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from aded.command_line import run_command
from aded.errors import BadInput
from aded.files.atomic import check_outputs
from aded.files.ngram_file import open_ngrams
from datastore.builder import merge_spilled
from datastore.ngrams import CountsOnDisk, write_ngrams
from datastore.scratch import scratch_folder
from datastore.spilled_counts import SpilledCounts, counts_of_file


@dataclass
class MergeSettings:
    out: str | None = None
    """The file to write."""


def merge(out: Path, inputs: Sequence[Path], *, progress: bool = False) -> None:
    """Write the summed counts of the inputs, out of core. Raises BadInput when the inputs do not fit together.

    No input may be named twice, and none may be `out`.
    """
    check_outputs([*(("inputs", path) for path in inputs), ("out", out)])
    headers = [_checked_header(path, inputs[0]) for path in inputs]
    header = {key: headers[0][key] for key in ("tokenizer", "vocabulary")}
    for key in ("documents", "tokens", "skipped"):
        header[key] = str(sum(int(other.get(key, 0)) for other in headers))
    header["corpus"] = "+".join(dict.fromkeys(other.get("corpus", "") for other in headers))
    length = int(header["tokens"]) + int(header["documents"])
    with scratch_folder([out]) as folder:
        counted: dict[int, CountsOnDisk] = {}
        for order in open_ngrams(inputs[0]).orders:
            spilled = SpilledCounts(folder)
            for path in inputs:  # one file is open at a time: mapped pages count as memory
                for part in counts_of_file(open_ngrams(path), order):
                    spilled.add(part)
            counted[order] = merge_spilled(
                spilled, order, folder, int(header["vocabulary"]), length, progress=progress
            )
        write_ngrams(out, counted, header)


def _checked_header(path: Path, first: Path) -> dict[str, str]:
    """The header of `path`. Raises BadInput unless its tokenizer, vocabulary and orders are those of `first`."""
    file, other = open_ngrams(path), open_ngrams(first)
    file.check_tokenizer(other.header["tokenizer"])
    if (file.vocabulary, list(file.orders)) != (other.vocabulary, list(other.orders)):
        raise BadInput(
            "inputs",
            f"{path} holds orders {sorted(file.orders)} of {file.vocabulary} tokens, {first} holds "
            f"{sorted(other.orders)} of {other.vocabulary}; merge files of one kind",
        )
    return file.header


def _run(inputs: list[str], settings: MergeSettings) -> None:
    if not settings.out or not inputs:
        raise BadInput(
            "inputs" if settings.out else "out", "write: python -m datastore.merge out=FILE INPUT INPUT ..."
        )
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    merge(Path(settings.out), [Path(path) for path in inputs], progress=sys.stderr.isatty())
    print(f"built {settings.out}")


def main() -> None:
    run_command(_run, MergeSettings, __doc__ or "")


if __name__ == "__main__":
    main()
