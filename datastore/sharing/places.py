"""Where a datastore is published: a folder, a web server, or a dataset on the Hugging Face Hub."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import requests

from aded.errors import BadInput
from datastore.sources.download import CHUNK, TIMEOUT

HUB = re.compile(r"hf://datasets/([\w.-]+/[\w.-]+)(?:@([\w./-]+))?/?")
"""hf://datasets/OWNER/NAME, optionally @REVISION."""


class Place(ABC):
    """Files by name, read from any byte on."""

    @abstractmethod
    def read(self, name: str, start: int, end: int) -> Iterator[bytes]:
        """The bytes `start` to `end` - 1, in chunks; fewer where the file ends. Raises BadInput, RequestException."""

    @abstractmethod
    def __str__(self) -> str:
        """As the user names it."""


@dataclass(frozen=True)
class Folder(Place):
    path: Path

    def read(self, name: str, start: int, end: int) -> Iterator[bytes]:
        try:
            with (self.path / name).open("rb") as file:
                file.seek(start)
                while start < end and (chunk := file.read(min(CHUNK, end - start))):
                    start += len(chunk)
                    yield chunk
        except OSError as error:
            raise BadInput(str(self.path / name), f"cannot be read ({error.strerror})") from None

    def __str__(self) -> str:
        return str(self.path)


@dataclass(frozen=True)
class Web(Place):
    """url: what stands before a file's name; headers: of each request."""

    url: str
    headers: dict[str, str] = field(default_factory=dict)

    def read(self, name: str, start: int, end: int) -> Iterator[bytes]:
        # identity: ranges are those of the file itself.
        wanted = {"Accept-Encoding": "identity", "Range": f"bytes={start}-{end - 1}"}
        with requests.get(
            f"{self.url}/{name}", headers={**self.headers, **wanted}, stream=True, timeout=TIMEOUT
        ) as answer:
            answer.raise_for_status()
            # A server that knows no ranges answers with the whole file.
            position = start if answer.status_code == requests.codes.partial_content else 0
            for chunk in answer.iter_content(CHUNK):
                if position + len(chunk) > start:
                    yield chunk[max(0, start - position) : end - position]
                position += len(chunk)
                if position >= end:
                    return

    def __str__(self) -> str:
        return self.url


def place_of(name: str) -> Place:
    """The place of a folder, an http(s) URL, or hf://datasets/OWNER/NAME. Raises BadInput."""
    if name.startswith(("http://", "https://")):
        return Web(name.rstrip("/"))
    if name.startswith("hf://"):
        from huggingface_hub import hf_hub_url, is_offline_mode
        from huggingface_hub.utils import build_hf_headers

        dataset, revision = dataset_of(name)
        if is_offline_mode():
            raise BadInput(
                name, "is on the Hub, and HF_HUB_OFFLINE is set; name a folder or a web server that has it"
            )
        url = hf_hub_url(dataset, "file", repo_type="dataset", revision=revision).removesuffix("/file")
        return Web(url, build_hf_headers())  # with the token of `hf auth login`; requests sends it to no other host
    if "://" in name:
        raise BadInput(name, "is none of a folder, http://, https:// and hf://datasets/OWNER/NAME")
    folder = Path(name).expanduser()
    if not folder.is_dir():
        raise BadInput(name, "no such folder; name a folder, an http(s) URL or hf://datasets/OWNER/NAME")
    return Folder(folder)


def dataset_of(name: str) -> tuple[str, str | None]:
    """(OWNER/NAME, REVISION or None) of hf://datasets/OWNER/NAME[@REVISION]. Raises BadInput."""
    from huggingface_hub.utils import validate_repo_id

    match, wrong = HUB.fullmatch(name), ""
    if match:
        try:
            validate_repo_id(match[1])
            return match[1], match[2]
        except ValueError as error:
            wrong = f" ({error})"
    raise BadInput(name, f"is no dataset on the Hub{wrong}; write hf://datasets/OWNER/NAME")
