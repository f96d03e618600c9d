"""How many threads a forward gets."""

import logging
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from aded.kernels import ops, threads
from aded.kernels.linear import PackedLinear
from aded.records.environment import environment, machine

ops.load()


def test_a_thread_per_core_or_as_asked_and_no_more_than_processors(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """No hyper-threads; as many as the environment says; as asked; mended in one line."""
    monkeypatch.setattr(threads, "processors", lambda physical: 4 if physical else 8)
    for started_with, asked, given in ((8, None, 4), (2, None, 2), (8, 6, 6), (1, None, 1), (8, 64, 8)):
        monkeypatch.setattr(threads, "STARTED_WITH", started_with)
        assert threads.threads_for(asked) == given
    (record,) = (record for record in caplog.records if record.levelno == logging.WARNING)
    assert "model.threads=64" in record.message


def test_several_python_threads_get_right_products() -> None:
    """The pool serves one caller at a time; others work alone, and none gets another's numbers."""
    torch.ops.aded.use_threads(3)
    layers = [PackedLinear(torch.randn(640, 64).bfloat16(), None, torch.float32) for _ in range(4)]
    x = torch.randn(3, 64)
    wanted = [layer(x) for layer in layers]

    def repeat(number: int) -> bool:
        return all(torch.equal(layers[number](x), wanted[number]) for _ in range(200))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(repeat, range(4)))
    torch.ops.aded.use_threads(1)


def test_a_second_model_changes_no_thread_count() -> None:
    before = torch.get_num_threads(), torch.ops.aded.threads()
    with threads.kept_for_second_model() as count:
        assert count == max(before)
        threads.for_own_kernels(1)
    assert (torch.get_num_threads(), torch.ops.aded.threads()) == before
    # A record says how many threads compute.
    with threads.kept_for_second_model(), threads.restored_threads():
        threads.for_own_kernels(1)
        torch.ops.aded.use_threads(3)
        here = machine()
        assert (here.torch_threads, here.kernel_threads, here.threads) == (1, 3, 3)
        assert environment({"engine": "eager"}).machine == here
        assert environment().machine.kernel_threads is None, "a replay: no model runs"
        torch.set_num_threads(2)
        torch.ops.aded.use_threads(1)
        assert machine().threads == 2
