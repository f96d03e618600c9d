"""The front door: python -m aded.run model=NAME benchmark=NAME method=NAME [KEY=VALUE ...]

Config, prompt, draft, verify, commit, record, summary. Exit code 0: finished; 2: bad input, told in one line on
stderr; 130: interrupted, finished rows kept.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, get_type_hints

import hydra
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from tqdm import tqdm

from aded.bench.metrics import summarise
from aded.bench.questions import Benchmark, Question, Raw
from aded.bench.records import RunDirectory, run_id
from aded.bench.runner import BenchmarkRun, whole_questions
from aded.command_line import CONF, exit_with_error, run_hydra
from aded.core.drafter import Drafter
from aded.core.sampler import Decoding
from aded.errors import BadInput
from aded.targets.engine import with_engine


def run(cfg: DictConfig) -> dict[str, Any]:
    """Carry out (or go on with) the run that the config describes; return its summary."""
    decoding = checked_decoding(cfg.decoding)
    benchmark, questions, max_new_tokens = load_benchmark(cfg.benchmark)
    logger = hydra.utils.instantiate(cfg.logger)  # refused now, not after the run
    plain: dict[str, Any] = OmegaConf.to_container(cfg, resolve=True)  # type: ignore[assignment]
    identity = run_id(plain)
    names = {"method": cfg.method.name, "model": model_name(cfg), "benchmark": cfg.benchmark.name}
    folder = Path(cfg.output_dir or default_folder(cfg, identity))
    directory = RunDirectory(folder, identity, OmegaConf.to_yaml(cfg, resolve=True))
    try:
        summary = directory.summary()
        if summary is None:
            rows = _answer_all(cfg, directory, benchmark, questions, decoding, max_new_tokens)
            summary = summarise(rows, **names, run_id=identity)
            directory.write_summary(summary)
        if logger:
            logger.log(folder, plain, directory.finished_rows(), summary)
        print(f"{told(summary)}  {folder}")
        return summary
    finally:
        directory.close()


def _answer_all(
    cfg: DictConfig,
    directory: RunDirectory,
    benchmark: Benchmark,
    questions: list[Question],
    decoding: Decoding,
    max_new_tokens: int,
) -> list[dict[str, Any]]:
    """Answer the questions that the record lacks; return all rows."""
    cache = str(Path(cfg.paths.cache).expanduser())
    target, tokenizer = load_model(cfg, cache)
    drafter = build_method(cfg, target, tokenizer, cache)
    if missing := drafter.requires - target.provides:
        raise BadInput(
            "method", f"{cfg.method.name} needs {', '.join(sorted(missing))}, which this target cannot give"
        )
    recording = target.recording
    if recording is not None:
        questions = recording.answered(questions, benchmark.questions())
    runner = BenchmarkRun(
        target=target,
        tokenizer=tokenizer,
        template=Raw() if benchmark.raw else hydra.utils.instantiate(cfg.model.template),
        benchmark=benchmark,
        drafter=drafter,
        # There is nothing to compare a recorded answer with: it is given, and no model's time is taken.
        baseline=autoregressive() if cfg.paired and "seconds" in target.provides else None,
        decoding=decoding,
        max_new_tokens=max_new_tokens,
    )
    rows = whole_questions(directory.finished_rows(), questions)
    directory.rewrite(rows)
    facts = {**target.describe(), **drafter.describe(), **(recording.describe() if recording else {})}
    directory.write_environment(facts)
    runner.warm_up()
    done = len({row["question_id"] for row in rows})
    if done < len(questions):
        runner.restore(questions[:done], rows)
    todo = tqdm(
        questions[done:],
        cfg.method.name,
        len(questions),
        initial=done,
        disable=not (cfg.progress and sys.stderr.isatty()),
    )
    for new in runner.answer(todo, start=done):
        directory.append(new)
        rows += new
    by_id = {question.id: question for question in questions}
    samples = [
        benchmark.sample(by_id[row["question_id"]], tokenizer.decode(row["token_ids"], skip_special_tokens=True))
        for row in rows
    ]
    directory.write_samples([sample for sample in samples if sample])
    return rows


def autoregressive() -> Drafter:
    """The baseline, by its config like any method: the engine imports no baseline."""
    return hydra.utils.instantiate({"_target_": OmegaConf.load(CONF / "method" / "autoregressive.yaml")._target_})


def load_model(cfg: DictConfig, cache: str) -> tuple[Any, Any]:
    """The target, which has verified a first tree, and its tokenizer."""
    model = {key: value for key, value in cfg.model.items() if key not in ("name", "template")}
    target, tokenizer = hydra.utils.instantiate(model, cache=cache)
    target = with_engine(target, cfg.engine, cache)
    target.self_check()
    return target, tokenizer


def build_method(cfg: DictConfig, target: Any, tokenizer: Any, cache: str) -> Drafter:
    """Instantiate the method and let it meet its target.

    One that has a key `datastore` gets a file of the group's and of the kind it names, opened for this tokenizer; one
    that has an empty key `cache` gets the folder to keep built files in.
    """
    method = {key: value for key, value in cfg.method.items() if key not in ("name", "datastore", "cache")}
    given: dict[str, Any] = {"cache": cache} if "cache" in cfg.method else {}
    if "datastore" in cfg.method:
        given["datastore"] = hydra.utils.instantiate(
            cfg.datastore, kind=cfg.method.datastore, tokenizer=tokenizer, cache=cache
        )
    drafter: Drafter = hydra.utils.instantiate(method, _partial_=True)(**given)
    drafter.setup(target)
    return drafter


def load_benchmark(cfg: DictConfig) -> tuple[Benchmark, list[Question], int]:
    """The benchmark, its first `limit` questions and the most new tokens of an answer."""
    settings = {key: value for key, value in cfg.items() if key not in ("name", "limit", "max_new_tokens")}
    for key in ("limit", "max_new_tokens"):
        value = cfg[key]
        if not (value is None and key == "limit") and (not isinstance(value, int) or value < 1):
            raise BadInput(f"benchmark.{key}", f"{value!r} must be a whole number, 1 or more")
    benchmark = hydra.utils.instantiate(settings)
    return benchmark, benchmark.questions()[: cfg.limit], cfg.max_new_tokens


def checked_decoding(cfg: DictConfig) -> Decoding:
    """The decoding settings, their names and types checked; Decoding itself checks the ranges."""
    kinds = get_type_hints(Decoding)
    settings: dict[str, Any] = {}
    for key, value in map(_named, cfg.items()):
        kind = kinds.get(key)
        if kind is None:
            raise BadInput(f"decoding.{key}", f"no such key; there are {', '.join(kinds)}")
        if isinstance(value, bool) or not isinstance(value, (int, kind)):
            raise BadInput(f"decoding.{key}", f"{value!r} must be a number of type {kind.__name__}")
        settings[key] = kind(value)
    return Decoding(**settings)


def _named(item: tuple[Any, Any]) -> tuple[str, Any]:
    return str(item[0]), item[1]


def model_name(cfg: DictConfig) -> str:
    """The model's name in rows and tables; one that is run for its times alone is marked `trace`."""
    compute = cfg.model.get("compute")
    return f"{compute} trace" if compute else str(cfg.model.name)


def default_folder(cfg: DictConfig, identity: str) -> Path:
    model = Path(model_name(cfg)).name.replace(" ", "-")
    return Path(cfg.paths.output) / model / cfg.benchmark.name / f"{cfg.method.name}-{identity}"


def told(summary: dict[str, Any]) -> str:
    """The summary in one line."""

    def number(key: str, form: str) -> str:
        return "-" if summary[key] is None else format(summary[key], form)

    return (
        f"{summary['method']}: {number('tokens_per_second', '.1f')} tokens/s, "
        f"speedup {number('speedup', '.2f')} [{number('speedup_low', '.2f')}, {number('speedup_high', '.2f')}], "
        f"mean accepted tokens {number('mean_accepted_tokens', '.2f')}, "
        f"identical {number('identical_outputs', 'd')} of {summary['turns']}"
    )


@hydra.main(version_base="1.3", config_path=str(CONF), config_name="config")
def _hydra_main(cfg: DictConfig) -> None:
    try:
        run(cfg)
    except (BadInput, HydraException, OmegaConfBaseException) as error:
        exit_with_error(error)


def main() -> None:
    run_hydra(_hydra_main, "interrupted; finished rows are kept: start the same command again to go on")


if __name__ == "__main__":
    main()
