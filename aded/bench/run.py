"""One run, from its config to its summary: the config, checked once, the objects that it makes, answers, the record.

Each question is on record before the next; those that the machine disturbed are decoded again.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby
from os.path import expanduser
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from omegaconf import DictConfig

from aded.bench.clock import Neighbours, wait_for_quiet
from aded.bench.progress import Progress
from aded.bench.questions import Benchmark, PromptTemplate, limited
from aded.bench.recording import Recording
from aded.bench.runner import Asked, Experiment, Pairing, Runner, build_experiment
from aded.config.choices import BENCHMARK
from aded.config.command_line import PATHS, plain
from aded.config.methods import Method, checked_method, with_whole_parts
from aded.config.objects import GROUP, Call, Kinds, checked_call
from aded.core.drafter import Drafter, set_up
from aded.core.sampler import Decoding, checked_decoding
from aded.core.target import Target
from aded.errors import BadInput
from aded.files.datastores.array_file import ArrayFile
from aded.files.models.tokenizer import answer_text
from aded.identity import run_ids
from aded.records.config import fingerprints
from aded.records.environment import environment
from aded.records.metrics import formatted, summarise, with_interval
from aded.records.noise import MOST_TIMINGS, pairs_of, to_decode_again
from aded.records.rows import Row
from aded.records.run_directory import RunDirectory, whole_questions
from aded.records.summary import Summary
from aded.settings import Engine, FilePath, NonNegative, checked_keys
from aded.targets.engine import Loaded, with_engine

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

RUN: Kinds = {
    **dict.fromkeys(("model", "benchmark", "method", "datastore", "decoding", "logger"), GROUP),
    "paths": PATHS,
    "pairing": Pairing,
    "engine": Engine,
    "output_dir": FilePath | None,
    "record": {"trees": NonNegative},
    "progress": bool,
}
"""The keys at the top of conf/config.yaml; those of a group are the arguments of what it names."""
MODEL = {"name": str, "template": GROUP}
"""Keys of this group that the harness reads itself."""
DATASTORE = ("tokenizer", "cache", "kind")
"""Arguments of a datastore that its method and model fill in."""
PATIENCE = 0.1
"""Most time to wait for a quiet machine, as a share of the time in which its rows were decoded."""


@dataclass(frozen=True)
class RunConfig:
    """What a run is to do, checked: the calls that make its objects, and what the harness itself reads."""

    settings: dict[str, Any]
    """All of it as plain values, with the whole configs of a method's parts."""
    model: Call
    template: Call
    benchmark: Call
    datastore: Call
    method: Method
    logger: Call | None
    decoding: Decoding
    engine: Engine
    pairing: Pairing
    cache: str
    """The folder for files that are made once."""
    overrides: list[str] | None
    """What the config was composed from, for the record."""

    def names(self) -> dict[str, str]:
        """Of method, model and benchmark, in rows and tables; trace mode has the shape's name and `trace`."""
        model = self.settings["model"]
        shape = model.get("compute")
        return {
            "method": self.method.name,
            "model": f"{shape} trace" if shape else _with_a_name(model["name"]),
            "benchmark": self.settings["benchmark"]["name"],
        }

    def asked(self) -> Asked:
        """The benchmark and its questions. Raises BadInput."""
        benchmark, values = self.benchmark(), self.settings["benchmark"]
        for key in (one.lstrip("+").partition("=")[0] for one in self.overrides or ()):
            if benchmark.raw and key.startswith("model.template."):
                raise BadInput(key, f"is read for chats, and {values['name']} asks in plain text; leave it out")
        every = benchmark.questions()
        return Asked(benchmark, every, limited(every, values["limit"], values.get("order", "first")))

    def prompts(self, tokenizer: PreTrainedTokenizerBase) -> dict[str, np.ndarray]:
        """The first prompt of each question that is asked, int64 [m], by the question's id. Raises BadInput."""
        asked = self.asked()
        template = asked.template(self.template)
        return {one.id: np.array(one.prompt_ids([], tokenizer, template), np.int64) for one in asked.chosen}


def _with_a_name(model: str) -> str:
    """The model's folder, or its id on the Hub; the names of `.` and `..` are those of the folders they mean."""
    return model if Path(model).name.strip(".") else str(Path(model).expanduser().resolve())


Loader = Callable[[RunConfig], Loaded]
"""Gives the model that a config names."""


def checked_config(cfg: DictConfig, overrides: Sequence[str] | None = None) -> RunConfig:
    """Raises BadInput, naming the key, for any key that is unknown or wrong, before anything is read.

    overrides: what it was composed from.
    """
    values = plain(cfg)
    checked_keys(values, RUN, "")
    decoding = checked_decoding(values["decoding"], "decoding")
    model = checked_model(values["model"])
    template = checked_call(values["model"]["template"], "model.template", PromptTemplate)
    benchmark = checked_call(values["benchmark"], "benchmark", Benchmark, BENCHMARK)
    datastore = checked_call(values["datastore"], "datastore", ArrayFile, filled=DATASTORE)
    values["method"] = with_whole_parts(values["method"])
    return RunConfig(
        settings=values,
        model=model,
        template=template,
        benchmark=benchmark,
        datastore=datastore,
        method=checked_method(values["method"]),
        logger=checked_call(values["logger"], "logger") if values["logger"] else None,
        decoding=decoding,
        engine=values["engine"],
        pairing=values["pairing"],
        cache=cache_of(values),
        overrides=None if overrides is None else list(overrides),
    )


def checked_model(values: dict[str, Any]) -> Call:
    """What loads a model. values: the group `model`. Raises BadInput naming the key."""
    return checked_call(values, "model", Loaded, MODEL, ("cache",))


def cache_of(values: Mapping[str, Any]) -> str:
    return str(Path(expanduser(values["paths"]["cache"])))


def load_model(config: RunConfig) -> Loaded:
    """See `load`, by a run's config."""
    return load(config.model, config.engine, config.cache)


def load(model: Call, engine: Engine, cache: str) -> Loaded:
    """The target, checked and on its engine, with tokenizer and EOS tokens."""
    found: Loaded = model(cache=cache)
    target: Target = with_engine(found.target, engine, cache)
    return found._replace(target=target)


class KeptModel:
    """A Loader for several runs one after another: a model that the run before had is not loaded again."""

    def __init__(self) -> None:
        self._settings: object = None
        self._loaded: Loaded | None = None

    def __call__(self, config: RunConfig) -> Loaded:
        settings = config.model, config.engine, config.cache
        if self._loaded is None or settings != self._settings:
            self._loaded = None  # two models may not fit; hooks tie the old one into a circle
            gc.collect()
            self._settings, self._loaded = settings, load_model(config)
        return self._loaded

    def is_free_for(self, config: RunConfig) -> bool:
        """Is no other model kept?"""
        return self._loaded is None or self._settings == (config.model, config.engine, config.cache)

    def whatever(self, config: RunConfig) -> Loaded:
        """The model that was loaded last, with any settings; where there is none, the config's is loaded."""
        return self._loaded or self(config)


def load_reference(config: RunConfig) -> Loaded:
    """The same model as transformers runs it, with none of our kernels."""
    model = checked_model({**config.settings["model"], "kernels": "torch"})
    return load_model(replace(config, engine="eager", model=model))


def experiment_of(config: RunConfig, asked: Asked, loader: Loader) -> Experiment:
    """The model, loaded, with the questions that it answers. Raises BadInput naming the key."""
    found = loader(config)
    answers = config.settings["model"].get("answers")
    return build_experiment(
        found,
        asked,
        config.template,
        max_new_tokens=config.settings["benchmark"]["max_new_tokens"],
        decoding=config.decoding,
        recording=None if answers is None else Recording(answers, found.tokenizer),
        pairing=config.pairing,
        trees=config.settings["record"]["trees"],
    )


def build_drafter(config: RunConfig, loaded: Loaded) -> Drafter:
    """Make the method and set it up for its target. Raises BadInput where it needs what the target lacks."""
    drafter = make_drafter(config, loaded)
    set_up(drafter, loaded.target, "method", config.method.name)
    return drafter


def make_drafter(config: RunConfig, loaded: Loaded) -> Drafter:
    """Make the method, its datastore opened for this tokenizer, or built. Raises BadInput."""

    @cache
    def datastore(kind: str) -> ArrayFile:
        opened: ArrayFile = config.datastore(kind=kind, tokenizer=loaded.tokenizer, cache=config.cache)
        return opened

    drafter = config.method.make(datastore, config.cache)
    drafter.check_tokenizer(loaded.tokenizer)
    return drafter


def settings_of_record(config: RunConfig, asked: Asked) -> dict[str, Any]:
    """The resolved config. An order that asks the first questions is left out: such a run is the same as before there
    was an order."""
    settings = dict(config.settings)
    if asked.chosen == asked.every[: len(asked.chosen)]:
        settings["benchmark"] = {key: value for key, value in settings["benchmark"].items() if key != "order"}
    return settings


class PlaceOfRecord(NamedTuple):
    """A run's folder, and what its record is known by.

    settings: its resolved config. files: the fingerprints of the files that they name, by key.
    """

    folder: Path
    settings: dict[str, Any]
    files: dict[str, str]


def place_of_record(config: RunConfig, asked: Asked) -> PlaceOfRecord:
    """asked: the config's. Raises BadInput."""
    settings = settings_of_record(config, asked)
    files = fingerprints(settings)
    folder = settings["output_dir"] or default_folder(config, run_ids(settings, files))
    return PlaceOfRecord(Path(folder).expanduser(), settings, files)


def run(config: RunConfig, progress: Progress, load: Loader = load_model) -> tuple[Summary, Path]:
    """Carry out (or go on with) the run that the config describes; return its summary and its folder."""
    asked = config.asked()
    logger = config.logger() if config.logger else None  # refused now, not after the run
    (folder, settings, files), names = place_of_record(config, asked), config.names()
    directory = RunDirectory(folder, settings, files, config.overrides)
    try:
        summary = directory.summary()
        if summary is None:
            experiment = experiment_of(config, asked, load)
            drafter = build_drafter(config, experiment.loaded)  # last: it may build a datastore, for minutes
            label = f"{names['method']}, {Path(names['model']).name}, {names['benchmark']}"
            rows = answer_all(Runner(experiment, drafter), directory, progress, label)
            summary = summarise(rows, **names, run_id=directory.identity, drafter=drafter)
            directory.write_summary(summary)
        if logger:
            logger.log(folder, settings, directory.finished_rows(), summary)
        return summary, folder
    finally:
        directory.close()


def default_folder(config: RunConfig, identities: list[str]) -> Path:
    """That of the run, or of the same run as an earlier version named it."""
    names = config.names()
    above = (
        Path(config.settings["paths"]["output"]) / Path(names["model"]).name.replace(" ", "-") / names["benchmark"]
    )
    folders = [above / f"{names['method']}-{identity}" for identity in identities]
    return next((folder for folder in folders if folder.expanduser().exists()), folders[0])


def format_summary(summary: Summary, folder: Path) -> str:
    """The summary and the run's folder in one line, and its marks in another."""
    lines = [
        f"{summary.method}, {summary.benchmark}: {formatted(summary.tokens_per_second, '.1f')} tokens/s, "
        f"speedup {with_interval(summary.speedup, summary.speedup_low, summary.speedup_high)}, "
        f"mean accepted tokens {formatted(summary.mean_accepted_tokens)}{_trees(summary)}, "
        f"identical {formatted(summary.identical_outputs, 'd')} of {summary.turns}  {folder}",
        *([f"  marked: {'; '.join(summary.marks)}"] if summary.marks else []),
    ]
    return "\n".join(lines)


def _trees(summary: Summary) -> str:
    """That the budget never was a limit, where that is so."""
    if summary.budget is None or summary.largest_tree is None or summary.largest_tree >= summary.budget:
        return ""
    return f" by trees of at most {summary.largest_tree} of {summary.budget} nodes"


def answer_all(runner: Runner, directory: RunDirectory, progress: Progress, label: str) -> list[Row]:
    """Answer the questions that the record lacks; return all rows. label: the run's name in its progress."""
    questions = runner.experiment.asked.chosen
    rows = whole_questions(directory.finished_rows(), [(one.id, len(one.turns)) for one in questions])
    facts = {**runner.describe(), "files": directory.files, "overrides": directory.overrides}
    directory.begin(environment(facts), resumed=bool(rows))
    directory.rewrite(rows)
    directory.keep_trees_of(rows)
    finished = [list(turns) for _, turns in groupby(rows, lambda row: row.question_id)]
    for turns in finished:
        runner.grow_slices(turns)
    done = len(finished)
    progress.begin(label, len(questions), done, runner.experiment.max_new_tokens)
    runner.warm_up()
    if 0 < done < len(questions):
        if runner.drafter.remembers_answers and runner.drafter.requires:
            progress.note("what the method learned is in no row: it answers the finished questions again, unrecorded")
        runner.restore(questions[:done], rows)
    neighbours = Neighbours(lambda text: progress.note(f"{label}: {text}"))
    runner.on_lap = neighbours.lap
    for new in runner.answer(questions[done:], start=done):
        if runner.trees:
            directory.append_trees(runner.trees.take())
        directory.append(new)
        rows += new
        progress.answered(rows)
        neighbours.tell()
    spent = sum(timing.machine.seconds for row in rows for timing in row.timings)
    rows = answer_disturbed(runner, directory, progress, rows, label, PATIENCE * spent)
    _write_samples(runner, directory, rows)
    return rows


def answer_disturbed(
    runner: Runner, directory: RunDirectory, progress: Progress, rows: list[Row], label: str, patience: float
) -> list[Row]:
    """Decode the questions again of which too little was undisturbed, at most twice; return all rows.

    On a machine that stays busy for `patience` seconds it is no use, and is not tried.
    """
    questions = runner.experiment.asked.chosen
    for _ in range(MOST_TIMINGS - 1):
        tried = {row.question_id for row in rows if len(row.timings) >= MOST_TIMINGS}
        chosen = to_decode_again(rows, pairs_of(rows)) - tried
        if not chosen or not wait_for_quiet(patience):
            break
        progress.note(f"{label}: {len(chosen)} of {len(questions)} questions were disturbed: they are decoded again")
        for again in runner.answer_again(questions, rows, chosen):
            by_turn = {(row.question_id, row.turn): row for row in again}
            rows = [by_turn.get((row.question_id, row.turn), row) for row in rows]
            directory.rewrite(rows)
    return rows


def _write_samples(runner: Runner, directory: RunDirectory, rows: Sequence[Row]) -> None:
    """What the benchmark's own scorer reads, where it has one."""
    asked = runner.experiment.asked
    by_id = {question.id: question for question in asked.chosen}
    samples = [
        asked.benchmark.sample(
            by_id[row.question_id], answer_text(runner.tokenizer, row.token_ids, asked.benchmark.stop_strings)
        )
        for row in rows
    ]
    directory.write_samples([sample for sample in samples if sample])
