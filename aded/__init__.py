"""ADED (arXiv 2407.12021): the drafters, the engine that every method shares, and the benchmark harness.

    model, tokenizer = aded.load("embedded")
    drafter = aded.drafter("aded_backoff")
    answer = aded.generate(model, tokenizer, "Write ...", drafter=drafter)

The names below are the public API; each is imported when it is first used, so that `import aded` takes no time.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from aded.errors import naming_the_extra

if TYPE_CHECKING:
    from aded.api.compare import compare
    from aded.api.drafter import drafter
    from aded.api.generate import Generated, generate, stream
    from aded.api.replay import replay
    from aded.core.decode import Answer, decode
    from aded.core.drafter import Drafter
    from aded.core.sampler import Greedy, Recorded, Sampled
    from aded.core.target import Step
    from aded.core.tree import DraftTree
    from aded.errors import BadInput
    from aded.targets.eager import EagerTarget
    from aded.targets.load import load, load_target

__version__ = "0.2.0"
__all__ = [
    "Answer",
    "BadInput",
    "DraftTree",
    "Drafter",
    "EagerTarget",
    "Generated",
    "Greedy",
    "Recorded",
    "Sampled",
    "Step",
    "compare",
    "decode",
    "drafter",
    "generate",
    "load",
    "load_target",
    "replay",
    "stream",
]
_HOMES = {
    "Answer": "aded.core.decode",
    "BadInput": "aded.errors",
    "DraftTree": "aded.core.tree",
    "Drafter": "aded.core.drafter",
    "EagerTarget": "aded.targets.eager",
    "Generated": "aded.api.generate",
    "Greedy": "aded.core.sampler",
    "Recorded": "aded.core.sampler",
    "Sampled": "aded.core.sampler",
    "Step": "aded.core.target",
    "compare": "aded.api.compare",
    "decode": "aded.core.decode",
    "drafter": "aded.api.drafter",
    "generate": "aded.api.generate",
    "load": "aded.targets.load",
    "load_target": "aded.targets.load",
    "replay": "aded.api.replay",
    "stream": "aded.api.generate",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'aded' has no attribute {name!r}")
    with naming_the_extra():
        return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
