"""Publishes a datastore file for others: aded publish FILE to=FOLDER|hf://datasets/OWNER/NAME

    licence     the Hub's identifier, such as mit or cc-by-nc-4.0; a corpus passes its own on
    sources     what the corpus was made of, in words
    tokenizer   its Hub id, folder or `embedded`, held against the file's

Writes the file, a card (README.md) and a manifest with its sha256. `aded fetch` fetches it from there,
or from a web server that has the folder, and goes on where it was interrupted.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from aded.config.command_line import run_command
from aded.errors import BadInput
from aded.shown import say
from datastore.sharing.publishing import publish


@dataclass
class PublishSettings:
    """The keys that the module's text explains."""

    to: str | None = None
    licence: str | None = None
    sources: str | None = None
    tokenizer: str | None = None


def run(files: list[str], settings: PublishSettings) -> None:
    if len(files) != 1 or not settings.to:
        key = "to" if len(files) == 1 else "FILE"
        raise BadInput(key, "write: aded publish FILE to=FOLDER|hf://datasets/OWNER/NAME")
    publish(
        Path(files[0]).expanduser(),
        settings.to,
        licence=settings.licence,
        sources=settings.sources,
        tokenizer=settings.tokenizer,
    )
    say(f"published {files[0]} to {settings.to}; `aded fetch {settings.to} out=FILE` fetches it")


def main() -> None:
    run_command(run, PublishSettings, __doc__ or "")


if __name__ == "__main__":
    main()
