"""The kernel for a matrix unit computes the right product, on any processor: its tiles are imitated in software."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from torch._inductor.cpp_builder import get_cpp_compiler

from aded.kernels.ops import SOURCES


@pytest.mark.slow  # a C++ compiler runs
def test_the_kernel_of_tiles_is_right(tmp_path: Path) -> None:
    program, source = tmp_path / "tiles_test", Path(__file__).with_name("tiles_test.cpp")
    flags = ["-std=c++20", "-O2", "-march=native", "-pthread", f"-I{SOURCES}", "-DADED_SOFTWARE_TILES"]
    subprocess.run([get_cpp_compiler(), *flags, source, "-o", program], check=True)
    done = subprocess.run([program], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
