"""Several methods on the same questions, each by its summary."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from aded.api.drafter import NamedDrafter, as_drafter, drafter
from aded.bench.runner import Experiment, Runner
from aded.config.choices import read_choice
from aded.config.methods import datastore_kinds, method_config
from aded.config.objects import checked_call
from aded.core.drafter import Drafter
from aded.errors import BadInput
from aded.files.datastores.array_file import ArrayFile
from aded.files.places import cache_folder
from aded.records.metrics import summarise
from aded.records.summary import Summary

if TYPE_CHECKING:
    from aded.files.models.tokenizer import AnyTokenizer


def several_drafters(methods: Sequence[str | Drafter], datastore: Any, tokenizer: AnyTokenizer) -> list[NamedDrafter]:
    """New drafters. datastore: for those names whose method reads one; None: that of a run's default corpus."""
    return [_new_drafter(method, datastore, tokenizer) for method in checked_list(methods, "methods")]


def _new_drafter(method: str | Drafter, datastore: Any, tokenizer: AnyTokenizer) -> NamedDrafter:
    if not isinstance(method, str):
        return as_drafter(method).fresh()
    kinds = datastore_kinds(method_config(method, {}))
    if not kinds:
        return drafter(method)
    return drafter(method, datastore=_of_default_corpus(kinds, method, tokenizer) if datastore is None else datastore)


def _of_default_corpus(kinds: set[str], method: str, tokenizer: AnyTokenizer) -> ArrayFile:
    """The datastore that `aded run` has without datastore.path. Raises BadInput."""
    config, filled = read_choice("datastore", "python_stdlib"), ("tokenizer", "cache", "kind")
    (kind,) = kinds
    try:
        opened: ArrayFile = checked_call(config, "datastore", ArrayFile, filled=filled)(
            kind=kind, tokenizer=tokenizer, cache=str(cache_folder())
        )
    except BadInput as error:
        other = f"{method} reads the corpus of a run; datastore=FILE is another, aded.drafter({method!r}) has none"
        raise BadInput(error.key.removeprefix("model."), f"{error.problem}; {other}") from None
    return opened


def checked_list(given: Any, key: str) -> list[Any]:
    """A list. Raises BadInput for what is one thing, or none; the keys of a mapping are no list of what it holds."""
    if isinstance(given, str | Drafter | Mapping) or not isinstance(given, Iterable):
        raise BadInput(key, "must be a list")
    if not (found := list(given)):
        raise BadInput(key, "must not be empty")
    return found


def summaries(
    experiment: Experiment, drafters: Sequence[NamedDrafter], *, model: str, benchmark: str
) -> list[Summary]:
    """A summary per method, as a run writes it. model, benchmark: names. Raises BadInput."""
    target, tokenizer, _ = experiment.loaded
    for named in drafters:  # a refusal comes before anything is measured
        named.check_tokenizer(tokenizer)
        with named.in_use():
            named.setup(target)
    found = []
    for named in drafters:
        with named.in_use():
            runner = Runner(experiment, named)
            runner.warm_up()
            rows = [row for rows in runner.answer(experiment.asked.chosen) for row in rows]
        names = {"method": named.name, "model": model, "benchmark": benchmark}
        found.append(summarise(rows, **names, run_id="", drafter=named))
    return found
