"""The kernels, `torch.ops.aded`: C++ (cpp/), compiled for this processor when they are first needed.

The compiler is the one that torch.compile needs too. What it makes is kept for the next process.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
from functools import cache
from pathlib import Path
from secrets import token_hex

import torch

from aded.identity import sha256

SOURCES = Path(__file__).with_name("cpp")
FLAGS = ("-ffp-contract=fast",)
"""A product and a sum become one instruction, which rounds once."""
COMPILED_CODE = "TORCHINDUCTOR_CACHE_DIR"
"""The environment variable that torch reads."""


def keep_compiled_code(folder: Path) -> None:
    """Keep what is compiled in `folder`, unless the user named another: torch's import names a temporary one."""
    named = os.environ.get(COMPILED_CODE)
    if "torch._inductor" in sys.modules:  # it takes seconds to import
        from torch._inductor.runtime.cache_dir_utils import default_cache_dir

        named = None if named == default_cache_dir() else named
    os.environ[COMPILED_CODE] = named or str(folder)


@cache
def fingerprint() -> str:
    """Of what decides how fast kernels are, and which machine code they are: processor, torch and the C++ itself."""
    parts = [processor(), torch.__version__, *FLAGS, *(path.read_text() for path in sorted(SOURCES.iterdir()))]
    return sha256("\0".join(parts))[:16]


def processor() -> str:
    """Its name and what it can do, where the system says so."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return "\n".join(sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))}))


@cache
def load() -> None:
    """Define the operations `torch.ops.aded`; compile them where no cache has them (20 s).

    Raises RuntimeError or OSError where no compiler works.
    """
    # Never a folder that others may write to: what lies there is executed.
    folder = Path(os.environ.get(COMPILED_CODE) or "~/.cache/aded/inductor").expanduser()
    kept = folder / f"aded-{fingerprint()}.so"
    try:
        torch.ops.load_library(kept)
    except OSError:
        _compile(kept)

    @torch.library.register_fake("aded::linear")
    def _linear(
        x: torch.Tensor,
        packed: torch.Tensor,
        bias: torch.Tensor | None,
        outputs: int,
        dtype: torch.dtype,
        kernels: list[int],
    ) -> torch.Tensor:
        return x.new_empty((*x.shape[:-1], outputs), dtype=dtype)

    @torch.library.register_fake("aded::tree_attention")
    def _tree_attention(
        query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, mask: torch.Tensor | None, scale: float
    ) -> torch.Tensor:
        return query.new_empty((1, query.shape[2], query.shape[1], query.shape[3]))


def _compile(out: Path) -> None:
    """Compile and load the operations, and keep them as `out`."""
    from torch._inductor.codecache import CppCodeCache

    # torch names what it keeps after the source alone: the fingerprint stands for the headers and the processor.
    source = f"{(SOURCES / 'ops.cpp').read_text()}\n// {fingerprint()}\n"
    library = CppCodeCache.load(source, extra_flags=(f"-I{SOURCES}", *FLAGS))
    out.parent.mkdir(parents=True, exist_ok=True)
    partial = out.with_name(f"{out.name}.{token_hex(8)}.partial")
    shutil.copyfile(library._name, partial)
    os.replace(partial, out)


def loaded() -> bool:
    """Has `load` defined the operations in this process?"""
    return load.cache_info().currsize > 0
