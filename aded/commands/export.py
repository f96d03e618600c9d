"""Writes a run's answers, or its acceptance, in the layout of another program: aded export FORM RUN_FOLDER

    aded export FORM RUN_FOLDER [out=FILE_OR_FOLDER] [model_id=NAME] [tokenizer=NAME_OR_DIR]
    aded export acceptance RUN_FOLDER [out=acceptance.json] [longest=TOKENS]

FORM is one of

    spec_bench   what evaluation/speed.py of Spec-Bench reads, also as the --base-path of another run
    fastchat     what FastChat's judge reads
    acceptance   how often drafts of 1, 2, .. tokens were accepted, as vLLM and llama.cpp read it to pretend drafting

out is a .jsonl file, after which the model is named, or a folder for the file MODEL_ID.jsonl. An answer that no model
decoded here has no seconds: Spec-Bench's wall_time is then its number of steps, so that the rates which speed.py
prints are tokens per step.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from aded.config.command_line import run_command
from aded.engines.acceptance_profile import acceptance_profile
from aded.errors import BadInput
from aded.files.atomic import check_outputs, write_outputs
from aded.records.run_directory import RECORD
from aded.settings import Positive
from aded.shown import say
from llm_judge.export import OUT, Form, as_fastchat, export
from llm_judge.spec_bench import as_spec_bench

ACCEPTANCE = "acceptance"
FORMS: dict[str, tuple[Form, str]] = {
    "spec_bench": (as_spec_bench, "data/spec_bench/model_answer"),
    "fastchat": (as_fastchat, OUT),
}
"""By name: how a line is written, and where the file goes by default."""


@dataclass
class ExportSettings:
    out: str | None = None
    """The file to write, or the folder for it; None: the folder in which the other program looks for it."""
    model_id: str | None = None
    """The model's name in the file; None: the names of the run's model and method."""
    tokenizer: str | None = None
    """A Hub id, a folder or `embedded`; None: that of the run's model, where it has a name of our own."""
    longest: Positive | None = None
    """Of an acceptance profile: tokens of the longest draft; None: the longest of which anything was accepted."""


def run(arguments: list[str], settings: ExportSettings) -> None:
    names = (*FORMS, ACCEPTANCE)
    if len(arguments) != 2 or arguments[0] not in names:
        raise BadInput("FORM", f"name one of {', '.join(names)}, and a run: aded export spec_bench RUN_FOLDER")
    name, folder = arguments[0], Path(arguments[1])
    for key in ("model_id", "tokenizer") if name == ACCEPTANCE else ("longest",):
        if getattr(settings, key) is not None:
            raise BadInput(key, f"is no key of aded export {name}")
    if name == ACCEPTANCE:
        out = Path(settings.out or f"{ACCEPTANCE}.json").expanduser()
        check_outputs([("out", out)], [("RUN_FOLDER", folder / record) for record in RECORD])
        text = json.dumps(acceptance_profile(folder, settings.longest), indent=1) + "\n"
        write_outputs(out.parent, {out.name: text.encode()}, "out")
        say(f"acceptance: {out}")
        return
    form, place = FORMS[name]
    path = export(folder, settings.out or place, settings.model_id, settings.tokenizer, form)
    say(f"answers: {path}")


def main() -> None:
    run_command(run, ExportSettings, __doc__ or "")


if __name__ == "__main__":
    main()
