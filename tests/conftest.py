"""Shared fixtures. Everything runs on the CPU, without a network.

torch and transformers are imported by the fixtures: the process that hands the tests out to others needs neither.
"""

from __future__ import annotations

import gc
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING, Any

# Tiny models gain nothing from threads, and threads that wait for a busy core cost a hundred times the work.
os.environ["HF_HUB_OFFLINE"] = os.environ["OMP_NUM_THREADS"] = os.environ["NUMBA_NUM_THREADS"] = "1"
# Compiling the kernels takes 20 seconds, and the embedded model is unpacked: every process of every test shares it.
os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(Path(gettempdir()) / f"aded-tests-{os.getuid()}"))
os.environ.setdefault("ADED_CACHE", str(Path(os.environ["TORCHINDUCTOR_CACHE_DIR"]) / "cache"))
# pytest puts tests/ on the path, where folders bear the packages' names; the packages must be found first.
sys.path.insert(0, str(Path(__file__).parents[1]))

import numba
import numpy as np
import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from command import Command
    from shell import Shell
    from transformers import PreTrainedTokenizerFast
    from works import Works

numba.core.config.reload_config()  # a plugin of pytest's may have imported numba before the setting above
# Compilation and loading make the first example of a property slow.
settings.register_profile("tests", deadline=None, max_examples=40, derandomize=True)
settings.load_profile("tests")


@pytest.fixture(autouse=True)
def nodes_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measured step times differ from run to run, and sized trees with them: here all nodes are worth their time."""
    from aded.core.step_cost import StepCost

    monkeypatch.setattr("aded.drafters.sized.measure", lambda target, budget: StepCost(np.ones(budget + 1)))


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that would connect to another machine fails."""
    connect = socket.socket.connect

    def connect_here(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6) and address[0] not in ("127.0.0.1", "::1", "localhost"):
            pytest.fail(f"connects to {address[0]}")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", connect_here)


def pytest_configure(config: pytest.Config) -> None:
    """Where several processes share the tests (`make test`), this one hands them out."""
    if config.getoption("numprocesses", None):
        from progress import Progress

        config.pluginmanager.register(Progress(config))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    from progress import place_of

    items.sort(key=place_of)


def pytest_collection_finish() -> None:
    """Else every collection of garbage would walk through all libraries and tests again, a sixth of the time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def works(tmp_path_factory: pytest.TempPathFactory) -> Works:
    from works import Works

    return Works(tmp_path_factory.mktemp("works"))


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    from command import Command

    return Command(monkeypatch, capsys)


@pytest.fixture(scope="session")
def tokenizer() -> PreTrainedTokenizerFast:
    from tiny import tiny_tokenizer

    return tiny_tokenizer()


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Shell:
    from shell import Shell

    return Shell(monkeypatch, capfd, tmp_path)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random model with its tokenizer, as `model=FOLDER` takes it."""
    from tiny import save_model, tiny_model

    model = tiny_model("llama", vocab_size=128, max_position_embeddings=4096, eos_token_id=2)
    return save_model(tmp_path_factory.mktemp("model"), model)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    from browser import started

    with started() as driver:
        yield driver
