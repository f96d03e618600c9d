"""Writes a run's answers in the layout of another benchmark's files, for its own scripts:

    aded export FORM RUN_FOLDER [out=FILE_OR_FOLDER] [model_id=NAME] [tokenizer=NAME_OR_DIR]

FORM is one of

    spec_bench   what evaluation/speed.py of Spec-Bench reads, also as the --base-path of another run
    fastchat     what FastChat's judge reads

out is a .jsonl file, after which the model is named, or a folder for the file MODEL_ID.jsonl. An answer that no model
decoded here has no seconds: Spec-Bench's wall_time is then its number of steps, so that the rates which speed.py
prints are tokens per step.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from aded.command_line import run_command
from aded.errors import BadInput
from llm_judge.export import OUT, Form, as_fastchat, export
from llm_judge.spec_bench import as_spec_bench

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
    """A Hub id, a folder or `embedded`; None: the tokenizer of the run's model."""


def run(arguments: list[str], settings: ExportSettings) -> None:
    if len(arguments) != 2 or arguments[0] not in FORMS:
        raise BadInput("FORM", f"name one of {', '.join(FORMS)}, and a run: aded export spec_bench RUN_FOLDER")
    form, place = FORMS[arguments[0]]
    path = export(Path(arguments[1]), settings.out or place, settings.model_id, settings.tokenizer, form)
    print(f"answers: {path}")


def main() -> None:
    run_command(run, ExportSettings, __doc__ or "")


if __name__ == "__main__":
    main()
