"""A run's config, checked once, and the objects that it makes: for runs and scripts."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from os.path import expanduser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from omegaconf import DictConfig

from aded.bench.questions import Benchmark, PromptTemplate, limited
from aded.bench.recording import Recording
from aded.bench.runner import Asked, Experiment, Pairing, build_experiment
from aded.config.choices import BENCHMARK
from aded.config.command_line import PATHS, plain
from aded.config.methods import Method, checked_method, with_whole_parts
from aded.config.objects import GROUP, Call, Kinds, checked_call
from aded.core.drafter import Drafter, set_up
from aded.core.sampler import Decoding, checked_decoding
from aded.core.target import Target
from aded.errors import BadInput
from aded.files.datastores.array_file import ArrayFile
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
        """The model that was loaded last, on whichever engine; without one as any Loader."""
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
