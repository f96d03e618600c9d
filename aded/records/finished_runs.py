"""The finished runs below some folders, each checked against itself; what is not whole is named and left out.

A report shows runs that were cut off too: `read_begun` reads the rows that they have.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from aded.errors import BadInput, literal
from aded.files.atomic import write_outputs
from aded.files.json_lines import json_value, read_text
from aded.identity import VOLATILE, run_id, run_ids, sha256
from aded.records.config import flat, read_config
from aded.records.environment import Environment
from aded.records.metrics import summarise
from aded.records.rows import Row, parse, read, reason
from aded.records.summary import Summary
from aded.settings import Share, checked
from aded.shown import say, warn

ELSEWHERE = ("model.answers", "model.tokenizer", "datastore.path", "benchmark.question_file")
"""Keys that say where a file lies; its fingerprint says what it holds."""
DESCRIBED = ("model.answers", "datastore.path")
"""Those whose files the environment describes by a field of its own."""
FOLDER_KEY = "RUN_FOLDER"
SAMPLES, SCORE = "samples.jsonl", "score.json"
PASSED = "passed"


@dataclass(frozen=True)
class FinishedRun:
    """One run's record, whole: its rows are those that its summary was made of."""

    folder: Path
    summary: Summary
    config: Mapping[str, Any]
    """The resolved config, keys joined by dots."""
    environment: Environment
    rows: list[Row]
    pass_at_1: float | None = None
    """What `aded score` found, or None."""
    cut_off: bool = False
    """It has rows and no summary.json: its summary is of the rows so far."""

    @property
    def method(self) -> str:
        return self.summary.method

    @property
    def benchmark(self) -> str:
        return self.summary.benchmark

    @property
    def model(self) -> str:
        """The model's name; of recorded answers that of their file, or of the folder of a run's or scorer's file.

        A pack names its model, which its runs have in place of the name `recorded`.
        """
        answers = self.config.get("model.answers")
        if answers is None or self.config.get("model.name") != "recorded":
            return Path(self.summary.model).name
        path = Path(str(answers))
        return path.parent.name if path.stem in ("rows", "samples") else path.stem

    @property
    def kind(self) -> str:
        """measured: a model decoded; recorded: its answers were replayed; trace: replayed at a real model's cost."""
        if self.config.get("model.answers") is None:
            return "measured"
        return "trace" if self.config.get("model.compute") is not None else "recorded"

    @property
    def columns(self) -> tuple[str, ...]:
        """Where its accepted tokens stand: cold, session, or both for a method that keeps nothing over questions."""
        setting = self.config.get("method.adaptation")
        scope = self.summary.adaptation or setting
        if scope == "session":
            return ("session",)
        return ("cold",) if setting == "prompt" else ("cold", "session")

    @property
    def machine(self) -> str:
        machine = self.environment.machine
        threads = f"{machine.threads} thread{'' if machine.threads == 1 else 's'}"
        return f"{machine.gpu or f'{machine.processor}, {machine.cores} cores'}, {threads}"

    @property
    def command(self) -> str | None:
        """The line for a shell that makes the run again, without the keys that say where to and how it is shown.

        None where the record has no overrides.
        """
        given = self.environment.overrides
        if given is None:
            return None
        unsaid = VOLATILE - {"record"}
        kept = [one for one in given if re.split("[=./@]", one.lstrip("+~"), maxsplit=1)[0] not in unsaid]
        return shlex.join(["aded", "run", *kept])

    @property
    def settings(self) -> dict[str, Any]:
        """What may change a number: the config without names and places, the engine that really ran, and the
        fingerprints of the files that were read."""
        kept = {
            key: value
            for key, value in self.config.items()
            if key.split(".")[0] not in VOLATILE and key not in ELSEWHERE and not key.endswith(".name")
        }
        names = ("engine", "datastore", "datastore_tokens", "datastore_prompts", "answers_sha256")
        facts = {name: getattr(self.environment, name) for name in names}
        files = {key: fingerprint for key, fingerprint in self.environment.files.items() if key not in DESCRIBED}
        return kept | files | {key: value for key, value in facts.items() if value is not None}


def named_folders(arguments: Sequence[str], example: str) -> list[Path]:
    """The folders that a command line names. Raises BadInput, with the example."""
    folders = [Path(argument) for argument in arguments]
    missing = [f"{folder} is no folder; " for folder in folders if not folder.is_dir()]
    if missing or not folders:
        raise BadInput("FOLDER", f"{''.join(missing[:1])}name folders that hold runs, as in: {example}")
    return folders


def read_runs(
    folders: Iterable[Path],
    reader: Callable[[Path], FinishedRun] | None = None,
    leave_out: Callable[[str], None] = warn,
) -> list[FinishedRun]:
    """Every whole run below the folders, by path. A run that was copied counts once.

    reader: read_run, which takes finished runs alone, or read_begun. leave_out: called with each that is left out.
    """
    found: list[FinishedRun] = []
    copies: dict[str, Path] = {}
    for folder in _run_folders(folders):
        try:
            run = (reader or read_run)(folder)
        except (OSError, ValueError) as error:
            leave_out(f"{reason(error)}; the run is left out")
            continue
        identity = sha256(folder / "rows.jsonl") + run.summary.run_id
        if identity in copies:
            leave_out(f"{folder}: a copy of {copies[identity]}; it counts once")
            continue
        copies[identity] = folder
        found.append(run)
    return found


def _run_folders(folders: Iterable[Path]) -> list[Path]:
    """Folders that hold any of a run's own files, each once; hidden ones and those of W&B are passed over."""
    found = set()
    for top in folders:
        for path in [*top.rglob("rows.jsonl"), *top.rglob("summary.json")]:
            if not any(part == "wandb" or part.startswith(".") for part in path.relative_to(top).parts):
                found.add(path.parent)
    return sorted(found)


def is_finished(folder: Path) -> bool:
    """Does the folder hold a run that has ended?"""
    return (folder / "summary.json").exists()


def read_finished(folder: Path, key: str) -> FinishedRun:
    """The finished run in a folder that the user named by `key`. Raises BadInput."""
    try:
        return read_run(folder)
    except (OSError, ValueError) as error:
        raise BadInput(key, f"{folder} is no finished run ({error})") from None


def read_run(folder: Path) -> FinishedRun:
    """Raises ValueError or OSError, naming the file, where the record is not whole."""
    if not is_finished(folder):
        raise ValueError(f"{folder}: an unfinished run (no summary.json)")
    summary = read(Summary, folder / "summary.json")
    config = read_config(folder / "config.yaml")
    environment = read(Environment, folder / "environment.json")
    if summary.run_id not in run_ids(config, environment.files):  # a cut file is a config still
        raise ValueError(f"{folder / 'config.yaml'}: not the config of run {summary.run_id}")
    rows = list(_parsed((folder / "rows.jsonl").read_bytes(), folder / "rows.jsonl"))
    for key, value in (
        ("turns", len(rows)),
        ("steps", sum(row.steps for row in rows)),
        ("new_tokens", sum(row.new_tokens for row in rows)),
    ):
        if getattr(summary, key) != value:
            raise ValueError(
                f"{folder / 'rows.jsonl'}: {value} {key}, where summary.json says {getattr(summary, key)}"
            )
    if not (folder / SAMPLES).exists():
        warn(f"{folder / SAMPLES}: missing; the rows are whole, so the run counts")
    return _literal(FinishedRun(folder, summary, dict(flat(config)), environment, rows, _pass_at_1(folder)))


def read_begun(folder: Path) -> FinishedRun:
    """As read_run, and a run that was cut off, by the rows that it has. Raises ValueError or OSError."""
    if is_finished(folder):
        return read_run(folder)
    rows = list(whole_rows(folder / "rows.jsonl"))
    if not rows:
        raise ValueError(f"{folder}: a run without a row yet")
    config, environment = read_config(folder / "config.yaml"), read(Environment, folder / "environment.json")
    settings = dict(flat(config))
    names = {group: str(settings.get(f"{group}.name")) for group in ("method", "model", "benchmark")}
    summary = summarise(rows, **names, run_id=run_id(config, environment.files), drafter=None)
    return _literal(FinishedRun(folder, summary, settings, environment, rows, cut_off=True))


def _literal(run: FinishedRun) -> FinishedRun:
    """The run with its names, settings and categories as they may be shown."""
    summary = run.summary
    summary = replace(
        summary,
        method=literal(summary.method),
        model=literal(summary.model),
        benchmark=literal(summary.benchmark),
        marks=[literal(mark) for mark in summary.marks],
    )
    config = {literal(key): literal(value) if isinstance(value, str) else value for key, value in run.config.items()}
    machine = run.environment.machine
    machine = replace(machine, processor=literal(machine.processor), gpu=machine.gpu and literal(machine.gpu))
    rows = [row if row.category.isprintable() else replace(row, category=literal(row.category)) for row in run.rows]
    environment = replace(run.environment, machine=machine)
    return replace(run, summary=summary, config=config, environment=environment, rows=rows)


def whole_rows(path: Path) -> Iterator[Row]:
    """The rows of a run that may have been cut off: its last line may be half one. Raises ValueError or OSError."""
    content = path.read_bytes()
    return _parsed(content[: content.rfind(b"\n") + 1], path)


def _parsed(content: bytes, path: Path) -> Iterator[Row]:
    seen = set()
    for number, line in enumerate(content.splitlines(), 1):
        where = f"{path}: line {number}"
        row = parse(Row, line, where)
        if (row.question_id, row.turn) in seen:
            raise ValueError(f"{where} repeats question {row.question_id}, turn {row.turn}")
        seen.add((row.question_id, row.turn))
        whole = row.new_tokens == sum(row.accept_lengths) <= len(row.token_ids)
        if not whole or row.steps != len(row.accept_lengths):
            raise ValueError(f"{where} disagrees with its own accept_lengths")
        if len(row.drafted_nodes) != row.steps:
            raise ValueError(f"{where} has {len(row.drafted_nodes)} drafted_nodes in {row.steps} steps")
        yield row


def _pass_at_1(folder: Path) -> float | None:
    """That of score.json; one that is damaged, or of other samples, is named and left out."""
    try:
        return read_pass_at_1(folder)
    except (ValueError, OSError) as error:
        warn(f"{reason(error)}; the score is left out")
        return None


def write_score(folder: Path, results: Mapping[str, str], how: Mapping[str, Any]) -> dict[str, Any]:
    """Write score.json, say so on stdout, and return what it holds: pass@1 = answers passed / answers.

    results: of each answer PASSED, or why it failed. how: the scorer's version and limits
    """
    passed = sum(result == PASSED for result in results.values())
    score = {
        "pass@1": passed / len(results),
        "passed": passed,
        "problems": len(results),
        "samples_sha256": sha256(folder / SAMPLES),
        **how,
        "results": dict(results),
    }
    write_outputs(folder, {SCORE: (json.dumps(score, indent=1) + "\n").encode()}, FOLDER_KEY)
    say(f"pass@1 {score['pass@1']:.3f} ({passed} of {len(results)})  {folder / SCORE}")
    return score


def read_pass_at_1(folder: Path) -> float | None:
    """Of a scored run; else None. Raises OSError, and ValueError unless the score is whole and of these samples."""
    path, samples = folder / SCORE, folder / SAMPLES
    if not path.exists():
        return None
    try:
        score = json_value(read_text(path, FOLDER_KEY), FOLDER_KEY, str(path))
        rate, scored = checked(score["pass@1"], Share, "pass@1"), score["samples_sha256"]
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{path}: no score of `aded score`") from error
    if not samples.exists() or scored != sha256(samples):
        raise ValueError(f"{path}: the score of other samples")
    return float(rate)
