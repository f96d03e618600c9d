"""What every method must do, tested for every config in conf/method/: a new config is tested without a new test.

check_drafter tries what every drafter must do. Here stands what it cannot know: budgets, real engines, limits, files.
A method's drafter serves one test after another, since `reset` makes it a new one. With TEST_DEVICE=cuda all of it
runs on a GPU, whose compiled steps are captured.
"""

import os
from collections.abc import Callable
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_up_run import row
from method_files import make_files
from omegaconf import DictConfig, OmegaConf
from tiny import tiny_model, tiny_tokenizer

from aded.bench.recording import feed_answer
from aded.bench.run import build_drafter, checked_config
from aded.config.choices import read_choice
from aded.config.command_line import CONF, compose_config, plain
from aded.config.methods import datastore_kinds, with_whole_parts
from aded.core.decode import Answer, Arm, decode, steps, take_turns
from aded.core.drafter import Drafter
from aded.core.sampler import Decoding, Greedy, Recorded, Sampler
from aded.errors import EXTRAS
from aded.targets.compiled_target import CompiledCpuTarget, CudaGraphTarget
from aded.targets.eager import EagerTarget
from aded.targets.engine import Loaded
from aded.testing import QUICK_CHECKS, SESSION, VOCABULARY, Watched, memory_is_bounded
from baselines.autoregressive import Autoregressive

CONFIGS = {path.stem: OmegaConf.load(path) for path in sorted((CONF / "method").glob("*.yaml"))}
METHODS = [name for name, config in CONFIGS.items() if not OmegaConf.is_missing(config, "_target_")]
"""A config without a class, such as `custom`, is no method."""
DRAFTING = [name for name in METHODS if name != "autoregressive"]
SEEDED = [name for name in METHODS if name != "draftretriever"]
"""The package draftretriever draws without a seed and orders by hashes, so its drafts differ from run to run."""
PACKAGES = {"suffix_decoding": "arctic_inference", "draftretriever": "draftretriever"}
"""Of methods that are left out where the package is not installed: draftretriever has no build for Python 3.13."""
GREEDY = Decoding()
SAMPLED = Decoding(0.9, 0.9, 1, top_k=40, min_p=0.01, repetition_penalty=1.05)
TOKENS = 40
KNOWN = VOCABULARY - 4
"""Tokens from here on occur in no prompt and in no datastore."""
LONG = np.tile(np.random.default_rng(0).integers(KNOWN, size=12), 3)
PROMPTS = [LONG, LONG[5:30], LONG[:2], LONG[3:4]]

HEADS = {"dflash": "dflash", "eagle": "eagle2", "eagle2": "eagle2", "eagle3": "eagle3"}
"""Methods whose heads have a folder of their own."""
DEEP = {"eagle", "eagle2", "eagle3", "draft_model", "layer_skip"}
FIXED: dict[str, object] = {"cost": "none"}
"""Measured costs differ from run to run, and so would the trees."""
SHORT: dict[str, object] = {
    "ngrams": {"_target_": "baselines.engines.llama_cpp_ngram.NgramMod", "n_match": 2, "n_min": 0}
}
"""Settings for texts of a few dozen tokens, of methods that draft in longer ones only."""
DEVICE = os.environ.get("TEST_DEVICE", "cpu")
READ = (0, 1)
"""Layers that all targets read, since a drafter is set up for one of them and answers on the others too."""

Build = Callable[..., Drafter]
Engine = Callable[[], EagerTarget]


def placed_model(**settings: Any) -> Any:
    """The tiny model, on the device that is tested."""
    model: Any = tiny_model(**settings)
    return model.to(DEVICE)


@cache
def target() -> EagerTarget:
    return EagerTarget(placed_model())


@cache
def short_target() -> EagerTarget:
    """A target with a context of 32 tokens."""
    found = EagerTarget(placed_model(max_position_embeddings=32))
    found.read_layers(READ)
    return found


@cache
def compiled_target() -> EagerTarget:
    """Traced by torch.compile. tests/aded/kernels/test_attention.py tests what inductor makes of a trace."""
    compiled = CompiledCpuTarget if DEVICE == "cpu" else CudaGraphTarget
    found = compiled(placed_model(), backend="eager")
    found.read_layers(READ)
    return found


@cache
def config_of(name: str) -> DictConfig:
    """The config of a run with this method, composed once, because that takes longer than a tiny model's answer."""
    return compose_config([f"method={name}"])


def keys_of(name: str) -> frozenset[str]:
    """The keys of a method's config."""
    return frozenset(read_choice("method", name))


SCOPES = [
    (name, scope)
    for name in SEEDED
    for scope in (("session", "prompt") if "adaptation" in keys_of(name) else ("its own",))
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that methods read, made for the tiny model."""
    answers = [np.array([token for token in answer_of(prompt) if token < KNOWN]) for prompt in PROMPTS]
    return make_files(tmp_path_factory.mktemp("files"), target().model, answers, READ)


@pytest.fixture(scope="module")
def new(folder: Path) -> Build:
    """(method, settings) -> a new drafter for the tiny model. Settings that the method does not have are ignored."""

    def build_one(name: str, **settings: object) -> Drafter:
        cfg = deepcopy(config_of(name))
        files = {
            "heads": folder / HEADS.get(name, "."),
            "model": folder / "draft",
            "retrieval": folder / "tiny.suffixes",
            "lookup": folder / "tiny.lookup",
        }
        depth = {"depth": 3} if name in DEEP else {}  # deeper trees take longer and show nothing else
        paths = {key: str(path) for key, path in files.items()}
        given = {**FIXED, **SHORT, **paths, "layers": 1, **depth, **settings}
        cfg.method.update({key: value for key, value in given.items() if key in cfg.method})
        kinds = datastore_kinds(with_whole_parts(plain(cfg.method)))
        cfg.datastore.path = f"{folder / 'tiny'}.{''.join(kinds)}"
        cfg.paths.cache = str(folder)
        if module := PACKAGES.get(name):
            pytest.importorskip(module, reason=f"the extra `{EXTRAS[module]}` is not installed")
        return build_drafter(checked_config(cfg), Loaded(target(), tiny_tokenizer(), frozenset()))

    return build_one


@pytest.fixture(scope="module")
def build(new: Build) -> Build:
    """As `new`, but a drafter that was built before is reset and serves again."""
    built = dict[str, Drafter]()

    def build_one(name: str, **settings: object) -> Drafter:
        key = f"{name} {settings}"
        drafter = built[key] = built.get(key) or new(name, **settings)
        drafter.reset()
        return drafter

    return build_one


def answered(
    drafter: Drafter,
    prompt: np.ndarray,
    sampler: Sampler | None = None,
    tokens: int = TOKENS,
    engine: Engine = target,
) -> Answer:
    return decode(engine(), drafter, prompt, sampler or Greedy(), max_new_tokens=tokens, seed=7)


@cache
def autoregressive_answer(prompt: tuple[int, ...], decoding: Decoding) -> list[int]:
    return answered(Autoregressive(), np.array(prompt), decoding.sampler(1, 0)).token_ids


def answer_of(prompt: np.ndarray, decoding: Decoding = GREEDY) -> list[int]:
    return autoregressive_answer(tuple(prompt.tolist()), decoding)


def test_methods_are_found() -> None:
    assert {"autoregressive", "aded"} <= set(METHODS) - {"custom"} == set(METHODS)
    assert all("budget" in keys_of(name) for name in DRAFTING)


@pytest.mark.parametrize(("name", "scope"), SCOPES)
def test_a_method_keeps_the_contract(new: Build, name: str, scope: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aded.testing.tiny_target", target)  # the model that the files were made for
    for check in QUICK_CHECKS:
        check(lambda: new(name, adaptation=scope))


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "scope"), SCOPES)
def test_a_methods_memory_is_bounded(new: Build, name: str, scope: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aded.testing.tiny_target", target)
    monkeypatch.setattr("aded.testing.SESSION", SESSION // 2)  # there are many methods
    memory_is_bounded(lambda: new(name, adaptation=scope))


@pytest.mark.parametrize("decoding", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize("name", METHODS)
def test_on_the_compiled_engine_answers_are_those_of_the_eager_one_also_in_slices(
    build: Build, new: Build, name: str, decoding: Decoding
) -> None:
    """One drafter answers all prompts, one of one token: learned state must not change an answer.

    Nor do slices, where arms take turns after every step, and where the baseline goes first.
    """
    alone, sliced, baseline = build(name), new(name), compiled_target().fork()
    settings: dict[str, Any] = {"max_new_tokens": TOKENS, "seed": 7}
    for prompt, first, seconds in ((LONG, 0, 0.0), (LONG[3:4], 1, 0.001)):
        sampler = decoding.sampler(1, 0)
        wanted = answer_of(prompt, decoding)
        whole = answered(alone, prompt, sampler, engine=compiled_target)
        arms = [
            Arm(steps(compiled_target(), sliced, prompt, sampler, **settings)),
            Arm(steps(baseline, Autoregressive(), prompt, sampler, **settings)),
        ]
        turns = sum(1 for _ in take_turns(arms[first], arms[1 - first], seconds))
        answer, plain = (arm.answer for arm in arms)
        assert turns > 2
        assert answer.token_ids == plain.token_ids == whole.token_ids == wanted
        if name in SEEDED:
            assert answer.accept_lengths == whole.accept_lengths
            assert answer.drafted_nodes == whole.drafted_nodes


@pytest.mark.parametrize("name", DRAFTING)
def test_drafts_are_accepted(build: Build, name: str) -> None:
    """The datastore has the answers, the prompts repeat tokens, and each prompt is answered twice."""
    drafter = build(name)
    answers = [answered(drafter, prompt) for prompt in PROMPTS[:2] * 2]
    assert sum(answer.new_tokens for answer in answers) > sum(len(answer.accept_lengths) for answer in answers)


@pytest.mark.parametrize("budget", [0, 1, 64, *(pytest.param(each, marks=pytest.mark.thorough) for each in (4, 128))])
@pytest.mark.parametrize("name", DRAFTING)
def test_the_budget_is_kept(build: Build, name: str, budget: int) -> None:
    """Every method takes all budgets from 0 to 128. A method that can use no more than some of it drafts fewer."""
    drafter = build(name, budget=budget)
    for prompt in (LONG, LONG[3:4]):
        answer = answered(drafter, prompt)
        assert max(answer.drafted_nodes) <= budget
        assert answer.token_ids == answer_of(prompt)


@pytest.mark.parametrize("budget", [0, 4, 128])
def test_a_hybrid_with_heads_is_exact_at_every_budget(new: Build, folder: Path, budget: int) -> None:
    """Its parts search beside each other, and read logits and hidden states of nodes that others drafted."""
    settings = {"medusa": {"heads": str(folder)}}
    drafter = new("hybrid", parts=["aded_backoff", "token_recycling", "medusa"], settings=settings, budget=budget)
    for prompt in PROMPTS:
        for decoding in (GREEDY, Decoding(0.9, 0.9, 3)):
            answer = answered(drafter, prompt, decoding.sampler(1, 0))
            assert answer.token_ids == answer_of(prompt, decoding)
            assert max(answer.drafted_nodes) <= budget


@pytest.mark.parametrize("name", [name for name, scope in SCOPES if scope == "session"])
def test_with_scope_session_learned_state_is_kept(build: Build, new: Build, name: str) -> None:
    used, fresh = (Watched(made(name, adaptation="session")) for made in (build, new))
    for watched, prompts in ((used, PROMPTS[1::-1]), (fresh, PROMPTS[:1])):
        watched.requires = watched.drafter.requires
        for prompt in prompts:
            answered(watched, prompt)
    assert used.trees[-len(fresh.trees) :] != fresh.trees


@pytest.mark.parametrize(("name", "scope"), [(name, scope) for name, scope in SCOPES if scope != "prompt"])
def test_brought_to_an_answers_end_a_method_drafts_what_it_drafted_then(
    build: Build, new: Build, name: str, scope: str
) -> None:
    """From the answer's row alone; a method that reads logits or hidden states answers again, see Runner.restore."""
    used, fresh = (Watched(made(name, adaptation=scope)) for made in (build, new))
    first = answered(used, PROMPTS[0])
    if not fresh.drafter.requires:
        answer = row(0, 0, first.accept_lengths, token_ids=first.token_ids)
        feed_answer(fresh, PROMPTS[0], answer, Greedy(), seed=7)
    for watched in (used, fresh):
        watched.trees.clear()
        watched.requires = watched.drafter.requires
    if fresh.requires:
        answered(fresh, PROMPTS[0], Recorded(first.token_ids))
        fresh.trees.clear()
    for watched in (used, fresh):
        answered(watched, PROMPTS[1])
    assert used.trees == fresh.trees


@pytest.mark.parametrize("name", METHODS)
def test_an_answer_ends_at_the_limit_and_where_the_models_context_ends(build: Build, name: str) -> None:
    small, drafter = short_target(), build(name)
    for tokens in (1, 2, 3):
        assert answered(drafter, LONG, tokens=tokens).token_ids == answer_of(LONG)[:tokens]
    for length in (1, 31):
        expected = decode(small, Autoregressive(), LONG[:length], Greedy(), max_new_tokens=TOKENS)
        answer = decode(small, drafter, LONG[:length], Greedy(), max_new_tokens=TOKENS)
        assert answer.token_ids == expected.token_ids
        assert len(answer.token_ids) == 32 - length


@pytest.mark.parametrize("name", METHODS)
def test_a_config_begins_with_its_command(name: str) -> None:
    first = (CONF / "method" / f"{name}.yaml").read_text().splitlines()[0]
    assert first.startswith("# aded run ")
    assert f"method={name}" in first.split()
