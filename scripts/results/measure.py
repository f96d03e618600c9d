"""A method on a pack: what any machine finds again, digit for digit."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args

import numpy as np

import aded
from aded.config.methods import SUFFIXES, datastore_kinds, method_config
from aded.errors import BadInput
from aded.files.pack import Pack, read_about, read_pack
from aded.identity import sha256
from aded.records.summary import Summary
from aded.settings import LearningScope
from datastore.builder import with_separators, write_suffixes
from datastore.ngrams import count_ngrams, write_ngrams

ORDER = 5
PACKS_KEY = "packs"


@dataclass(frozen=True)
class Case:
    """A method with its settings, on a pack. corpus: the names of the packs whose answers it drafts from."""

    folder: Path
    pack: str
    method: str
    settings: Mapping[str, Any]
    corpus: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for key in ("name", "datastore"):
            if key in self.settings:
                raise BadInput(f"settings.{key}", "is no setting of a method; leave it out")

    @property
    def whole(self) -> dict[str, Any]:
        """All settings of the method. Raises BadInput."""
        return method_config(self.method, self.settings)

    @property
    def config(self) -> str:
        """16 hex digits: sha256 of all settings of the method, and of the answers of pack and corpus."""
        packs = [read_about(self.folder / name, PACKS_KEY).answers_sha256 for name in (self.pack, *self.corpus)]
        return sha256(json.dumps([_without_classes(self.whole), *packs], sort_keys=True))[:16]


def _without_classes(settings: Any) -> Any:
    """All but the classes behind the names: a class that moves changes no number."""
    if not isinstance(settings, Mapping):
        return settings
    return {key: _without_classes(value) for key, value in settings.items() if key != "_target_"}


def new_case(folder: Path, pack: str, method: str, settings: Mapping[str, Any]) -> Case:
    """The method on a pack, with the answers of the same model's other packs as its corpus, where it reads one."""
    alone = Case(folder, pack, method, settings)
    if not datastore_kinds(alone.whole):
        return alone
    model = read_about(folder / pack, PACKS_KEY).model
    others = (name for name in names_of_packs(folder) if read_about(folder / name, PACKS_KEY).model == model)
    return replace(alone, corpus=tuple(name for name in others if name != pack))


def names_of_packs(folder: Path) -> list[str]:
    """The packs in a folder. Raises BadInput for a folder that has none, and for a name with +, which joins names."""
    if not (names := sorted(path.parent.name for path in folder.glob("*/pack.json"))):
        raise BadInput(PACKS_KEY, f"{folder} holds no pack; run this in a checkout of the project, or name a folder")
    if joined := next((name for name in names if "+" in name), None):
        raise BadInput(PACKS_KEY, f"{folder / joined} has a + in its name, which joins names of packs; rename it")
    return names


def measure(case: Case) -> tuple[Summary, Summary]:
    """(cold, session): learned state forgotten at each prompt, and kept over all questions of the pack.

    A method without learned state has nothing to keep: both are the same. Raises BadInput.
    """
    pack = read_pack(case.folder / case.pack, PACKS_KEY)
    corpus = [read_pack(case.folder / name, PACKS_KEY) for name in case.corpus]
    with _datastore(case, corpus) as datastore:
        cold_and_session: list[dict[str, Any]] = [{"adaptation": scope} for scope in get_args(LearningScope)]
        chosen = cold_and_session if "adaptation" in case.whole else [{}]
        drafters = [aded.drafter(case.method, datastore=datastore, **{**case.settings, **one}) for one in chosen]
        found = aded.replay(pack.path, methods=drafters)
    return found[0], found[-1]


def exact_numbers(cold: Summary, session: Summary) -> dict[str, str]:
    """Mean accepted tokens and drafted nodes per step, as text: every digit counts."""
    return {
        "mat_cold": repr(cold.mean_accepted_tokens),
        "mat_session": repr(session.mean_accepted_tokens),
        "nodes_cold": repr(cold.drafted_nodes_per_step),
        "nodes_session": repr(session.drafted_nodes_per_step),
    }


def as_csv(rows: Sequence[Mapping[str, str]]) -> str:
    """The text of a table, its first line the keys of the first row."""
    text = StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


@contextmanager
def _datastore(case: Case, corpus: Sequence[Pack]) -> Iterator[Path | None]:
    """A datastore file of the answers of some packs; None for a method that reads none, and where there is no pack.

    Raises BadInput.
    """
    kinds = datastore_kinds(case.whole)
    if not kinds or not corpus:
        yield None
        return
    with TemporaryDirectory() as folder:
        path = Path(folder) / "corpus"
        answers, header = as_corpus(corpus)
        vocabulary = int(header["vocabulary"])
        if SUFFIXES in kinds:
            write_suffixes(path, with_separators(answers, vocabulary), header)
        else:
            write_ngrams(path, count_ngrams(answers, ORDER, vocabulary), header)
        yield path


def as_corpus(corpus: Sequence[Pack]) -> tuple[list[np.ndarray], dict[str, str]]:
    """The answers of some packs, int64 [m] each, and the header of a datastore file of them. Raises BadInput."""
    about = corpus[0].about
    for pack in corpus:
        if pack.about.tokenizer != about.tokenizer:
            raise BadInput("corpus", f"{pack.path} and {corpus[0].path} have different tokenizers")
    vocabulary = max(pack.about.vocabulary for pack in corpus)
    names = "+".join(pack.path.name for pack in corpus)
    header = {"tokenizer": about.tokenizer, "vocabulary": str(vocabulary), "corpus": names}
    return [np.array(turn.token_ids, np.int64) for pack in corpus for turn in pack.turns], header
