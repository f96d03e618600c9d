"""The one dialect of all commands: KEY=VALUE, files as they are, bad input in one line."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from aded.bench.build import checked_config
from aded.config.command_line import compose_config, ending_in_one_line, name_pretrained, run_command, split_settings
from aded.errors import BadInput
from aded.settings import FilePath, checked


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
        (["out=007"], Settings(out="007"), []),
        (["out=1e5"], Settings(out="1e5"), []),
        (["folder=2026 #2"], Settings(folder="2026 #2"), []),
        (["out=null"], Settings(), []),
        (["engines=[eager,compiled]"], Settings(engines=["eager", "compiled"]), []),
        (["nodes=[1,8]", "model.dtype=float32"], Settings(nodes=[1, 8]), ["model.dtype=float32"]),
    ],
)
def test_settings_are_taken_out_of_the_arguments(
    arguments: Sequence[str], expected: Settings, rest: Sequence[str]
) -> None:
    assert split_settings(Settings, arguments) == (expected, rest)


@pytest.mark.parametrize(
    "argument", ["rounds=many", "execute=perhaps", "share=[1]", "nodes=[a]", "rounds=", "nodes=[1"]
)
def test_a_wrong_value_names_its_key(argument: str) -> None:
    with pytest.raises(BadInput, match=rf"^{argument.partition('=')[0]}(\[0\])?: .+") as error:
        split_settings(Settings, [argument])
    assert "\n" not in str(error.value)


def call(monkeypatch: pytest.MonkeyPatch, *arguments: str, hydra: bool = False) -> list[str]:
    seen: list[str] = []
    monkeypatch.setattr(sys, "argv", ["command", *arguments])
    run_command(lambda rest, settings: seen.extend(rest), Settings, "What it does.\n", hydra=hydra)
    return seen


def test_help_prints_what_a_command_does(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(monkeypatch, "a", "--help") == []
    assert capsys.readouterr().out == "What it does.\n"


@pytest.mark.parametrize("argument", ["foo=1", "--foo"])
def test_an_unknown_key_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], argument: str
) -> None:
    with pytest.raises(SystemExit) as stop:
        call(monkeypatch, argument)
    message = capsys.readouterr().err
    assert stop.value.code == 2
    assert "no such key; there are out, rounds, share, execute, memory_mb, nodes, engines" in message
    assert message.count("\n") == 1
    assert call(monkeypatch, argument, hydra=True) == [argument], "Hydra looks at it later"


def test_a_file_may_have_an_equals_sign(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "seed=1").mkdir()
    assert call(monkeypatch, str(tmp_path / "seed=1")) == [str(tmp_path / "seed=1")]


def test_ctrl_c_ends_with_130(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt(rest: list[str], settings: Settings) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sys, "argv", ["command"])
    with pytest.raises(SystemExit) as stop:
        run_command(interrupt, Settings, "")
    assert stop.value.code == 130
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    "override", ["logger=null", "logger=3", "method=[3]", "method=nan,aded", "=3", "logger=" + "a" * 300]
)
def test_a_choice_that_is_no_name_is_refused(override: str) -> None:
    with pytest.raises(BadInput, match=r"is no config; there are|names no key|a file can have"):
        name_pretrained([override])
    given = ["logger=none", "method=aded,rest", "hydra.run.dir=3", "-m", "~logger", "method=glob(a*)", "model=a,b"]
    assert name_pretrained(given) == given


def test_what_other_peoples_scripts_say_of_pairing_is_understood() -> None:
    assert compose_config(["paired=false"]).pairing == "off"
    assert compose_config(["paired=true", "pairing=answers"]).pairing == "answers"


@pytest.mark.parametrize("path", ["/some/where", "org/name-1.5b", "~/m", "/my model (v2)", "/run=3/m", "/it's"])
def test_a_model_that_no_config_knows_is_a_path(path: str) -> None:
    cfg = compose_config([f"model={path}", "method=autoregressive"])
    assert (cfg.model.path, cfg.model._target_) == (path, "aded.targets.load.load_target")


@pytest.mark.parametrize("path", ["~/a file (1).jsonl", "it's.jsonl", "a=b/c.jsonl", "[a"])
def test_what_hydra_cannot_read_is_text(path: str) -> None:
    assert compose_config([f"benchmark.question_file={path}", "benchmark=prompts"]).benchmark.question_file == path


def test_home_is_that_of_a_user_who_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home")
    assert checked("~/x", FilePath, "out") == "~/x"
    with pytest.raises(BadInput, match=r"^out: '~nobody-of-this-name/x' must begin with the home folder"):
        checked("~nobody-of-this-name/x", FilePath, "out")


def test_the_settings_of_ones_own_class_are_said_to_take_a_plus(capsys: pytest.CaptureFixture[str]) -> None:
    overrides = ["method=custom", "method._target_=mine.Mine", "method.length=3"]
    with pytest.raises(SystemExit), ending_in_one_line(""):
        compose_config(overrides)
    line = "method.length: no such key; there are name, _target_, cost; for your class: +method.length=\n"
    assert capsys.readouterr().err == line


@pytest.mark.parametrize(
    ("override", "key", "near"),
    [
        ("metod=x", "metod", "method"),
        ("method.bugdet=3", "method.bugdet", "budget"),
        ("+method.bugdet=3", "method.bugdet", "budget"),
        ("benchmark.limt=1", "benchmark.limt", "limit"),
        ("method.draft_maker.zzz=1", "method.draft_maker.zzz", ""),
    ],
)
def test_a_misspelt_key_lists_those_there_are(
    capsys: pytest.CaptureFixture[str], override: str, key: str, near: str
) -> None:
    with pytest.raises(SystemExit) as stop, ending_in_one_line(""):
        checked_config(compose_config([override]))
    line = capsys.readouterr().err
    name = key.rpartition(".")[2]
    assert (stop.value.code, line.count("\n")) == (2, 1)
    assert line.startswith(f"{key}: no such key; there are ")
    assert name not in line.partition("there are")[2]
    assert line.strip().endswith(f"did you mean {near}?") if near else "did you mean" not in line


@pytest.mark.parametrize(
    ("target", "code", "said"),
    [
        ("mine.Drafts", 0, "(mine.Drafts)"),
        ("mine.Missing", 2, "method._target_: mine.Missing is no class here"),
        ("no_such_file.Drafts", 2, "method._target_: no_such_file.Drafts is no class here"),
    ],
)
def test_help_finds_a_class_in_the_working_directory_or_says_so(
    tmp_path: Path, target: str, code: int, said: str
) -> None:
    (tmp_path / "mine.py").write_text(
        "class Drafts:\n    '''length: of a draft'''\n    def __init__(self, length=3): pass\n"
    )
    command = [sys.executable, "-P", "-m", "aded", "run", "method=custom", f"method._target_={target}", "-h"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == code
    assert said in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
