"""The kernel for a matrix unit, on any processor: with tiles in software its product is right, and it compiles."""

import subprocess
from pathlib import Path

import pytest
from torch._inductor.cpp_builder import get_cpp_compiler

from aded.kernels.ops import SOURCES

SOURCE = Path(__file__).with_name("tiles_test.cpp")


def compile_with(*flags: str | Path) -> None:
    command = [get_cpp_compiler(), "-std=c++20", "-O2", "-pthread", f"-I{SOURCES}", SOURCE, *flags]
    subprocess.run(command, check=True)


@pytest.mark.thorough  # a C++ compiler runs
def test_the_kernel_of_tiles_is_right(tmp_path: Path) -> None:
    compile_with("-march=native", "-DADED_SOFTWARE_TILES", "-o", tmp_path / "tiles_test")
    done = subprocess.run([tmp_path / "tiles_test"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
