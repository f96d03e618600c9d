"""The animated terminal of README.md: python -m scripts.results.terminal record|draw [KEY=VALUE ...]

    record    ask `aded demo` questions, and write what it prints, piece by piece
    draw      draw the session as an animated SVG, eight pieces a second

    session      the file of the session; results/live/demo.jsonl
    out          draw: the picture; docs/images/demo.svg
    model        record: as for `aded demo`; embedded
    questions    record: what is asked
    tokens       record: at most so many new tokens an answer

The session keeps its times, which are those of one machine.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from aded.commands.demo import DRAFTED, RESET, DemoSettings, chat
from aded.config.command_line import run_command
from aded.errors import BadInput
from aded.files.atomic import write_text
from aded.files.json_lines import json_lines
from aded.settings import FilePath, Positive
from aded.shown import say

ROOT = Path(__file__).parents[2]
COLUMNS, LINE, LETTER, MARGIN = 84, 20, 8.4, 16
"""Letters of a line, and the sizes of a line, a letter and the margin in pixels."""
PAUSE, STAY = 0.125, 5.0
"""Seconds between two pieces, and those for which the whole answer stays."""
PLAIN_COLOUR, ACCEPTED_COLOUR = "#e6edf3", "#56d4dd"


@dataclass(frozen=True)
class TerminalSettings:
    """Keys of the command."""

    session: FilePath = str(ROOT / "results" / "live" / "demo.jsonl")
    out: FilePath = str(ROOT / "docs" / "images" / "demo.svg")
    model: str = "embedded"
    questions: tuple[str, ...] = (
        "Write a Python function that returns the factorial of n.",
        "Write that function again, with type hints.",
    )
    tokens: Positive = 80


class Run(NamedTuple):
    """Letters of one colour on one line, and the number of the piece that brought them."""

    piece: int
    line: int
    column: int
    text: str
    colour: str


def record(settings: TerminalSettings) -> list[str]:
    """The lines of a session: its command, and each piece with the seconds after the first question."""
    demo = DemoSettings(model=settings.model, max_new_tokens=settings.tokens)
    lines = [json.dumps({"model": settings.model, "method": demo.method})]
    start = 0.0

    def write(text: str) -> None:
        lines.append(json.dumps({"seconds": round(perf_counter() - start, 3), "text": text}))

    def asked() -> Iterator[str]:
        nonlocal start
        for question in settings.questions:
            start = start or perf_counter()  # the model is loaded before the first
            write(f"> {question}\n")
            yield question

    for text in filter(None, chat(asked(), demo)):
        write(text)
    return lines


def runs_of(pieces: Sequence[str]) -> Iterator[Run]:
    """The pieces as runs on lines of COLUMNS letters."""
    line = column = 0
    for number, piece in enumerate(pieces):
        colour = PLAIN_COLOUR
        for part in re.split(f"({re.escape(DRAFTED)}|{re.escape(RESET)}|\n)", piece):
            if part in (DRAFTED, RESET):
                colour = ACCEPTED_COLOUR if part == DRAFTED else PLAIN_COLOUR
            elif part == "\n":
                line, column = line + 1, 0
            while part not in ("", "\n", DRAFTED, RESET):
                text, part = part[: COLUMNS - column], part[COLUMNS - column :]
                yield Run(number, line, column, text, colour)
                column += len(text)
                if part:
                    line, column = line + 1, 0


def draw(session: Sequence[dict[str, str]]) -> str:
    """The session as SVG; who asks for less motion sees its end."""
    about, *said = session
    pieces = [f"$ aded demo model={about['model']}\n", *(one["text"] for one in said)]
    runs = list(runs_of(pieces))
    seconds = PAUSE * len(pieces) + STAY
    width, height = round(2 * MARGIN + COLUMNS * LETTER), 2 * MARGIN + LINE * (runs[-1].line + 1)
    starts = {run.piece: 100 * PAUSE * run.piece / seconds for run in runs if run.piece}
    frames = "".join(
        f"@keyframes k{piece}{{0%,{start:.2f}%{{opacity:0}}{start + 0.01:.2f}%,100%{{opacity:1}}}}"
        f".k{piece}{{animation:k{piece} {seconds:g}s infinite}}"
        for piece, start in starts.items()
    )
    texts = "".join(
        f'<text class="k{run.piece}" x="{MARGIN + run.column * LETTER:.1f}" y="{MARGIN + LINE * run.line + 14}" '
        f'textLength="{len(run.text) * LETTER:.1f}" fill="{run.colour}">{escape(run.text)}</text>\n'
        for run in runs
    )
    title = f"aded demo, {about['model']}: accepted drafts are coloured"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{escape(title)}" font-family="ui-monospace,Menlo,Consolas,monospace" font-size="14">'
        f"<style>text{{white-space:pre}}@media (prefers-reduced-motion:no-preference){{{frames}}}</style>"
        f'<rect width="{width}" height="{height}" rx="8" fill="#0d1117"/>\n{texts}</svg>\n'
    )


def run(arguments: list[str], settings: TerminalSettings) -> None:
    session, out = Path(settings.session).expanduser(), Path(settings.out).expanduser()
    if arguments == ["record"]:
        write_text(session, "\n".join(record(settings)) + "\n", "session")
        say(f"recorded: {session}")
    elif arguments == ["draw"]:
        rows = [row for _, row in json_lines(session, "session")]
        if not rows or "model" not in rows[0] or not all("text" in row for row in rows[1:]):
            raise BadInput("session", f"{session} is no session that record wrote")
        write_text(out, draw(rows), "out")
        say(f"drawn: {out}")
    else:
        raise BadInput("record|draw", "name one of the two")


def main() -> None:
    run_command(run, TerminalSettings, __doc__ or "")


if __name__ == "__main__":
    main()
