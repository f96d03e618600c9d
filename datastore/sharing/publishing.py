"""Publishes a datastore file: the file, its card and its manifest, to a folder or to a dataset on the Hub."""

from __future__ import annotations

import shutil
from pathlib import Path

from aded.errors import BadInput
from aded.files.atomic import whole_file, write_text
from aded.files.json_lines import read_text
from aded.files.ngram_file import NgramFile
from aded.files.tokenizer import load_tokenizer, tokenizer_fingerprint
from datastore.open import open_datastore
from datastore.sharing.card import card
from datastore.sharing.manifest import NAME, Manifest, manifest_of, read_manifest
from datastore.sharing.places import dataset_of

CARD = "README.md"


def publish(
    path: Path, to: str, *, licence: str | None, sources: str | None, tokenizer: str | None, cache: str
) -> None:
    """Publish a datastore file that is whole. Raises BadInput.

    to: a folder, or hf://datasets/OWNER/NAME, both made if they are missing.
    licence: the Hub's identifier of one, such as mit or cc-by-nc-4.0; sources: what the corpus was made of, in words.
    tokenizer: a Hub id or folder, which must be that of the file; cache: as load_tokenizer takes it.
    """
    if "://" in to:
        dataset_of(to)  # before the file is read
    file = open_datastore(path)
    file.verify()
    if tokenizer:
        file.check_tokenizer(tokenizer_fingerprint(load_tokenizer(tokenizer, cache)))
    manifest = manifest_of(path)
    read_manifest(manifest.text(), str(path))  # its name must be one that others may have
    order = file.order if isinstance(file, NgramFile) else 0
    text = card(file.header, manifest, to, order, licence=licence, sources=sources, tokenizer=tokenizer)
    if "://" in to:
        _to_hub(path, to, manifest, text)
    else:
        _to_folder(path, Path(to).expanduser(), manifest, text)


def _to_folder(path: Path, folder: Path, manifest: Manifest, text: str) -> None:
    """The manifest comes last: who sees it finds the whole file."""
    there, target = folder / NAME, folder / path.name
    if there.exists() and (other := read_manifest(read_text(there, "to"), str(there)).file) != path.name:
        raise BadInput("to", f"{folder} publishes {other} already; name another folder")
    try:
        if not (target.exists() and target.samefile(path)):
            there.unlink(missing_ok=True)
            with path.open("rb") as source, whole_file(target) as copy:
                shutil.copyfileobj(source, copy, 1 << 20)
    except OSError as error:
        raise BadInput("to", f"{target} cannot be written ({error.strerror})") from None
    write_text(folder / CARD, text, "to")
    write_text(there, manifest.text(), "to")


def _to_hub(path: Path, to: str, manifest: Manifest, text: str) -> None:
    """One commit, so that the three belong together. The Hub's client keeps what was uploaded before it broke off."""
    from huggingface_hub import CommitOperationAdd, HfApi

    dataset, revision = dataset_of(to)
    contents: dict[str, Path | bytes] = {path.name: path, CARD: text.encode(), NAME: manifest.text().encode()}
    operations = [CommitOperationAdd(name, content) for name, content in contents.items()]
    try:
        api = HfApi()
        api.create_repo(dataset, repo_type="dataset", exist_ok=True)
        api.create_commit(
            dataset, operations, commit_message=f"Publish {path.name}", repo_type="dataset", revision=revision
        )
    except Exception as error:  # of the client, and of the libraries that it uses
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise BadInput("to", f"{to} takes no files: {reason}; log in with `hf auth login`") from None
