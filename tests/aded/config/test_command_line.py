"""The one dialect of all commands: KEY=VALUE, files as they are, bad input in one line."""

import re
import sys
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
from command import Command
from packed import small_pack

from aded.bench.run import checked_config
from aded.commands import run
from aded.config.command_line import compose_config, ending_in_one_line, name_pretrained, run_command, split_settings
from aded.errors import BadInput
from aded.settings import FilePath


@dataclass
class Settings:
    out: str | None = None
    rounds: int = 3
    share: float = 0.5
    execute: bool = False
    memory_mb: int = 1
    nodes: list[int] = field(default_factory=lambda: [1, 2])
    engines: list[str] = field(default_factory=list)
    folder: FilePath | None = None


@pytest.mark.parametrize(
    ("arguments", "expected", "rest"),
    [
        ([], Settings(), []),
        (["a", "out=b=c", "d"], Settings(out="b=c"), ["a", "d"]),
        (["rounds=5", "share=1e-1", "execute=true"], Settings(rounds=5, share=0.1, execute=True), []),
        (["--rounds", "5", "--memory-mb=7", "--execute", "a"], Settings(rounds=5, memory_mb=7, execute=True), ["a"]),
        (["out=1e5", "folder=2026 #2"], Settings(out="1e5", folder="2026 #2"), []),
        (["out=null"], Settings(), []),
        (["nodes=[1,8]", "model.dtype=float32"], Settings(nodes=[1, 8]), ["model.dtype=float32"]),
    ],
)
def test_settings_are_taken_out_of_the_arguments(arguments: list[str], expected: Settings, rest: list[str]) -> None:
    assert split_settings(Settings, arguments) == (expected, rest)


@pytest.mark.parametrize("argument", ["rounds=many", "execute=perhaps", "nodes=[a]", "rounds=", "nodes=[1"])
def test_a_wrong_value_names_its_key(argument: str) -> None:
    with pytest.raises(BadInput, match=rf"^{argument.partition('=')[0]}(\[0\])?: .+$"):
        split_settings(Settings, [argument])


def shows_the_rest(*, hydra: bool = False) -> None:
    run_command(lambda rest, settings: print(rest), Settings, "What it does.\n", hydra=hydra)


@pytest.mark.parametrize("argument", ["foo=1", "--foo"])
def test_an_unknown_key_is_refused(command: Command, argument: str) -> None:
    line = command.refusal(shows_the_rest, argument)
    assert "no such key; there are out, rounds, share, execute, memory_mb, nodes, engines" in line
    assert command(partial(shows_the_rest, hydra=True), argument).out == f"{[argument]}\n", "Hydra looks at it later"


def test_help_is_what_a_command_does_and_a_file_may_have_an_equals_sign(command: Command, tmp_path: Path) -> None:
    assert command(shows_the_rest, "a", "--help").out == "What it does.\n"
    (tmp_path / "seed=1").mkdir()
    assert command(shows_the_rest, f"{tmp_path}/seed=1").out == f"{[f'{tmp_path}/seed=1']}\n"


@pytest.mark.parametrize(
    "override", ["logger=null", "logger=3", "method=[3]", "method=nan,aded", "=3", "logger=" + "a" * 300]
)
def test_a_choice_that_is_no_name_is_refused(override: str) -> None:
    with pytest.raises(BadInput, match=r"is no config; there are|names no key|a file can have"):
        name_pretrained([override])
    given = ["logger=none", "method=aded,rest", "hydra.run.dir=3", "-m", "~logger", "method=glob(a*)", "model=a,b"]
    assert name_pretrained(given) == given


def test_what_older_scripts_say_of_pairing_is_understood() -> None:
    assert compose_config(["paired=false"]).pairing == "off"
    assert compose_config(["paired=true", "pairing=answers"]).pairing == "answers"


@pytest.mark.parametrize("path", ["org/name-1.5b", "~/my model (v2)", "/run=3/m", "/it's", "[a"])
def test_a_model_that_no_config_knows_is_a_path_and_what_hydra_cannot_read_is_text(path: str) -> None:
    cfg = compose_config([f"model={path}", "benchmark=prompts", f"benchmark.question_file={path}"])
    assert (cfg.model.path, cfg.model._target_) == (path, "aded.targets.load.load_target")
    assert cfg.benchmark.question_file == path


@pytest.mark.parametrize(
    ("overrides", "key", "end"),
    [
        (["metod=x"], "metod", "did you mean method?"),
        (["benchmark.limt=1"], "benchmark.limt", "did you mean limit?"),
        (
            ["method=custom", "method._target_=mine.Mine", "method.length=3"],
            "method.length",
            "name, _target_, cost; for your class: +method.length=",
        ),
    ],
)
def test_a_misspelt_key_lists_those_there_are(command: Command, overrides: list[str], key: str, end: str) -> None:
    def check() -> None:
        with ending_in_one_line(""):
            checked_config(compose_config(overrides))

    line = command.refusal(check)
    assert line.startswith(f"{key}: no such key; there are ")
    assert line.strip().endswith(end)


def test_help_finds_a_class_in_the_working_directory(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "class Drafts:\n    '''length: of a draft'''\n    def __init__(self, length=3): pass\n"
    (tmp_path / "of_a_user.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place])
    monkeypatch.delitem(sys.modules, "of_a_user", raising=False)
    page = command(run.main, "method=custom", "method._target_=of_a_user.Drafts", "-h").out
    assert "(of_a_user.Drafts)" in page
    assert re.search(r"^  \+method\.length=3 +of a draft$", page, re.MULTILINE)


def test_a_pack_brings_its_questions_unless_a_benchmark_is_named(tmp_path: Path) -> None:
    small_pack(tmp_path / "tiny")
    pack = f"model.answers={tmp_path / 'tiny'}"
    assert "benchmark=pack" in name_pretrained(["model=recorded", pack])
    assert "benchmark=pack" not in name_pretrained(["benchmark=human_eval", pack])
