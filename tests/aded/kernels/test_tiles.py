"""The kernel for a matrix unit, on any processor: with tiles in software its product is right, and it compiles."""

import subprocess
from pathlib import Path

import pytest
from torch._inductor.cpp_builder import get_cpp_compiler

from aded.kernels.ops import SOURCES


@pytest.mark.thorough  # a C++ compiler runs
def test_the_kernel_of_tiles_is_right(tmp_path: Path) -> None:
    flags = ["-std=c++20", "-O2", "-pthread", f"-I{SOURCES}", "-march=native", "-DADED_SOFTWARE_TILES"]
    source = Path(__file__).with_name("tiles_test.cpp")
    subprocess.run([get_cpp_compiler(), *flags, source, "-o", tmp_path / "tiles_test"], check=True)
    done = subprocess.run([tmp_path / "tiles_test"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
