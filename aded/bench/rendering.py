"""Renders chat templates within bounds: a template is a program that comes with a model, and may never end."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from concurrent.futures import Future
from functools import lru_cache
from threading import Thread
from time import monotonic

import psutil

SECONDS = 10.0
"""Longest rendering of a conversation; templates of models take milliseconds."""
MEMORY = 1 << 30
"""Bytes that the process may grow meanwhile."""
LOOK = 0.05
"""Seconds between two looks at a rendering that goes on."""


class _Stopped(BaseException):
    """Ends a rendering; no template can catch it."""


def rendered(template: str, render: Callable[[], str]) -> str:
    """What `render` returns, of a template. Raises what it raises; TimeoutError, MemoryError or ValueError for one
    that does too much.

    It runs in a thread of its own, the only thing in Python that can be stopped from outside, in any thread.
    """
    if _has_powers(template):
        raise ValueError("it computes powers, which no template of a model does, and they may take for ever")
    answer: Future[str] = Future()
    thread, until = Thread(target=_answer, args=(answer, render), daemon=True), monotonic() + SECONDS
    thread.start()
    thread.join(LOOK)
    before = _resident() if thread.is_alive() else 0
    while thread.is_alive():
        thread.join(LOOK)
        grown = _resident() > before + MEMORY
        if grown or monotonic() > until:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(_Stopped))
            if grown:
                raise MemoryError(f"it takes more than {MEMORY >> 20} MB")
            raise TimeoutError(f"it takes more than {SECONDS:g} seconds")
    return answer.result()


def _answer(answer: Future[str], render: Callable[[], str]) -> None:
    try:
        answer.set_result(render())
    except _Stopped:
        pass
    except BaseException as error:
        answer.set_exception(error)


def _resident() -> int:
    """Bytes of this process that are in memory."""
    return int(psutil.Process().memory_info().rss)


@lru_cache(8)
def _has_powers(template: str) -> bool:
    """No other thread runs while Python computes the power of a whole number, so none can end it."""
    from jinja2 import Environment

    return any(token[1:] == ("operator", "**") for token in Environment().lex(template))
