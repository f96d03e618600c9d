"""Records a model's answers as a pack: aded record model=NAME benchmark=NAME out=FOLDER [KEY=VALUE ...]

    out        the pack: a folder with pack.json and answers.jsonl.xz (aded.files.pack)
    licence    of the answers, as an SPDX identifier such as Apache-2.0: whoever gets the pack needs to know it

All other keys are those of a run, which the command carries out, or goes on with, and then packs. Its method is
autoregressive decoding, unpaired, unless another is named: lossless methods give the same answers sooner. A finished
run becomes a pack with its own settings, method= and pairing= among them, and output_dir=ITS_FOLDER. With
model=recorded, a file of recorded texts becomes a pack.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from pathlib import Path

from aded.bench.progress import Progress, Shown
from aded.bench.questions import Question
from aded.bench.run import (
    KeptModel,
    RunConfig,
    checked_config,
    experiment_of,
    run,
    settings_of_record,
)
from aded.bench.runner import Runner
from aded.config.command_line import compose_config, run_command
from aded.config.methods import autoregressive
from aded.errors import BadInput
from aded.files.atomic import check_ours, check_outputs
from aded.files.pack import ABOUT, ANSWERS, About, PackedTurn, is_pack, read_about, write_pack
from aded.identity import VOLATILE, by_content, tokenizer_fingerprint
from aded.records.config import fingerprints, flat, in_todays_keys
from aded.records.finished_runs import FinishedRun, read_run
from aded.records.rows import to_json
from aded.settings import FilePath, PlainName, checked
from aded.shown import say

ALONE = ("method=autoregressive", "pairing=off")


@dataclass
class RecordSettings:
    """See above."""

    out: FilePath
    licence: str | None = None


def record(config: RunConfig, out: Path, licence: str | None, progress: Progress) -> About:
    """Carry out (or go on with) the run that the config describes, and pack its answers. Raises BadInput.

    out: the pack's folder. licence: see About.
    """
    asked = config.asked()
    values = settings_of_record(config, asked)
    files = fingerprints(values)
    settings = by_content({key: value for key, value in values.items() if key not in VOLATILE}, files)
    named = dict(flat(values))
    check_outputs([("out", out / name) for name in (ABOUT, ANSWERS)], [(key, named[key]) for key in files])
    model = checked(Path(config.names()["model"]).name, PlainName, "model.name")
    if out.expanduser().is_file():
        raise BadInput("out", f"{out} is a file; name a folder")
    if not is_pack(out):
        check_ours([out.expanduser() / name for name in (ABOUT, ANSWERS)], "out")
    elif in_todays_keys(read_about(out, "out").settings) != settings:
        raise BadInput("out", f"{out} holds another pack; name another folder")
    kept = KeptModel()
    _, folder = run(config, progress, kept)
    finished = read_run(folder)
    # Prompts need the tokenizer alone, so nothing is compiled for them.
    experiment = experiment_of(replace(config, pairing="off", engine="eager"), asked, kept.whatever)
    runner = Runner(experiment, autoregressive())
    turns = list(_turns(runner, asked.chosen, finished))
    environment = json.loads(to_json(finished.environment))
    del environment["overrides"]  # they name folders of this machine
    return write_pack(
        out,
        turns,
        model=model,
        benchmark=config.names()["benchmark"],
        licence=licence,
        tokenizer=tokenizer_fingerprint(runner.tokenizer),
        vocabulary=max(len(runner.tokenizer), 1 + max(max(turn.prompt_ids + turn.token_ids) for turn in turns)),
        settings=settings,
        environment=environment,
        key="out",
    )


def _turns(runner: Runner, questions: Sequence[Question], finished: FinishedRun) -> Iterator[PackedTurn]:
    """The turns of a finished run, with the prompts that its rows lack. Raises BadInput."""
    by_id = {question.id: question for question in questions}
    for name, group in groupby(finished.rows, attrgetter("question_id")):
        rows = list(group)
        for row, turn in zip(rows, runner.turns(by_id[name], rows), strict=True):
            if len(turn.prompt) != row.prompt_tokens:
                raise BadInput("output_dir", f"{finished.folder} has answers to other prompts; record them again")
            ids, stop = tuple(turn.prompt.tolist()), row.stop_reason
            yield PackedTurn(name, row.turn, row.category, ids, tuple(row.token_ids), stop)  # type: ignore[arg-type]


def record_one(overrides: list[str], settings: RecordSettings) -> None:
    progress = Shown()
    try:
        out = Path(str(settings.out))
        overrides = [*ALONE, *overrides]
        config = checked_config(compose_config(overrides), overrides)
        about = record(config, out, settings.licence, progress)
    finally:
        progress.close()
    size = sum(file.stat().st_size for file in out.expanduser().iterdir())
    say(f"{out}: {about.turns} turns, {about.answer_tokens} tokens, {size / 1000:.0f} kB")


def main() -> None:
    run_command(record_one, RecordSettings, __doc__ or "", hydra=True)


if __name__ == "__main__":
    main()
