"""Are a model's weights those of its files? transformers only warns, and draws random numbers for what is missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aded.errors import BadInput

SHOWN = 3
"""Names of tensors in a line."""


def check_weights(model: Any, report: Mapping[str, Any], path: str, key: str) -> None:
    """Raise BadInput unless the files had each tensor of the model, in its shape, and no other for its layers.

    What stands beside the layers, such as an encoder of pictures, is another part of the checkpoint.

    report: of from_pretrained(..., output_loading_info=True).
    """
    own = [name for name in report["unexpected_keys"] if _within_layers(model, name)]
    for problem, names, remedy in (
        ("lacks", report["missing_keys"], "are the names prefixed, or a file missing?"),
        (
            "has another shape for",
            [name for name, *_ in report["mismatched_keys"]],
            "is config.json another model's?",
        ),
        ("has what the model does not read:", own, "is config.json another model's, or are adapters not merged?"),
    ):
        if names:
            shown = ", ".join(sorted(names)[:SHOWN])
            more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
            raise BadInput(key, f"{path} {problem} {shown}{more}; {remedy}")


def _within_layers(model: Any, name: str) -> bool:
    """Does a tensor's name lead into a layer, or to a layer that the model might have?"""
    modules = dict(model.named_modules())
    parts = name.split(".")
    above = next(".".join(parts[:end]) for end in range(len(parts) - 1, -1, -1) if ".".join(parts[:end]) in modules)
    return modules[above] not in (model, model.base_model, model.get_decoder())
