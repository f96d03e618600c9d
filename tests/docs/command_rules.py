"""The fenced blocks of a page, and how their commands are run: on small inputs, or checked where they need more."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from configparser import ConfigParser
from dataclasses import fields
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import forked
import numpy as np
import pytest
from texts import CODE

from aded.__main__ import COMMANDS
from aded.bench.run import RUN
from aded.config.command_line import NoSettings, compose_config
from datastore.build import BUILD
from datastore.fetch import FETCH
from datastore.sources.catalogue import read_source

ROOT = Path(__file__).parents[2]
VOCABULARY = 128
HUB_IDS = ("lmsys/vicuna-7b-v1.5", "lmsys/vicuna-7b-v1.3", "HuggingFaceTB/SmolLM2-135M-Instruct")
TEXTS = ["the cat sat on the mat", "the rat sat on the hat", "a cat and a rat and a hat", "on the mat the cat sat"]
QUESTIONS = "benchmark.question_file=question.jsonl"
REPLACED = {
    "model.device=cuda": ["model.device=cpu"],  # a GPU
    "model.compute=vicuna-7b": ["model.compute=smollm2-135m"],  # 135 million random weights in place of 7 billion
    "method.layers=25": ["method.layers=1"],  # a model of more than two layers
    "engine=compiled": ["engine=eager"],  # compilation takes half a minute: tests/aded/targets
    "benchmark=mt_bench": ["benchmark=mt_bench", QUESTIONS],  # the Hub: tests/llm_judge
    "benchmark=gsm8k": ["benchmark=gsm8k", "benchmark.question_file=gsm8k.jsonl"],  # tests/aded/bench/prompts
    "+experiment=table1_mt_bench": ["+experiment=table1_mt_bench", QUESTIONS],
    "corpus.path=aded/**/*.py": ["corpus.path=src/*.py"],  # this project's code
    "tokenizer=embedded": [f"tokenizer={HUB_IDS[0]}"],  # the tiny model's
    "corpus=ultrachat": ["corpus=jsonl", "corpus.path=chat.jsonl"],  # the Hub: tests/datastore/corpora
    "datastore.path=small.ngrams,chat.ngrams": ["datastore.path=small.ngrams,chat.ngrams,chat.suffixes"],  # for rest
    "parts=8": ["parts=8", "cluster=debug"],  # processes that import everything anew: tests/datastore/parts
    "lookup=chat.lookup": ["lookup=chat.lookup", "corpus.path=code.jsonl"],  # enough to learn from
    "cluster=slurm": ["cluster=debug"],
    "logger=wandb": ["logger=wandb", "logger.mode=disabled"],  # its client: tests/aded/bench/test_wandb_logger.py
}
"""Arguments that need a GPU, the Hub or minutes, and what runs in their place."""
DROPPED = ("hydra/launcher=", "hydra.launcher.", "corpus.shards=", "cluster.slurm_")
"""Launchers start processes that import everything anew: tests/aded/bench/test_sweep.py."""
MODEL = (f"model.path={HUB_IDS[0]}", "model.dtype=float32", "model.device=cpu")
TRAINING = ["prompts=8", "asking.max_new_tokens=8", "epochs=1", *CODE, *MODEL]
OURS_ALONE = ["engines=[]", "engine=eager"]
SMALL = {
    "aded.commands.run": ["benchmark.limit=2", "benchmark.max_new_tokens=8", *MODEL],
    "aded.commands.sweep": ["method=prompt_lookup,rest,aded_best_first"],
    "aded.commands.record": ["benchmark.limit=2", "benchmark.max_new_tokens=8", *MODEL],
    "scripts.results.leaderboard": ["method=prompt_lookup", "pack=smollm2-long_answers"],
    "scripts.results.check_lossless": ["benchmark.limit=2", "benchmark.max_new_tokens=8", *MODEL],
    "scripts.train.eagle": [*TRAINING, "validation_every=2"],
    "scripts.train.medusa": TRAINING,
    "scripts.bench.verify": ["nodes=[1,65]", "contexts=[16]", "engines=[eager]", "rounds=1", *MODEL],
    "scripts.bench.kernels": ["nodes=[1,2]", "contexts=[16]", "rounds=1", *MODEL],
    # The engines are processes that import transformers anew: tests/scripts/bench/test_bench_engines.py.
    "scripts.bench.engines": [*OURS_ALONE, "methods=[autoregressive]", "prompts=1", "new_tokens=4", *MODEL],
    "scripts.bench.drafting": ["pairs=1000", "searches=10"],
}
"""What makes a command small: these settings take the place of the page's."""
DATASTORE = "datastore.path=chat.${oc.select:method.datastore_kind,ngrams}"


def rewritten(module: str, arguments: Sequence[str]) -> list[str]:
    small = [each for each in SMALL.get(module, ()) if "model=recorded" not in arguments or each not in MODEL]
    runs = module in ("aded.commands.run", "scripts.results.check_lossless")
    if runs and "datastore.path=" not in " ".join(arguments):
        small.append(DATASTORE)
    taken = {each.partition("=")[0] for each in small}
    kept = [each for argument in arguments for each in REPLACED.get(argument, [argument])]
    return [each for each in kept if each.partition("=")[0] not in taken and not each.startswith(DROPPED)] + small


def run_module(arguments: list[str], folder: Path) -> None:
    module, *rest = arguments
    if module in KEYS_ALONE:
        known_keys(module, rest)
    else:
        run_program([module, *rewritten(module, rest)], folder)


KEYS_ALONE = ("scripts.bench.datastore", "scripts.bench.serving", "scripts.bench.soak")
"""They build in processes of their own, or need an environment with vLLM (tests/scripts/bench)."""


def known_keys(name: str, arguments: Sequence[str]) -> None:
    module = import_module(name)
    own = (one for key, one in vars(module).items() if key.endswith("Settings"))
    settings = next((one for one in own if one.__module__ == name), NoSettings)
    keys = {one.name for one in fields(settings)}
    rest = [one for one in arguments if "=" in one and one.partition("=")[0] not in keys]
    if name == "scripts.bench.datastore":
        compose_config([*module.form_of_corpus(rest), *rest], "build", BUILD)
    else:
        compose_config(rest, schema=RUN)


def run_program(arguments: list[str], folder: Path) -> None:
    command = [sys.executable, "-m", *arguments]
    done = forked.run(command, env={**os.environ, "ADED_CACHE": str(folder / "cache")}, cwd=folder)
    assert done.returncode == 0, f"{shlex.join(command)}\n{done.stderr[-3000:]}"


def run_aded(arguments: list[str], folder: Path) -> None:
    name, *rest = arguments or ["--help"]
    run_program(["aded", name, *(rewritten(COMMANDS[name], rest) if name in COMMANDS else rest)], folder)


def pip_install(arguments: list[str], folder: Path) -> None:
    """A package in a folder is installed into the working directory; our own needs its extras to exist."""
    config = ConfigParser()
    config.read(ROOT / "setup.cfg")
    for option, value in pairwise(["", *arguments]):
        if option == "-c":
            assert (ROOT / value).exists(), value
        elif (folder / value).is_dir():
            alone = ["--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--target", str(folder)]
            subprocess.run([sys.executable, "-m", "pip", "install", *alone, value], cwd=folder, check=True)
        elif value not in ("-c", "-e"):
            extras = re.fullmatch(r"\.\[(.*)\]", value)
            assert extras, value
            assert set(extras[1].split(",")) <= set(config["options.extras_require"])


def print_to_file(arguments: list[str], folder: Path) -> None:
    form, *texts, _, name = arguments
    (folder / name).write_text("".join(form.replace("\\n", "\n") % text for text in texts))


def copy_folder(arguments: list[str], folder: Path) -> None:
    source, target = arguments
    shutil.copytree(ROOT / source, folder / target)


def score(arguments: list[str], folder: Path) -> None:
    command = [sys.executable, "-m", "aded", "score", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0 or "cannot be isolated here" in done.stderr, done.stderr


def make_target(arguments: list[str], folder: Path) -> None:
    """`make` installs and runs these very tests: the Makefile has the target."""
    for target in arguments:
        assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE), target


def pytest_paths(arguments: list[str], folder: Path) -> None:
    """Tests run in a test of their own: the paths exist."""
    assert all((ROOT / path).exists() for path in arguments)


def fetch_sources(arguments: list[str], folder: Path) -> None:
    """It fetches from elsewhere (tests/datastore/test_fetch.py): the names are right, and small files are there."""
    if any(argument.startswith("out=") for argument in arguments):
        run_aded(["fetch", *arguments], folder)
        return
    for name in arguments:
        if "=" not in name:
            for result in read_source(name).results:
                tokenizer = folder / HUB_IDS[0] / Path(result).name
                target = folder / "sources" / result
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(tokenizer if tokenizer.exists() else folder / result, target)
    compose_config([one for one in arguments if "=" in one], "fetch", FETCH)


def vllm_server(arguments: list[str], folder: Path) -> None:
    """It needs vLLM: the proposer that its options name is built and asked as vLLM does it."""
    from aded.engines.vllm import Proposer

    options = dict(pairwise(arguments))  # each argument with the one after it
    speculation = json.loads(options["--speculative-config"])
    config: Any = SimpleNamespace(
        speculative_config=SimpleNamespace(**speculation),
        model_config=SimpleNamespace(tokenizer=options["--model"], max_model_len=64),
        additional_config=json.loads(options["--additional-config"]),
    )
    assert speculation["model"] == f"{Proposer.__module__}.{Proposer.__name__}"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        proposer = Proposer(config)
    assert proposer.propose([[5]], np.array([8]), np.full((1, 64), 5, np.int32))


def gpu_script(arguments: list[str], folder: Path) -> None:
    """It needs a GPU: its syntax is checked, and that it takes as many arguments."""
    script = ROOT / "scripts" / "bench_gpu.sh"
    subprocess.run(["bash", "-n", str(script)], check=True)
    assert f"[ $# = {len(arguments)} ]" in script.read_text()


RULES: dict[str, Callable[[list[str], Path], None]] = {
    "VLLM_USE_V2_MODEL_RUNNER=0": vllm_server,
    "python -m pytest": pytest_paths,
    "aded score": score,
    "python -m": run_module,
    "aded fetch": fetch_sources,
    "aded": run_aded,
    "pip install": pip_install,
    "cp -r": copy_folder,
    "printf": print_to_file,
    "scripts/bench_gpu.sh": gpu_script,
    "make": make_target,
}
"""By the beginning of a command; the first that fits."""
NOT_RUN = (
    "python -m venv",  # an environment of its own, and what is fetched into it
    "source .venv/bin/activate",
    "vllm-env/bin/pip",
    "wandb sync",  # an account: tests/aded/bench/test_wandb_logger.py, tests/aded/commands/test_report_commands.py
    "aded wandb",
    "python -m scripts.results.recorded",  # it fetches all: tests/scripts/results/test_recorded_results.py
)


def run_command(arguments: list[str], folder: Path, place: str) -> None:
    if shlex.join(arguments).startswith(NOT_RUN):
        return
    for start, rule in RULES.items():
        if arguments[: len(start.split())] == start.split():
            rule(arguments[len(start.split()) :], folder)
            return
    pytest.fail(f"{place}: no rule covers {shlex.join(arguments)}")


class Block(NamedTuple):
    page: Path
    line: int
    language: str
    text: str

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}, line {self.line}"

    def commands(self) -> Iterator[list[str]]:
        for line in self.text.replace("\\\n", " ").splitlines():
            if words := shlex.split(line, comments=True):
                yield words


def fenced_blocks(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for match in re.finditer(r"^```(.*)\n((?:.*\n)*?)```$", text, re.MULTILINE):
        yield Block(page, text[: match.start()].count("\n") + 1, match[1].strip(), match[2])
