"""Which conversations of a corpus stay: the settings `clean`, `exclude` and `report`, and what comes of them.

Degenerate texts repeat a character or phrase without end, as models write when they do not stop. The measure is the
compression ratio, as Whisper's decoder takes it to find its own repetitions (arXiv 2212.04356, section 4.5). It
depends on no language and no notion of a word. Whisper's threshold of 2.4 is for half a minute of speech. Code,
tables and long texts compress as well as that, so the threshold here is higher: of 57,000 chat messages half were
below 2.0 and 99 % below 4.5; lists and tables with few words came to 8.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from aded.errors import BadInput, literal
from aded.files.atomic import Named
from aded.files.datastores.array_file import DATASTORE_KEY
from aded.files.datastores.cleaning import (
    CONTAMINATION,
    FINGERPRINT_PREFIX,
    LEFT_OUT,
    NOT_CHECKED,
    contamination_in_short,
    contamination_of,
    contamination_to_header,
    left_out_in_short,
    left_out_of,
    left_out_to_header,
    summed,
)
from aded.identity import file_fingerprint
from aded.settings import Text
from datastore.cleaning.near_duplicates import NearDuplicates, shingles
from datastore.cleaning.overlap import Overlap, asked_texts

RATIO = 10
"""Bytes over compressed bytes."""
END = 1000
"""Bytes at the end that count by themselves, since a text may repeat itself after a good beginning."""


def is_degenerate(text: str) -> bool:
    """Does the text, or its end, compress to less than a tenth? A text of 100 bytes never does."""
    whole = text.encode()
    return any(len(part) > RATIO * len(zlib.compress(part, 1)) for part in (whole, whole[-END:]))


Rule = Literal["near_duplicates", "degenerate"]
Rules = Sequence[Rule]
Benchmarks = Sequence[Text]


@dataclass(frozen=True)
class Cleaning:
    """Which conversations to leave out, and which to count.

    clean: the rules to apply.
    exclude: benchmarks, as NAME or NAME:FILE; conversations that hold a question of theirs are left out.
    report: benchmarks whose questions are counted and stay.
    """

    clean: Rules = ()
    exclude: Benchmarks = ()
    report: Benchmarks = ()

    def question_files(self) -> list[Named]:
        """The files that are named, each with its key."""
        choices = [("corpus.exclude", one) for one in self.exclude] + [("corpus.report", one) for one in self.report]
        return [(key, one.partition(":")[2]) for key, one in choices]

    @property
    def settings(self) -> dict[str, list[str]]:
        """What decides which conversations stay; empty where all do. A file counts by its contents."""
        chosen = {"clean": self.clean, "exclude": self.exclude, "report": self.report}
        return {name: list(map(_by_contents, values)) for name, values in chosen.items() if values}


def _by_contents(choice: str) -> str:
    """NAME:FILE with what the file holds in its place."""
    name, _, file = choice.partition(":")
    return f"{name}:{file_fingerprint(file) or file}" if file else name


class Cleaner:
    """Cleans a corpus once, conversation by conversation. Raises BadInput where a benchmark cannot be read."""

    def __init__(self, cleaning: Cleaning) -> None:
        self._degenerate = "degenerate" in cleaning.clean
        self._seen = NearDuplicates() if "near_duplicates" in cleaning.clean else None
        self._overlap = _overlap(cleaning) if cleaning.exclude or cleaning.report else None
        reasons = [*(["contaminated"] if cleaning.exclude else []), *cleaning.clean]
        self.left_out = Counter(dict.fromkeys(reasons, 0))
        """Reason -> conversations that it left out. Each counts for the first reason there is."""

    def keeps(self, messages: Sequence[str], prompt: int | None) -> bool:
        """Does the conversation stay?

        prompt: the place of the prompt in it; None: it has answers alone. In a near-duplicate both the prompt and
        what follows were met before: many answers to one prompt stay, and so does one answer to many prompts.
        """
        reason = ""
        held = self._overlap.held(messages) if self._overlap else set()
        if self._overlap and self._overlap.leaves_out(held):
            reason = "contaminated"
        elif self._degenerate and any(map(is_degenerate, messages)):
            reason = "degenerate"
        elif self._seen:
            after = 0 if prompt is None else prompt + 1
            parts = [part for part in (messages[:after], messages[after:]) if part]
            if self._seen.has([np.concatenate([shingles(text) for text in part]) for part in parts]):
                reason = "near_duplicates"
        if self._overlap and reason in ("", "contaminated"):
            self._overlap.count(held, left_out=bool(reason))
        if reason:
            self.left_out[reason] += 1
        return not reason

    def forget(self) -> None:
        """Free the memory of near-duplicates, up to 0.5 GB, once the corpus was read."""
        self._seen = None

    def header(self) -> dict[str, str]:
        """What the header of a datastore file says of the cleaning."""
        return left_out_to_header(self.left_out) | contamination_to_header(
            self._overlap.checks if self._overlap else {}
        )


def _overlap(cleaning: Cleaning) -> Overlap:
    benchmarks, excluded, files = {}, {}, {}
    for key, choices in (("corpus.exclude", cleaning.exclude), ("corpus.report", cleaning.report)):
        for choice in choices:
            name, _, file = choice.partition(":")
            if name in benchmarks:
                raise BadInput(key, f"{name} is named twice; name a benchmark once, in exclude or in report")
            benchmarks[name], excluded[name] = asked_texts(choice, key), key == "corpus.exclude"
            if fingerprint := file_fingerprint(file) if file else None:
                files[name] = fingerprint[:FINGERPRINT_PREFIX]
    return Overlap(benchmarks, excluded, files)


NOTHING = "nothing"


def described(header: Mapping[str, str], where: str) -> dict[str, str]:
    """The header with these keys in words, ready to print. Raises BadInput."""
    rules = left_out_in_short(left_out_of(header, DATASTORE_KEY, where))
    met = contamination_in_short(contamination_of(header, DATASTORE_KEY, where))
    facts = {**header, CONTAMINATION: met or NOT_CHECKED, LEFT_OUT: rules or NOTHING}
    return {literal(key): literal(value) for key, value in facts.items()}


def merged(headers: Sequence[Mapping[str, str]], names: Sequence[str]) -> dict[str, str]:
    """The keys of the parts' headers together. names: of the files. Raises BadInput."""
    times: Counter[str] = Counter()
    checks = []
    for header, name in zip(headers, names, strict=True):
        times.update(left_out_of(header, DATASTORE_KEY, name))
        checks.append(contamination_of(header, DATASTORE_KEY, name))
    return left_out_to_header(times) | contamination_to_header(summed(checks))
