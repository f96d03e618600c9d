"""Merges n-gram files of parts of a corpus: python -m datastore.merge out=FILE INPUT INPUT ...

Parts can so be counted by separate jobs. The result is what one build over all parts would hold. Exit codes as of
datastore.build.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from aded.command_line import exit_with_error
from aded.errors import BadInput
from aded.files.ngram_file import open_ngrams
from datastore.builder import gather
from datastore.ngrams import CountsOnDisk, write_ngrams
from datastore.runs import Runs, runs_of_file
from datastore.scratch import scratch_folder


def merge(out: Path, inputs: Sequence[Path], *, progress: bool = False) -> None:
    """Write the summed counts of the inputs, out of core. Raises BadInput when they do not fit together."""
    headers = [_checked(path, inputs[0]) for path in inputs]
    header = {key: headers[0][key] for key in ("tokenizer", "vocabulary")}
    for key in ("documents", "tokens", "skipped"):
        header[key] = str(sum(int(other.get(key, 0)) for other in headers))
    header["corpus"] = "+".join(dict.fromkeys(other.get("corpus", "") for other in headers))
    most = int(header["tokens"]) + int(header["documents"])
    with scratch_folder(out) as folder:
        counted: dict[int, CountsOnDisk] = {}
        for order in open_ngrams(inputs[0]).orders:
            runs = Runs(folder)
            for path in inputs:  # opened one at a time: mapped pages count as memory
                for run in runs_of_file(open_ngrams(path), order):
                    runs.add(run)
            counted[order] = gather(runs, order, folder, int(header["vocabulary"]), most, progress=progress)
        write_ngrams(out, counted, header)


def _checked(path: Path, model: Path) -> dict[str, str]:
    """The header of `path`, which must fit that of `model`."""
    file, other = open_ngrams(path), open_ngrams(model)
    file.check_tokenizer(other.header["tokenizer"])
    if (file.vocabulary, list(file.orders)) != (other.vocabulary, list(other.orders)):
        raise BadInput(
            "inputs",
            f"{path} holds orders {sorted(file.orders)} of {file.vocabulary} tokens, {model} holds "
            f"{sorted(other.orders)} of {other.vocabulary}; merge files of one kind",
        )
    return file.header


def _words(words: Sequence[str]) -> tuple[Path, list[Path]]:
    """`out=FILE` and the inputs, in any order."""
    outs = [word.removeprefix("out=") for word in words if word.startswith("out=")]
    inputs = [Path(word) for word in words if not word.startswith("out=")]
    if len(outs) != 1 or not outs[0] or not inputs:
        raise BadInput("out", "write: python -m datastore.merge out=FILE INPUT INPUT ...")
    return Path(outs[0]), inputs


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    try:
        out, inputs = _words(sys.argv[1:])
        merge(out, inputs, progress=sys.stderr.isatty())
        print(f"built {out}")
    except KeyboardInterrupt:
        print("interrupted; nothing was built", file=sys.stderr)
        sys.exit(130)
    except BadInput as error:
        exit_with_error(error)


if __name__ == "__main__":
    main()
