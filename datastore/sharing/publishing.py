"""Publishes a datastore file: the file, its card and its manifest, to a folder or to a dataset on the Hub."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection
from pathlib import Path

from aded.errors import BadInput
from aded.files.atomic import lock_file, not_writable, whole_file, write_text
from aded.files.datastores.ngram_file import NgramFile
from aded.files.tokenizer import load_tokenizer, tokenizer_fingerprint
from datastore.open import open_datastore
from datastore.sharing.card import card, file_of
from datastore.sharing.manifest import LARGEST, NAME, Manifest, manifest_of, read_manifest
from datastore.sharing.places import dataset_of, place_of

CARD, LOCK = "README.md", ".publishing"


def publish(path: Path, to: str, *, licence: str | None, sources: str | None, tokenizer: str | None) -> None:
    """Publish a datastore file that is whole. Raises BadInput.

    to: a folder, or hf://datasets/OWNER/NAME, both made if they are missing.
    licence: the Hub's identifier of one, such as mit or cc-by-nc-4.0; sources: what the corpus was made of, in words.
    tokenizer: a Hub id, a folder or `embedded`, which must be that of the file.
    """
    if "://" in to:
        dataset_of(to)  # before the file is read
    file = open_datastore(path)
    file.verify()
    if tokenizer:
        file.check_tokenizer(tokenizer_fingerprint(load_tokenizer(tokenizer)))
    manifest = manifest_of(path)
    read_manifest(manifest.text(), str(path))  # its name must be one that others may have
    order = file.order if isinstance(file, NgramFile) else 0
    text = card(file.header, manifest, to, order, licence=licence, sources=sources, tokenizer=tokenizer)
    if "://" in to:
        _to_hub(path, to, manifest, text)
    else:
        _to_folder(path, Path(to).expanduser(), manifest, text)


def _check_free(to: str, name: str, names: Collection[str], read: Callable[[str], bytes]) -> None:
    """Raise BadInput unless all that would be written over was published for the file `name`.

    to: the place; names: of the files there; read: gives what one holds.
    """
    published: set[str | None] = set()
    if CARD in names:
        published.add(file_of(read(CARD).decode(errors="replace")))
    if NAME in names:
        try:
            published.add(read_manifest(read(NAME).decode(errors="replace"), NAME).file)
        except BadInput:
            published.add(None)
    if None in published:
        what = f"has a {CARD} or {NAME} that `aded publish` did not write"
    elif others := published - {name}:
        what = f"publishes {others.pop()} already"
    elif name in names and not published:
        what = f"has another {name}"
    else:
        return
    raise BadInput("to", f"{to} {what}; name another place, or move the file away")


def _to_folder(path: Path, folder: Path, manifest: Manifest, text: str) -> None:
    def busy() -> None:
        raise BadInput("to", f"another process publishes to {folder}; start the command again when that has ended")

    lock = folder / LOCK
    try:
        with lock_file(lock, busy):
            try:
                _write(path, folder, manifest, text)
            finally:
                lock.unlink(missing_ok=True)
    except OSError as error:
        raise not_writable("to", folder / path.name, error) from None


def _write(path: Path, folder: Path, manifest: Manifest, text: str) -> None:
    """The card comes first: it says whose the file is. The manifest comes last: who sees it finds the whole file."""
    target, names = folder / path.name, {one.name for one in folder.iterdir()}
    is_there = target.exists() and target.samefile(path)
    _check_free(
        str(folder), path.name, names - {path.name} if is_there else names, lambda name: (folder / name).read_bytes()
    )
    if not is_there:
        (folder / NAME).unlink(missing_ok=True)
    write_text(folder / CARD, text, "to")
    if not is_there:
        with path.open("rb") as source, whole_file(target) as copy:
            shutil.copyfileobj(source, copy, 1 << 20)
    write_text(folder / NAME, manifest.text(), "to")


def _to_hub(path: Path, to: str, manifest: Manifest, text: str) -> None:
    """One commit, so that the three belong together. The Hub's client keeps what was uploaded before it broke off."""
    from huggingface_hub import CommitOperationAdd, HfApi

    dataset, revision = dataset_of(to)
    contents: dict[str, Path | bytes] = {path.name: path, CARD: text.encode(), NAME: manifest.text().encode()}
    operations = [CommitOperationAdd(name, content) for name, content in contents.items()]
    try:
        api = HfApi()
        api.create_repo(dataset, repo_type="dataset", exist_ok=True)
        place, names = place_of(to), api.list_repo_files(dataset, repo_type="dataset", revision=revision)
        _check_free(to, path.name, names, lambda name: b"".join(place.read(name, 0, LARGEST)))
        api.create_commit(
            dataset, operations, commit_message=f"Publish {path.name}", repo_type="dataset", revision=revision
        )
    except BadInput:
        raise
    except Exception as error:  # of the client, and of the libraries that it uses
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise BadInput("to", f"{to} takes no files: {reason}; log in with `hf auth login`") from None
