"""A corpus of Python source files, out of wheels, which are read as archives only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from aded.errors import BadInput
from datastore.sources.answers import SOURCE_KEY, lines


def python_corpus(raw: Sequence[Path]) -> list[bytes]:
    """A row per source file, in the wheels' order. raw: the wheels. Raises BadInput."""
    return [lines(row for wheel in raw for row in _source_files(wheel))]


def _source_files(wheel: Path) -> Iterator[dict[str, str]]:
    """Those that hold text. Raises BadInput for a file that is no wheel."""
    try:
        with ZipFile(wheel) as archive:
            for name in sorted(archive.namelist()):
                if name.endswith(".py") and (text := archive.read(name).decode(errors="ignore").strip()):
                    yield {"package": wheel.name.split("-")[0], "path": name, "text": text}
    except BadZipFile as error:
        raise BadInput(SOURCE_KEY, f"{wheel} is no wheel ({error})") from None
