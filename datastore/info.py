"""What a datastore file holds: python -m datastore.info FILE [tokenizer=NAME_OR_DIR] [top=N]

Its header, then its commonest entries: as text with the tokenizer, as token ids without.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from tabulate import tabulate

from aded.command_line import exit_with_error
from aded.errors import BadInput
from aded.files.array_file import format_of
from aded.files.ngram_file import NgramFile, open_ngrams
from aded.files.suffix_file import FORMAT as SUFFIXES
from aded.files.suffix_file import SuffixFile, open_suffixes
from aded.files.tokenizer import tokenizer_fingerprint
from datastore.build import load_tokenizer

Told = Callable[[Sequence[int]], str]


def describe(path: Path, tokenizer: str | None, top: int) -> str:
    """The tables, ready to print."""
    file = open_suffixes(path) if format_of(path) == SUFFIXES else open_ngrams(path)
    told: Told = lambda ids: " ".join(map(str, ids))  # noqa: E731
    if tokenizer is not None:
        loaded = load_tokenizer(tokenizer)
        file.check_tokenizer(tokenizer_fingerprint(loaded))
        told = lambda ids: repr(loaded.decode(list(ids)))  # noqa: E731
    facts = [*file.header.items(), ("bytes", str(path.stat().st_size))]
    tables = [tabulate(facts, disable_numparse=True)]
    if isinstance(file, NgramFile):
        tables += [_commonest_ngrams(file, order, top, told) for order in sorted(file.orders)]
    else:
        tables.append(_commonest_tokens(file, top, told))
    return "\n\n".join(tables)


def _commonest_ngrams(file: NgramFile, order: int, top: int, told: Told) -> str:
    counts = file.counts(order)
    numbers = _largest(counts.times, top)
    title = f"order {order}: {len(counts.rest)} contexts, {len(counts.token)} n-grams; the commonest:"
    entries = [(int(counts.times[number]), told(file.ngram(order, number))) for number in numbers]
    return f"{title}\n{tabulate(entries, ('times', 'n-gram'), disable_numparse=True)}"


def _commonest_tokens(file: SuffixFile, top: int, told: Told) -> str:
    times = np.bincount(file.tokens, minlength=file.vocabulary)[: file.vocabulary]
    title = f"{len(file.suffixes)} suffixes; the commonest tokens:"
    entries = [(int(times[token]), told([token])) for token in _largest(times, top) if times[token]]
    return f"{title}\n{tabulate(entries, ('times', 'token'), disable_numparse=True)}"


def _largest(values: np.ndarray, top: int) -> list[int]:
    """Positions of the `top` largest values, the largest first, equal ones in order."""
    if not len(values):
        return []
    bar = np.partition(values, max(0, len(values) - top))[max(0, len(values) - top)]
    found = np.flatnonzero(values >= bar)
    return found[np.argsort(-values[found].astype(np.int64), kind="stable")][:top].tolist()


def _words(words: Sequence[str]) -> tuple[Path, str | None, int]:
    keys = dict(word.split("=", 1) for word in words if word.startswith(("tokenizer=", "top=")))
    files = [word for word in words if not word.startswith(("tokenizer=", "top="))]
    top = keys.get("top", "10")
    if len(files) != 1 or not top.isdecimal() or int(top) < 1:
        raise BadInput("FILE", "write: python -m datastore.info FILE [tokenizer=NAME_OR_DIR] [top=N]")
    return Path(files[0]), keys.get("tokenizer"), int(top)


def main() -> None:
    try:
        print(describe(*_words(sys.argv[1:])))
    except BadInput as error:
        exit_with_error(error)


if __name__ == "__main__":
    main()
