"""A chat in the terminal: aded demo [model=NAME_OR_DIR] [method=NAME] [datastore=FILE] [plain=true]

The answer appears as it is written; what a draft said before the model did is in another colour. After it stand the
tokens per second with drafts, and without them: the same answer is decoded once more, unseen, one token per step.
compare=false leaves that out. plain=true, or --plain: neither colours nor a prompt sign, for pipes. Further keys are
max_new_tokens=256 of an answer, dtype=float32 and device=cpu. An empty line or Ctrl-D ends the chat.

    aded demo --plain < questions.txt
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import TextIOWrapper

from aded.config.command_line import check_no_arguments, run_command
from aded.settings import FilePath, Positive
from aded.shown import prose

DRAFTED, RESET = "\033[36m", "\033[0m"


@dataclass(frozen=True)
class DemoSettings:
    """Keys of the command."""

    model: FilePath = "embedded"
    method: str = "aded_backoff"
    datastore: FilePath | None = None
    max_new_tokens: Positive = 256
    dtype: str = "float32"
    device: str = "cpu"
    plain: bool = False
    compare: bool = True
    """Decode each answer without drafts too."""


def chat(lines: Iterable[str], settings: DemoSettings) -> Iterator[str]:
    """What to write, piece by piece, for a conversation of these lines."""
    # Imported here, so that -h and wrong keys answer at once.
    from aded.api.drafter import drafter
    from aded.api.generate import generate, request
    from aded.api.text import TextStream
    from aded.core.decode import Answer
    from aded.targets.load import load

    named = drafter(settings.method, datastore=settings.datastore)
    model, tokenizer = load(settings.model, dtype=settings.dtype, device=settings.device)
    messages: list[dict[str, str]] = []
    for line in lines:
        messages.append({"role": "user", "content": line})
        asked = request(model, tokenizer, messages, named, settings.max_new_tokens)
        text, answer = TextStream(tokenizer), Answer()
        for answer in asked.answers():
            ids, bonus = answer.token_ids, len(answer.token_ids) - 1
            drafted, own = (text.more(ids[:bonus]) if answer.accept_lengths else ""), text.more(ids)
            drafted, own = prose(drafted), prose(own)
            yield f"{DRAFTED}{drafted}{RESET}{own}" if drafted and not settings.plain else drafted + own
        yield prose(text.rest(answer.token_ids))
        done = asked.finished(answer)
        note = f"{_rate(done.tokens_per_second)} tokens/s, {_rate(done.mean_accepted_tokens)} tokens per step"
        if settings.compare:
            alone = generate(model, tokenizer, messages, drafter=None, max_new_tokens=settings.max_new_tokens)
            note += f"; without drafts {_rate(alone.tokens_per_second)} tokens/s"
        yield f"\n[{note}]\n"
        messages.append({"role": "assistant", "content": done.text})


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def lines_of(plain: bool) -> Iterator[str]:
    """What the user asks, line by line; an empty line ends a chat at a terminal."""
    asking = sys.stdin.isatty() and not plain
    if isinstance(sys.stdin, TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")  # bytes that are no UTF-8
    while True:
        if asking:
            print("> ", end="", flush=True)  # noqa: T201
        line = sys.stdin.readline()
        if not line or (asking and not line.strip()):
            return
        if line.strip():
            yield line.strip()


def show(arguments: list[str], settings: DemoSettings) -> None:
    """Chat until the input ends. Raises BadInput."""
    check_no_arguments(arguments)
    for text in chat(lines_of(settings.plain), settings):
        print(text, end="", flush=True)  # noqa: T201 - with colours of its own


def main() -> None:
    run_command(show, DemoSettings, __doc__ or "")


if __name__ == "__main__":
    main()
