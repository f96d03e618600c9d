"""Whatever our code imports is brought by the package, and the right extra is named for it."""

import ast
import re
import sys
from collections.abc import Iterator
from configparser import ConfigParser
from importlib import import_module
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from aded.errors import EXTRAS, BadInput, naming_the_extra

ROOT = Path(__file__).parents[2]
ROOMS = ("aded", "baselines", "datastore", "llm_judge", "scripts")
OTHERS = {"openvino", "openvino_genai", "onnxruntime_genai", "llama_cpp", "vllm"}
"""Engines in an environment of their own."""
WITH = {"llvmlite": "numba", "pydantic_core": "pydantic"}
"""A module that comes with another, which would not be itself without it."""


def required() -> dict[str, set[str]]:
    """The distributions of each extra; "" has those of every installation."""
    config = ConfigParser()
    config.read(ROOT / "setup.cfg")
    lists = {"": config["options"]["install_requires"], **config["options.extras_require"]}
    return {
        extra: {normal(re.split(r"[\s<>=\[;]", line)[0]) for line in text.splitlines() if line.strip()}
        for extra, text in lists.items()
    }


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def imported() -> Iterator[tuple[str, str]]:
    """(file, top-level module) of each import of a library."""
    for room in ROOMS:
        for file in (ROOT / room).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_bytes())):
                names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
                if isinstance(node, ast.ImportFrom) and node.level == 0:
                    names = [node.module or ""]
                for name in names:
                    top = name.partition(".")[0]
                    if top not in sys.stdlib_module_names and top not in ROOMS:
                        yield str(file.relative_to(ROOT)), top


def test_every_import_is_brought_by_the_package() -> None:
    found, lists = packages_distributions(), required()
    for file, module in set(imported()):
        module = WITH.get(module, module)
        brought = {normal(name) for name in found.get(module, [module])}
        assert module in OTHERS or brought & lists[EXTRAS.get(module, "")], (file, module)
    # No extra is named for what is always there.
    assert not [module for module in EXTRAS if {normal(name) for name in found.get(module, [])} & lists[""]]
    assert set(EXTRAS.values()) <= set(lists)


def test_a_missing_library_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(BadInput, match=r"^wandb: .*'.\[bench\]'"), naming_the_extra():
        import_module("wandb")
    for other in ("no_such_library", "torch.no_such_part"):
        with pytest.raises(ModuleNotFoundError), naming_the_extra():
            import_module(other)
