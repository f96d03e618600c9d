"""Prints what a datastore file contains: aded info FILE [tokenizer=NAME_OR_DIR] [top=N] [--verify]

Its header, the benchmarks' questions that its corpus holds, then its N most frequent entries: as text with a
tokenizer, as token ids without. A suffix file is read whole for that, and with --verify any file; a damaged one is
refused. A run verifies the blocks that it reads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tabulate import tabulate

from aded.config.command_line import run_command
from aded.errors import BadInput
from aded.files.datastores.array_file import DATASTORE_KEY
from aded.files.datastores.cleaning import Check, contamination_of
from aded.files.datastores.ngram_file import NgramFile
from aded.files.datastores.suffix_file import SuffixFile
from aded.files.models.tokenizer import load_tokenizer
from aded.identity import tokenizer_fingerprint
from aded.settings import Positive
from aded.shown import say
from datastore.cleaning.cleaning import described
from datastore.ngrams import CHUNK
from datastore.open import open_datastore

Decode = Callable[[Sequence[int]], str]
"""Token ids to text that is ready to print."""


@dataclass
class InfoSettings:
    tokenizer: str | None = None
    """A Hub id, a folder or `embedded`: the tokenizer that the file was built with; None: print token ids."""
    top: Positive = 10
    """Entries to print per table."""
    verify: bool = False
    """Read the whole file and verify each block."""


def describe(path: Path, tokenizer: str | None, top: int, verify: bool = False) -> str:
    """The tables, ready to print. Raises BadInput. The parameters are those of InfoSettings."""
    file = open_datastore(path)
    if verify or isinstance(file, SuffixFile):
        file.verify()
    decode: Decode = lambda ids: " ".join(map(str, ids))  # noqa: E731
    if tokenizer is not None:
        loaded = load_tokenizer(tokenizer)
        file.check_tokenizer(tokenizer_fingerprint(loaded))
        decode = lambda ids: repr(loaded.decode(list(ids)))  # noqa: E731
    facts = {**described(file.header, str(path)), "bytes": str(path.stat().st_size)}
    tables = [tabulate(facts.items(), disable_numparse=True)]
    checks = contamination_of(file.header, DATASTORE_KEY, str(path))
    tables += [_met_questions(name, check) for name, check in checks.items() if check.met]
    if isinstance(file, NgramFile):
        tables += [_frequent_ngrams(file, order, top, decode) for order in range(1, file.order + 1)]
    elif isinstance(file, SuffixFile):
        tables.append(_frequent_tokens(file, top, decode))
    return "\n\n".join(tables)


def _met_questions(benchmark: str, check: Check) -> str:
    where = "left out" if check.left_out else "in the file"
    title = f"{len(check.met)} of {check.questions} questions of {benchmark} were met; the conversations are {where}:"
    return f"{title}\n{tabulate(check.met.items(), ('question', 'conversations'), disable_numparse=True)}"


def _frequent_ngrams(file: NgramFile, order: int, top: int, decode: Decode) -> str:
    level = file.level(order)
    title = f"{len(level)} n-grams of order {order}; the most frequent:"
    return _frequent(title, "n-gram", file.times(level), top, lambda number: decode(file.ngram(level[number])))


def _frequent_tokens(file: SuffixFile, top: int, decode: Decode) -> str:
    times = np.zeros(file.vocabulary + 1, np.int64)
    for start in range(0, len(file.tokens), CHUNK):
        times += np.bincount(file.tokens[start : start + CHUNK], minlength=file.vocabulary + 1)
    title = f"{len(file.suffixes)} suffixes; the most frequent tokens:"
    return _frequent(title, "token", times[:-1], top, lambda token: decode([token]))


def _frequent(title: str, what: str, times: np.ndarray, top: int, entry: Callable[[int], str]) -> str:
    """The entries that occur most often, int64 [m] times: the most frequent first, equal ones by number."""
    least = max(1, np.partition(times, -top)[-top]) if len(times) > top else 1
    found = np.flatnonzero(times >= least)
    found = found[np.argsort(-times[found], kind="stable")][:top]
    rows = [(times[number], entry(int(number))) for number in found]
    return f"{title}\n{tabulate(rows, ('times', what), disable_numparse=True)}"


def run(files: list[str], settings: InfoSettings) -> None:
    if len(files) != 1:
        raise BadInput("FILE", "name one datastore file: aded info FILE [tokenizer=NAME_OR_DIR] [top=N]")
    say(describe(Path(files[0]).expanduser(), settings.tokenizer, settings.top, settings.verify))


def main() -> None:
    run_command(run, InfoSettings, __doc__ or "")
