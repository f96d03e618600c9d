"""Turns a config into objects: the one builder that runs and scripts share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_type_hints

import hydra
from omegaconf import DictConfig, OmegaConf

from aded.bench.questions import Benchmark, Question, Raw
from aded.bench.recording import Recording
from aded.bench.runner import Runner
from aded.command_line import CONF
from aded.core.drafter import Drafter
from aded.core.sampler import Decoding
from aded.core.target import Target
from aded.errors import BadInput
from aded.targets.engine import with_engine
from aded.targets.loaded import Loaded

NOT_FOR_LOADING = ("name", "template", "answers")
"""Keys of the group `model` that the loader is not called with."""


@dataclass(frozen=True)
class Experiment:
    """What a config describes: a runner, the questions it will answer, and facts for the run's record."""

    runner: Runner
    questions: list[Question]
    facts: dict[str, Any]


def build_experiment(
    cfg: DictConfig, benchmark: Benchmark, questions: list[Question], decoding: Decoding
) -> Experiment:
    """Load the model, build the method, and put the runner together. Raises BadInput naming the key."""
    loaded = load_model(cfg)
    drafter = build_drafter(cfg, loaded)
    recording = None
    if cfg.model.get("answers") is not None:
        recording = Recording(cfg.model.answers, loaded.tokenizer)
        questions = recording.answered(questions, benchmark.questions())
    runner = Runner(
        target=loaded.target,
        tokenizer=loaded.tokenizer,
        eos_token_ids=recording.eos_token_ids if recording else loaded.eos_token_ids,
        template=Raw() if benchmark.raw else hydra.utils.instantiate(cfg.model.template),
        benchmark=benchmark,
        drafter=drafter,
        # A replay without a model has nothing to compare with: the answer is given, and no model's time is taken.
        baseline=autoregressive() if cfg.paired and "seconds" in loaded.target.provides else None,
        recording=recording,
        decoding=decoding,
        max_new_tokens=cfg.benchmark.max_new_tokens,
    )
    facts = {**loaded.target.describe(), **drafter.describe(), **(recording.describe() if recording else {})}
    return Experiment(runner, questions, facts)


def cache_folder(cfg: DictConfig) -> str:
    return str(Path(cfg.paths.cache).expanduser())


def load_model(cfg: DictConfig) -> Loaded:
    """The target, checked and on its engine, with tokenizer and EOS tokens."""
    settings = {key: value for key, value in cfg.model.items() if key not in NOT_FOR_LOADING}
    loaded: Loaded = hydra.utils.instantiate(settings, cache=cache_folder(cfg))
    target: Target = with_engine(loaded.target, cfg.engine, cache_folder(cfg))
    return loaded._replace(target=target)


def load_reference(cfg: DictConfig) -> Loaded:
    """The same model as transformers runs it, with none of our kernels."""
    return load_model(DictConfig({**cfg, "engine": "eager", "model": {**cfg.model, "kernels": "torch"}}))


def build_drafter(cfg: DictConfig, loaded: Loaded) -> Drafter:
    """Instantiate the method and set it up for its target. Raises BadInput where it needs what the target lacks.

    A method with a key `datastore_kind` gets `datastore`, a file of that kind opened for this tokenizer. A method
    with an empty key `cache` gets the folder to keep built files in.
    """
    settings = {key: value for key, value in cfg.method.items() if key not in ("name", "datastore_kind", "cache")}
    objects: dict[str, Any] = {"cache": cache_folder(cfg)} if "cache" in cfg.method else {}
    if "datastore_kind" in cfg.method:
        objects["datastore"] = hydra.utils.instantiate(
            cfg.datastore, kind=cfg.method.datastore_kind, tokenizer=loaded.tokenizer, cache=cache_folder(cfg)
        )
    try:
        hydra.utils.get_class(cfg.method._target_)
    except (ImportError, ValueError) as error:
        raise BadInput(
            "method._target_", f"{cfg.method._target_} is no class here, as MODULE.CLASS ({error})"
        ) from None
    drafter: Drafter = hydra.utils.instantiate(settings, _partial_=True)(**objects)
    drafter.setup(loaded.target)
    if missing := drafter.requires - loaded.target.provides:
        raise BadInput(
            "method", f"{cfg.method.name} needs {', '.join(sorted(missing))}, which this target does not provide"
        )
    return drafter


def autoregressive() -> Drafter:
    """The baseline, by its config like any method: the engine imports no baseline."""
    return hydra.utils.instantiate({"_target_": OmegaConf.load(CONF / "method" / "autoregressive.yaml")._target_})


def load_benchmark(cfg: DictConfig) -> tuple[Benchmark, list[Question]]:
    """The benchmark and its first `limit` questions. cfg: the group `benchmark`."""
    settings = {key: value for key, value in cfg.items() if key not in ("name", "limit", "max_new_tokens")}
    for key in ("limit", "max_new_tokens"):
        value = cfg[key]
        if not (value is None and key == "limit") and (not isinstance(value, int) or value < 1):
            raise BadInput(f"benchmark.{key}", f"{value!r} must be a whole number, 1 or more")
    benchmark = hydra.utils.instantiate(settings)
    return benchmark, benchmark.questions()[: cfg.limit]


def check_decoding(cfg: DictConfig) -> Decoding:
    """The decoding settings, their names and types checked; Decoding itself checks the ranges."""
    kinds = get_type_hints(Decoding)
    settings: dict[str, Any] = {}
    for key, value in ((str(key), value) for key, value in cfg.items()):
        kind = kinds.get(key)
        if kind is None:
            raise BadInput(f"decoding.{key}", f"no such key; there are {', '.join(kinds)}")
        if isinstance(value, bool) or not isinstance(value, (int, kind)):
            raise BadInput(f"decoding.{key}", f"{value!r} must be a number of type {kind.__name__}")
        settings[key] = kind(value)
    return Decoding(**settings)


def model_name(cfg: DictConfig) -> str:
    """The model's name in rows and tables; trace mode has the shape's name and `trace`."""
    compute = cfg.model.get("compute")
    return f"{compute} trace" if compute else str(cfg.model.name)
