"""What became of one damaged input: refused in one line, read right, or a fault of ours."""

import signal
import traceback
from collections.abc import Callable
from contextlib import redirect_stderr
from io import StringIO
from types import FrameType

from aded.errors import BadInput

SECONDS = 60.0
"""What takes longer hangs, also on a busy machine."""


class Hang(BaseException):
    """It took too long."""


def _ring(number: int, frame: FrameType | None) -> None:
    raise Hang


def outcome(
    read: Callable[[], object], refusals: tuple[type[Exception], ...], right: Callable[[object], bool]
) -> str:
    """`refused` or `right`; anything else is a fault, in words.

    read: reads the input.
    refusals: the errors that commands print in one line.
    right: is what was read what the input says?
    """
    signal.signal(signal.SIGALRM, _ring)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        with redirect_stderr(StringIO()):
            found = read()
        return "right" if right(found) else f"taken in silence: {found!r}"[:300]
    except refusals as error:
        lines = str(error).strip().splitlines()
        if not lines:
            return f"refused without a word: {type(error).__name__}"
        # Commands print Hydra's in one line.
        ours = isinstance(error, BadInput) and len(lines) > 1
        return f"refused in {len(lines)} lines: {error!r}"[:300] if ours else "refused"
    except Hang:
        return "hang"
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"traceback: {type(error).__name__}: {str(error)[:150]!r} at {last.filename}:{last.lineno}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
