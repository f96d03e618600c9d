"""Renders chat templates within bounds: a template is a program that comes with a model, and may never end."""

from __future__ import annotations

import ctypes
import re
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
MOST_TEXT = 1 << 26
"""Characters of a rendered conversation."""
MOST_WIDE = 100_000
"""Of any number in a template, as the width to which a text is filled."""
WIDE = re.compile(r"[%{].*\d{6}", re.DOTALL)
"""In a format: a width above it."""
LOOK = 0.05
"""Seconds between two looks at a rendering that goes on."""


class _Stopped(BaseException):
    """Ends a rendering; no template can catch it."""


def rendered(template: str, render: Callable[[], str]) -> str:
    """What `render` returns, of a template. Raises what it raises; TimeoutError, MemoryError or ValueError for one
    that does too much.

    It runs in a thread of its own, the only thing in Python that can be stopped from outside, in any thread.
    """
    if excess := _excess(template):
        raise ValueError(f"it computes {excess}, which no template of a model does, and it may take for ever")
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
    text = answer.result()
    if len(text) > MOST_TEXT:
        raise MemoryError(f"it makes {len(text)} characters of them")
    return text


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
def _excess(template: str) -> str | None:
    """What a template computes that no model's does, and that no other thread can end once it has begun."""
    from jinja2 import Environment

    tokens = [(kind, text) for _, kind, text in Environment().lex(template) if kind != "whitespace"]
    for before, (kind, text), after in zip([("", ""), *tokens], tokens, [*tokens[1:], ("", "")], strict=False):
        if text == "**" and kind == "operator":
            return "powers"
        if text == "*" and kind == "operator" and not any(_is_small(*one) for one in (before, after)):
            return "products of more than a small number"
        if (kind == "integer" and not _is_small(kind, text, MOST_WIDE)) or (kind == "string" and WIDE.search(text)):
            return f"with {text[:40]}"
    return None


def _is_small(kind: str, text: str, most: int = 100) -> bool:
    return kind == "integer" and len(text) < 20 and int(text.replace("_", ""), 0) <= most
