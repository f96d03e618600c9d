"""Command lines with damaged overrides, up to the first answer: recorded answers, a tiny tokenizer, no model."""

import math
import random
from collections import Counter
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from answer_lines import replay_of, write_replay
from omegaconf import DictConfig, OmegaConf
from small_ngrams import write_small_ngrams, write_small_suffixes
from tiny import tiny_tokenizer

from aded.bench.run import build_drafter, checked_config, experiment_of, load_model
from aded.bench.runner import Runner
from aded.config.command_line import INPUT_ERRORS, compose_config
from aded.records.config import flat
from fuzz.outcome import outcome

METHODS = (
    *("aded", "aded_best_first", "aded_backoff", "prompt_lookup", "rest", "aded method/draft_maker=greedy"),
    *("aded_backoff +method/parts=no_copy", "custom method._target_=baselines.tokens.prompt_lookup.PromptLookup"),
)
NUMBERS = "nan inf -inf -1 0 1 2 3 1e-320 1e999 1e30 2.5 3.0 65536 99999999999999999999 1_000 0x10 1:30"
WORDS = "true false null abc maybe a=b a,b os.system builtins.dict pathlib.Path - -- !!python/object:x %s @ &a"
YAML = "[] [1] [[]] {} [null] [''] '' [1, ' \\ ??? ${ ${x} ${method.name} ${oc.env:NO_SUCH} '\udcff' \udcff '\\0'"
PATHS = "/ /dev/null /proc/self/mem ~nobody/x . é東😀"
NASTY = [
    *f"{NUMBERS} {WORDS} {YAML} {PATHS}".split(" "),
    *("", "\0", "\n", "\t", "a" * 300, "a/" * 3000, "{a: 1}", "[" * 10 + "1" + "]" * 10),
    *("{_target_: pathlib.Path}", "{_target_: baselines.tokens.rest.Rest}", "[{_target_: os.getcwd}]"),
]
UNKNOWN = (
    *("zzz", "foo.bar", "method.zzz", "benchmark.zzz", "model.zzz", "decoding.zzz", "paths.zzz", "datastore.zzz"),
    *("datastore.corpus.zzz", "logger.zzz", "model.template.zzz", "method._partial_", "method._args_"),
)


def _inputs(folder: Path) -> list[str]:
    """Overrides that name the files of a replay."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer, text = tiny_tokenizer(), "the cat sat on the mat, the cat sat on the hat"
    tokenizer.save_pretrained(folder / "tok")
    documents = [np.array(tokenizer(text)["input_ids"])]
    write_small_ngrams(folder / "d.ngrams", documents, len(tokenizer), 5, tokenizer)
    write_small_suffixes(folder / "d.suffixes", documents, len(tokenizer), tokenizer)
    write_replay(folder, [[text]])
    short = ["benchmark.max_new_tokens=24", f"output_dir={folder}/out", "progress=false"]
    return [*replay_of(folder), f"model.tokenizer={folder}/tok", *short]


def _kind(value: object) -> type:
    return float if type(value) in (int, float) else type(value)


def build(cfg: DictConfig) -> dict[str, Any]:
    """Build what the config describes and answer the first question; the config's values by key."""
    config = checked_config(cfg)
    if config.logger:
        config.logger()
    experiment = experiment_of(config, config.asked(), load_model)
    runner = Runner(experiment, build_drafter(config, experiment.loaded))
    for rows in runner.answer(experiment.asked.chosen[:1], start=0):
        assert all(one.token_ids for one in rows)
    close = getattr(runner.drafter, "close", None)
    if close:
        close()
    return dict(flat(OmegaConf.to_container(cfg, resolve=True)))


def fuzz_overrides(folder: Path, numbers: Iterable[int]) -> tuple[Counter[str], list[str]]:
    """(how many were refused, and right; the faults). Each command line depends on its number alone."""
    usual, found, faults = _inputs(folder), Counter[str](), []
    known: dict[str, dict[str, Any]] = {}
    for number in numbers:
        rng = random.Random(str(number))
        method = rng.choice(METHODS)
        datastore = "suffixes" if method == "rest" else "ngrams"
        base = [*usual, f"datastore.path={folder}/d.{datastore}", *f"method={method}".split(" ")]
        if method not in known:
            known[method] = dict(flat(OmegaConf.to_container(compose_config(base), resolve=True)))
            first = outcome(partial(_built, base), INPUT_ERRORS, bool)
            assert first == "right", f"{method}: {first}"
        damage = [_override(rng, list(known[method])) for _ in range(rng.choice((1, 1, 2)))]
        keys = {one.lstrip("+~").partition("=")[0] for one in damage}
        result = outcome(partial(_built, [*base, *damage]), INPUT_ERRORS, partial(_right, keys, known[method]))
        if result not in ("refused", "right"):
            faults.append(f"{number}: method={method} {[one[:80] for one in damage]}: {result}")
        found[result.partition(":")[0]] += 1
    return found, faults


def _built(overrides: list[str]) -> dict[str, Any]:
    return build(compose_config(overrides))


def _right(keys: set[str], before: dict[str, Any], values: Any) -> bool:
    """Is each value of the kind that it was before, and no key new that nothing reads?"""
    for key in keys:
        if key in UNKNOWN and key in values:
            return False
        if key in values and key in before and None not in (values[key], before[key]):
            finite = not isinstance(values[key], float) or math.isfinite(values[key])
            if _kind(values[key]) is not _kind(before[key]) or not finite:
                return False
    return True


def _override(rng: random.Random, keys: list[str]) -> str:
    key = rng.choice(UNKNOWN) if rng.random() < 0.1 else rng.choice(keys)
    if rng.random() < 0.1:
        key = key.rpartition(".")[0] or key
    sign = rng.choice(("", "", "", "", "+", "++", "~"))
    return f"~{key}" if sign == "~" else f"{sign}{key}={rng.choice(NASTY)}"
