"""Publishes a datastore file: the file, its card and its manifest, to a folder or to a dataset on the Hub."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from pathlib import Path

from aded.errors import BadInput, first_line
from aded.files.atomic import not_writable, whole_file, write_bytes
from aded.files.datastores.ngram_file import NgramFile
from aded.files.models.tokenizer import load_tokenizer
from aded.identity import tokenizer_fingerprint
from datastore.open import open_datastore
from datastore.scratch import locked
from datastore.sharing.card import card, file_of
from datastore.sharing.manifest import NAME, manifest_of
from datastore.sources.download import chunks, place_on_hub

CARD, LOCK = "README.md", ".publishing"


def publish(path: Path, to: str, *, licence: str | None, sources: str | None, tokenizer: str | None) -> None:
    """Publish a datastore file that is whole. Raises BadInput.

    to: a folder, or hf://datasets/OWNER/NAME, both made if they are missing.
    licence: the Hub's identifier of one, such as mit or cc-by-nc-4.0; sources: what the corpus was made of, in words.
    tokenizer: a Hub id, a folder or `embedded`, which must be that of the file.
    """
    if "://" in to and (inside := place_on_hub(to).path_in_repo):  # before the file is read
        raise BadInput("to", f"{to} names {inside} in a dataset; write hf://datasets/OWNER/NAME")
    file = open_datastore(path)
    file.verify()
    if tokenizer:
        file.check_tokenizer(tokenizer_fingerprint(load_tokenizer(tokenizer)))
    manifest = manifest_of(path)
    order = file.order if isinstance(file, NgramFile) else 0
    text = card(file.header, manifest, to, order, licence=licence, sources=sources, tokenizer=tokenizer)
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
