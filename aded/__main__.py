"""The command aded: aded COMMAND [KEY=VALUE ...]

Imports the command's module and nothing else, so that the list of commands needs none of the extras.
"""

from __future__ import annotations

import ast
import os
import signal
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from aded import __version__
from aded.errors import BadInput, naming_the_extra, no_such
from aded.shown import say, say_of_error, warn

COMMANDS = {
    "demo": "aded.commands.demo",
    "run": "aded.commands.run",
    "record": "aded.commands.record",
    "sweep": "aded.commands.sweep",
    "tables": "aded.commands.tables",
    "plots": "aded.commands.plots",
    "report": "aded.commands.report",
    "compare": "aded.commands.compare",
    "batch": "aded.commands.batch",
    "build": "datastore.build",
    "fetch": "datastore.fetch",
    "info": "datastore.info",
    "merge": "datastore.merge",
    "publish": "datastore.publish",
    "export": "aded.commands.export",
    "score": "aded.commands.score",
    "wandb": "aded.commands.wandb",
}
"""Each command's module, which has a function main() and says in its first line what the command does."""


def main() -> None:
    """Run the command that sys.argv names.

    Exit code 2: there is no such command, or an extra is missing. 141: whoever read the output, as `head`, has gone.
    """
    sys.excepthook = say_of_error
    try:
        _run()
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is left is flushed into nothing
        sys.exit(128 + signal.SIGPIPE)


def _run() -> None:
    name, *rest = sys.argv[1:] or ["--help"]
    if name in ("-h", "--help"):
        say(overview())
    elif name == "--version":
        say(__version__)
    else:
        try:
            sys.argv[1:] = rest
            with naming_the_extra():
                import_module(module_of(name)).main()
        except BadInput as error:
            warn(error)
            sys.exit(2)


def module_of(name: str) -> str:
    """The module of a command. Raises BadInput."""
    if name not in COMMANDS:
        raise BadInput(name, no_such("command", name, COMMANDS))
    return COMMANDS[name]


def overview() -> str:
    """The commands, one a line."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {_first_line(module)}" for name, module in COMMANDS.items()]
    return "\n".join(
        ["aded COMMAND [KEY=VALUE ...]", "", *lines, "", "aded COMMAND -h explains one; --version is this version."]
    )


def _first_line(module: str) -> str:
    """What a module says of itself, read without importing it: the libraries that it imports may be missing."""
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    about = ast.get_docstring(ast.parse(Path(spec.origin).read_bytes())) or ""
    return about.partition("\n")[0].partition(": aded ")[0].rstrip(".:")


if __name__ == "__main__":
    main()
