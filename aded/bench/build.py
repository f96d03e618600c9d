"""Turns a config into objects: the one builder that runs and scripts share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from os.path import expanduser
from pathlib import Path
from typing import Any, get_type_hints

from omegaconf import DictConfig

from aded.bench.questions import Benchmark, Conversation, Order, PromptTemplate, Question, Raw, TokenIds, limited
from aded.bench.recording import Recording
from aded.bench.runner import Runner
from aded.choices import read_choice
from aded.command_line import plain
from aded.config import check_top, checked_call, instantiate
from aded.core.drafter import Drafter
from aded.core.sampler import Decoding
from aded.core.slices import SECONDS, WHOLE
from aded.core.target import Target
from aded.errors import BadInput
from aded.files.datastores.array_file import ArrayFile
from aded.methods import checked_method
from aded.records.trees import TreeRecorder
from aded.settings import Positive, checked_keys
from aded.targets.engine import with_engine
from aded.targets.loaded import Loaded

MODEL = {"name": str, "template": dict[str, Any]}
BENCHMARK = {"name": str, "limit": Positive | None, "order": Order, "max_new_tokens": Positive}
"""Keys of these groups that the harness reads itself; all others are arguments of the class."""
DATASTORE = ("tokenizer", "cache", "kind")
"""Arguments of a datastore that its method and model fill in."""


Loader = Callable[[DictConfig], Loaded]
"""Gives the model that a config names."""


@dataclass(frozen=True)
class Experiment:
    """What a config describes: a runner, the questions it will answer, and facts for the run's record."""

    runner: Runner
    questions: list[Question]
    facts: dict[str, Any]


def build_experiment(
    cfg: DictConfig, benchmark: Benchmark, questions: list[Question], decoding: Decoding, load: Loader
) -> Experiment:
    """Load the model, build the method, and put the runner together. Raises BadInput naming the key."""
    loaded = load(cfg)
    recording = None
    if cfg.model.get("answers") is not None:
        recording = Recording(cfg.model.answers, loaded.tokenizer)
        questions = recording.answered(questions, benchmark.questions())
    elif not loaded.target.provides:
        raise BadInput("model.answers", "must be given: this target computes nothing")
    template = Raw() if benchmark.raw else prompt_template(cfg)
    for question in questions:
        if isinstance(question, Conversation | TokenIds):  # refused now, not in the midst of the run
            question.prompt_ids([], loaded.tokenizer, template)
    drafter = build_drafter(cfg, loaded)  # last: it may build a datastore, for minutes
    paired = cfg.paired and cfg.pairing != "off"
    runner = Runner(
        target=loaded.target,
        tokenizer=loaded.tokenizer,
        eos_token_ids=recording.eos_token_ids if recording else loaded.eos_token_ids,
        template=template,
        benchmark=benchmark,
        drafter=drafter,
        # A replay without a model has nothing to compare with: the answer is given, and no model's time is taken.
        baseline=autoregressive() if paired and "seconds" in loaded.target.provides else None,
        slice_seconds=SECONDS if cfg.pairing == "slices" else WHOLE,
        recording=recording,
        decoding=decoding,
        max_new_tokens=cfg.benchmark.max_new_tokens,
        trees=TreeRecorder(cfg.record.trees, loaded.tokenizer) if cfg.record.trees else None,
    )
    facts = {**loaded.target.describe(), **drafter.describe(), **(recording.describe() if recording else {})}
    return Experiment(runner, questions, facts)


def check_config(cfg: DictConfig) -> None:
    """Raise BadInput, naming the key, for any key that is unknown or wrong, before anything is read."""
    check_top(plain(cfg))
    check_decoding(cfg.decoding)
    checked_call(plain(cfg.model), "model", Loaded, MODEL, ("cache",))
    prompt_template(cfg)
    checked_call(plain(cfg.benchmark), "benchmark", Benchmark, BENCHMARK)
    checked_call(plain(cfg.datastore), "datastore", ArrayFile, filled=DATASTORE)
    checked_method(plain(cfg.method))


def prompt_template(cfg: DictConfig) -> PromptTemplate:
    template: PromptTemplate = instantiate(plain(cfg.model.template), "model.template", PromptTemplate)
    return template


def cache_folder(cfg: DictConfig) -> str:
    return str(Path(expanduser(cfg.paths.cache)))


def load_model(cfg: DictConfig) -> Loaded:
    """The target, checked and on its engine, with tokenizer and EOS tokens."""
    loaded: Loaded = instantiate(plain(cfg.model), "model", Loaded, MODEL, cache=cache_folder(cfg))
    target: Target = with_engine(loaded.target, cfg.engine, cache_folder(cfg))
    return loaded._replace(target=target)


class KeptModel:
    """A Loader for several runs one after another: a model that the run before had is not loaded again."""

    def __init__(self) -> None:
        self._settings: object = None
        self._loaded: Loaded | None = None

    def __call__(self, cfg: DictConfig) -> Loaded:
        settings = plain(cfg.model), cfg.engine, cache_folder(cfg)
        if self._loaded is None or settings != self._settings:
            self._loaded = None  # two models may not fit
            self._settings, self._loaded = settings, load_model(cfg)
        return self._loaded


def load_reference(cfg: DictConfig) -> Loaded:
    """The same model as transformers runs it, with none of our kernels."""
    return load_model(DictConfig({**cfg, "engine": "eager", "model": {**cfg.model, "kernels": "torch"}}))


def build_drafter(cfg: DictConfig, loaded: Loaded) -> Drafter:
    """Make the method (aded.methods) and set it up for its target, its datastore opened for this tokenizer.

    Raises BadInput where it needs what the target lacks.
    """

    @cache
    def datastore(kind: str) -> ArrayFile:
        given = {"kind": kind, "tokenizer": loaded.tokenizer, "cache": cache_folder(cfg)}
        opened: ArrayFile = instantiate(plain(cfg.datastore), "datastore", ArrayFile, **given)
        return opened

    drafter = checked_method(plain(cfg.method)).make(datastore, cache_folder(cfg))
    drafter.check_tokenizer(loaded.tokenizer)
    drafter.setup(loaded.target)
    if missing := drafter.requires - loaded.target.provides:
        raise BadInput(
            "method", f"{cfg.method.name} needs {', '.join(sorted(missing))}, which this target does not provide"
        )
    return drafter


def autoregressive() -> Drafter:
    """The baseline, by its config like any method: the engine imports no baseline."""
    baseline: Drafter = checked_method(read_choice("method", "autoregressive")).call()
    return baseline


def load_benchmark(cfg: DictConfig) -> tuple[Benchmark, list[Question]]:
    """The benchmark and those of its questions that are asked. cfg: the group `benchmark`."""
    benchmark: Benchmark = instantiate(plain(cfg), "benchmark", Benchmark, BENCHMARK)
    return benchmark, limited(benchmark.questions(), cfg.limit, cfg.get("order", "first"))


def settings_of_record(cfg: DictConfig, benchmark: Benchmark, questions: list[Question]) -> dict[str, Any]:
    """The resolved config. An order that asks the first questions is left out: such a run is the same as before there
    was an order."""
    settings = plain(cfg)
    if questions == benchmark.questions()[: len(questions)]:
        settings["benchmark"].pop("order", None)
    return settings


def check_decoding(cfg: DictConfig) -> Decoding:
    """The decoding settings. cfg: the group `decoding`. Raises BadInput naming the key."""
    kinds = get_type_hints(Decoding, include_extras=True)
    return Decoding(**checked_keys(plain(cfg), kinds, "decoding", optional=kinds))


def model_name(cfg: DictConfig) -> str:
    """The model's name in rows and tables; trace mode has the shape's name and `trace`."""
    compute = cfg.model.get("compute")
    return f"{compute} trace" if compute else str(cfg.model.name)
