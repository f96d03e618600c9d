"""One table of the step times that scripts/bench_gpu.sh measured.

    python -m scripts.bench.gpu_summary FOLDER

Reads FOLDER/verify-SHAPE.json, prints a table with a row per shape, and writes it to FOLDER/step_times.md:
milliseconds of a step over so many nodes, and the floor, the time to read the weights and the KV cache once.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tabulate import tabulate

from aded.config.command_line import NoSettings, run_command
from aded.errors import BadInput
from aded.files.atomic import write_text
from aded.shown import say


def row_of(shape: str, table: dict[str, Any]) -> dict[str, Any]:
    """The numbers of a table of scripts.bench.verify, by the columns' names."""
    times = table["ms_by_nodes"]
    return {
        "shape": shape,
        "device": table["machine"]["gpu"] or table["machine"]["processor"],
        "engine": table["engines"][-1]["engine"],
        "context": table["context"],
        "floor": table["floor_ms"],
        **{f"{nodes} {'node' if nodes == '1' else 'nodes'}": ms for nodes, ms in times.items()},
        "share of bandwidth": table["floor_ms"] / times["1"],
    }


def run(arguments: list[str], settings: NoSettings) -> None:
    files = sorted(Path(arguments[0]).glob("verify-*.json")) if len(arguments) == 1 else []
    if not files:
        raise BadInput(
            "FOLDER", "name the folder that bench_gpu.sh wrote: python -m scripts.bench.gpu_summary FOLDER"
        )
    try:
        rows = [row_of(path.stem.removeprefix("verify-"), json.loads(path.read_text())) for path in files]
    except (ValueError, LookupError, TypeError) as error:
        raise BadInput("FOLDER", f"{files[0].parent}: no table of scripts.bench.verify ({error!r})") from None
    text = tabulate(rows, headers="keys", tablefmt="github", floatfmt=".2f")
    write_text(files[0].parent / "step_times.md", text + "\n", "FOLDER")
    say(text)


def main() -> None:
    run_command(run, NoSettings, __doc__ or "")


if __name__ == "__main__":
    main()
