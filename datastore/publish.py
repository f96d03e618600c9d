"""Publishes a datastore file for others: aded publish FILE to=FOLDER|hf://datasets/OWNER/NAME

    licence     the Hub's identifier, such as mit or cc-by-nc-4.0; a corpus passes its own on
    sources     what the corpus was made of, in words
    tokenizer   its Hub id, folder or `embedded`, held against the file's

Writes the file, a card (README.md) and a manifest with its sha256. `aded fetch` fetches it from there,
or from a web server that has the folder, and goes on where it was interrupted.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field
from tabulate import tabulate

from aded.config.command_line import run_command
from aded.errors import BadInput, first_line, literal
from aded.files.atomic import not_writable, whole_file, write_bytes
from aded.files.datastores.ngram_file import NgramFile
from aded.files.json_lines import json_value, typed
from aded.files.models.tokenizer import load_tokenizer
from aded.identity import sha256, tokenizer_fingerprint
from aded.settings import STRICT
from aded.shown import in_markdown, say
from datastore.cleaning.cleaning import described
from datastore.open import open_datastore
from datastore.scratch import locked
from datastore.sources.catalogue import Sha256
from datastore.sources.download import chunks, place_on_hub

NAME, CARD, LOCK = "manifest.json", "README.md", ".publishing"
VERSION: Final = 2
FileName = Annotated[str, Field(pattern=r"^\w[\w.+=-]*$", max_length=200)]
"""A name in the manifest's own folder."""


@dataclass(frozen=True)
class Manifest:
    """What is published beside the file. It comes from elsewhere: it is checked, and names a file, no path."""

    __pydantic_config__ = STRICT
    format: Literal["aded-datastore"]
    version: Literal[2]
    file: FileName
    bytes: Annotated[int, Field(ge=1, le=1 << 44)]
    sha256: Sha256

    def text(self) -> str:
        return json.dumps(asdict(self), indent=1) + "\n"


def manifest_of(path: Path) -> Manifest:
    """The manifest of a file, which is read once. Raises BadInput where its name is none for others, OSError."""
    manifest = Manifest("aded-datastore", VERSION, path.name, path.stat().st_size, sha256(path))
    return read_manifest(manifest.text().encode(), str(path))


def read_manifest(content: bytes, where: str) -> Manifest:
    """The manifest that was found at `where`. Raises BadInput."""
    try:
        value: Any = json_value(content.decode(), where, "the manifest")
    except UnicodeDecodeError:
        raise BadInput(where, "is no UTF-8 text") from None
    version = value.get("version") if isinstance(value, dict) else None
    if isinstance(version, int) and version != VERSION:
        raise BadInput(
            where, f"is a manifest of version {version}, and this release reads {VERSION}; publish it again"
        )
    return typed(value, Manifest, where, "the manifest", "as datastore.publish wrote it")


SIGN = "A datastore of [ADED](https://arxiv.org/abs/2407.12021)"
"""What tells a card from other people's README.md: it stands below the file's name."""
TEMPLATE = """---
{metadata}
---
# {name}

{sign}, built from the corpus {corpus}: {what}.

- **Sources**: {sources}
- **Licence**: {licence}
- **Tokenizer**: {tokenizer}

{table}

## Use

```bash
aded fetch {place} out={name}
aded run {model}{use}
```

The first command verifies the file's sha256, and goes on where it was interrupted.
"""
KINDS = {
    "aded-ngrams": (
        "how often each sequence of up to {order} tokens occurs in it",
        "method=aded_backoff datastore.path={name}",
    ),
    "aded-suffixes": ("its tokens, and all its suffixes in sorted order", "method=rest datastore.path={name}"),
    "aded-lookup": ("a small language model that learned from it", "method=aded_backoff method.lookup={name}"),
}
"""Format -> what such a file holds, and how a run reads it."""
LEFT_OUT_OF_TABLE = ("format", "version", "levels", "tokenizer")


def file_of(text: str) -> str | None:
    """The file that a card is of; None: the text is no card."""
    found = re.search(rf"^# (\S+)\n\n{re.escape(SIGN)}", text, re.MULTILINE)
    return found and found[1]


@dataclass
class PublishSettings:
    """The keys that the module's text explains."""

    to: str | None = None
    licence: str | None = None
    sources: str | None = None
    tokenizer: str | None = None


def card(header: Mapping[str, str], manifest: Manifest, place: str, order: int, said: PublishSettings) -> str:
    """The text of the card: README.md with the Hub's metadata, for people who find it.

    header: of the file; place: where it is published; order: of its n-grams; said: by the user
    """
    from huggingface_hub import DatasetCardData

    tags = ["speculative-decoding", "aded", header["format"]]
    metadata = DatasetCardData(license=said.licence or "unknown", pretty_name=manifest.file, tags=tags, viewer=False)
    what, use = KINDS[header["format"]]
    known = described(header, place)
    facts = {
        "format": f"{header['format']}, version {header['version']}",
        "bytes": str(manifest.bytes),
        **{key: in_markdown(value) for key, value in known.items() if key not in LEFT_OUT_OF_TABLE},
    }
    hash_of = f"its fingerprint in ADED is `{header['tokenizer']}`"
    return TEMPLATE.format(
        metadata=metadata.to_yaml(),
        name=manifest.file,
        sign=SIGN,
        corpus=in_markdown(known.get("corpus", "unnamed")),
        what=what.format(order=order),
        sources=said.sources or "not stated",
        licence=said.licence or "not stated; ask the publisher before you use it",
        tokenizer=f"`{said.tokenizer}`; {hash_of}" if said.tokenizer else f"not named; {hash_of}",
        table=tabulate(facts.items(), ("of the file", ""), "github", disable_numparse=True),
        place=literal(place),
        model=f"model={said.tokenizer} " if said.tokenizer else "",
        use=use.format(name=manifest.file),
    )


def publish(path: Path, to: str, said: PublishSettings) -> None:
    """Publish a datastore file that is whole. Raises BadInput.

    to: a folder, or hf://datasets/OWNER/NAME, both made if they are missing
    """
    if "://" in to and (inside := place_on_hub(to).path_in_repo):  # before the file is read
        raise BadInput("to", f"{to} names {inside} in a dataset; write hf://datasets/OWNER/NAME")
    file = open_datastore(path)
    file.verify()
    if said.tokenizer:
        file.check_tokenizer(tokenizer_fingerprint(load_tokenizer(said.tokenizer)))
    manifest = manifest_of(path)
    order = file.order if isinstance(file, NgramFile) else 0
    text = card(file.header, manifest, to, order, said)
    beside = {CARD: text.encode(), NAME: manifest.text().encode()}
    if "://" in to:
        _to_hub(path, to, beside)
    else:
        _to_folder(path, Path(to).expanduser(), beside)


def _check_free(to: str, name: str, names: Collection[str], card: bytes) -> None:
    """Raise BadInput unless all that would be written over was published for the file `name`.

    to: the place; names: of the files there; card: the one there, empty if there is none.
    """
    found, there = file_of(card.decode(errors="replace")), {CARD, NAME, name}.intersection(names)
    if there and found != name:
        what = f"publishes {found} already" if found else f"has a {min(there)} that `aded publish` did not write"
        raise BadInput("to", f"{to} {what}; name another place, or move the file away")


def _to_folder(path: Path, folder: Path, beside: dict[str, bytes]) -> None:
    """The card comes first: it says whose the file is. The manifest comes last: who sees it finds the whole file."""
    target = folder / path.name
    try:
        with locked(folder / LOCK, folder):
            names = {one.name for one in folder.iterdir()}
            is_there = target.exists() and target.samefile(path)
            if is_there:
                names.remove(path.name)
            _check_free(str(folder), path.name, names, (folder / CARD).read_bytes() if CARD in names else b"")
            write_bytes(folder / CARD, beside[CARD], "to")
            if not is_there:
                (folder / NAME).unlink(missing_ok=True)
                with path.open("rb") as source, whole_file(target) as copy:
                    shutil.copyfileobj(source, copy, 1 << 20)
            write_bytes(folder / NAME, beside[NAME], "to")
    except OSError as error:
        raise not_writable("to", target, error) from None


def _to_hub(path: Path, to: str, beside: dict[str, bytes]) -> None:
    """One commit, so that the three belong together. The Hub's client keeps what was uploaded before it broke off."""
    from huggingface_hub import CommitOperationAdd, HfApi

    place, api = place_on_hub(to), HfApi()
    contents: dict[str, Path | bytes] = {path.name: path, **beside}
    at = {"repo_id": place.id, "repo_type": place.type, "revision": place.revision}
    try:
        api.create_repo(place.id, repo_type=place.type, exist_ok=True)
        names = api.list_repo_files(**at)
        _check_free(to, path.name, names, b"".join(chunks(f"{place.to_uri()}/{CARD}")) if CARD in names else b"")
        operations = [CommitOperationAdd(name, content) for name, content in contents.items()]
        api.create_commit(**at, operations=operations, commit_message=f"Publish {path.name}")
    except BadInput:
        raise
    except Exception as error:  # of the client, and of the libraries that it uses
        raise BadInput("to", f"{to} takes no files: {first_line(error)}; log in with `hf auth login`") from None


def run(files: list[str], settings: PublishSettings) -> None:
    if len(files) != 1 or not settings.to:
        key = "to" if len(files) == 1 else "FILE"
        raise BadInput(key, "write: aded publish FILE to=FOLDER|hf://datasets/OWNER/NAME")
    publish(Path(files[0]).expanduser(), settings.to, settings)
    say(f"published {files[0]} to {settings.to}; `aded fetch {settings.to} out=FILE` fetches it")


def main() -> None:
    run_command(run, PublishSettings, __doc__ or "")
