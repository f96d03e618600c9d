"""The front door: python -m aded.run model=NAME benchmark=NAME method=NAME [KEY=VALUE ...]

Config, prompt, draft, verify, commit, record, summary. Exit code 0: finished; 2: bad input, one line on stderr;
130 (Ctrl-C) and 143 (SIGTERM): interrupted, finished rows kept.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import hydra
from omegaconf import DictConfig, OmegaConf
from tqdm import tqdm

from aded.bench.build import Experiment, build_experiment, check_config, check_decoding, load_benchmark, model_name
from aded.bench.questions import Question
from aded.command_line import CONF, INPUT_ERRORS, exit_with_error, run_hydra
from aded.config import instantiate
from aded.records.environment import environment
from aded.records.identity import fingerprints, run_id
from aded.records.metrics import summarise
from aded.records.rows import Row, Summary
from aded.records.run_directory import RunDirectory, whole_questions

SECONDS_BETWEEN_LINES = 5.0
"""Of progress in a log; a replay answers hundreds of questions in that time."""


def run(cfg: DictConfig) -> Summary:
    """Carry out (or go on with) the run that the config describes; return its summary."""
    check_config(cfg)
    decoding = check_decoding(cfg.decoding)
    benchmark, questions = load_benchmark(cfg.benchmark)
    logger = instantiate(cfg.logger, "logger") if cfg.logger else None  # refused now, not after the run
    plain: dict[str, Any] = OmegaConf.to_container(cfg, resolve=True)  # type: ignore[assignment]
    files = fingerprints(plain)
    folder = Path(cfg.output_dir or default_folder(cfg, run_id(plain, files)))
    directory = RunDirectory(folder, plain, files)
    try:
        summary = directory.summary()
        if summary is None:
            rows = answer_all(cfg, directory, build_experiment(cfg, benchmark, questions, decoding))
            names = {"method": cfg.method.name, "model": model_name(cfg), "benchmark": cfg.benchmark.name}
            summary = summarise(rows, **names, run_id=directory.identity)
            directory.write_summary(summary)
        if logger:
            logger.log(folder, plain, directory.finished_rows(), summary)
        print(f"{format_summary(summary)}  {folder}")
        return summary
    finally:
        directory.close()


def answer_all(cfg: DictConfig, directory: RunDirectory, experiment: Experiment) -> list[Row]:
    """Answer the questions that the record lacks; return all rows."""
    runner, questions = experiment.runner, experiment.questions
    rows = whole_questions(directory.finished_rows(), [(one.id, len(one.turns)) for one in questions])
    directory.begin(environment({**experiment.facts, "files": directory.files}), resumed=bool(rows))
    directory.rewrite(rows)
    runner.warm_up()
    done = len({row.question_id for row in rows})
    if done < len(questions):
        runner.restore(questions[:done], rows)
    label = f"{cfg.method.name}, {Path(model_name(cfg)).name}, {cfg.benchmark.name}"
    if cfg.progress:
        limit = f"at most {runner.max_new_tokens} new tokens per answer"
        print(f"{label}: {len(questions)} questions, {limit}", file=sys.stderr, flush=True)
    remaining = with_progress(questions, done, label) if cfg.progress else questions[done:]
    for new in runner.answer(remaining, start=done):
        directory.append(new)
        rows += new
    by_id = {question.id: question for question in questions}
    samples = [
        runner.benchmark.sample(
            by_id[row.question_id], str(runner.tokenizer.decode(row.token_ids, skip_special_tokens=True))
        )
        for row in rows
    ]
    directory.write_samples([sample for sample in samples if sample])
    return rows


def with_progress(questions: Sequence[Question], done: int, label: str) -> Iterator[Question]:
    """The questions behind the first `done`: with a bar on a terminal, with a line now and then in a log."""
    if sys.stderr.isatty():
        yield from tqdm(questions[done:], label, len(questions), initial=done)
        return
    printed = perf_counter()
    for number, question in enumerate(questions[done:], done):
        if perf_counter() - printed >= SECONDS_BETWEEN_LINES:
            printed = perf_counter()
            print(f"{label}: {number} of {len(questions)} questions answered", file=sys.stderr, flush=True)
        yield question


def default_folder(cfg: DictConfig, identity: str) -> Path:
    model = Path(model_name(cfg)).name.replace(" ", "-")
    return Path(cfg.paths.output) / model / cfg.benchmark.name / f"{cfg.method.name}-{identity}"


def format_summary(summary: Summary) -> str:
    """The summary in one line."""

    def number(value: float | None, form: str) -> str:
        return "-" if value is None else format(value, form)

    return (
        f"{summary.method}: {number(summary.tokens_per_second, '.1f')} tokens/s, "
        f"speedup {number(summary.speedup, '.2f')} "
        f"[{number(summary.speedup_low, '.2f')}, {number(summary.speedup_high, '.2f')}], "
        f"mean accepted tokens {number(summary.mean_accepted_tokens, '.2f')}, "
        f"identical {number(summary.identical_outputs, 'd')} of {summary.turns}"
    )


@hydra.main(version_base="1.3", config_path=str(CONF), config_name="config")
def _hydra_main(cfg: DictConfig) -> None:
    try:
        run(cfg)
    except INPUT_ERRORS as error:
        exit_with_error(error)


def main() -> None:
    run_hydra(_hydra_main, "interrupted; finished rows are kept: start the same command again to go on")


if __name__ == "__main__":
    main()
