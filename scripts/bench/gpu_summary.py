"""One file with everything that scripts/bench_gpu.sh measured.

    python -m scripts.bench.gpu_summary FOLDER

Writes FOLDER/summary.json and prints it as one line. For each shape it has the share of the memory bandwidth that a
step over one node reaches, and the cost of 64 nodes relative to one. For each run it has the speedup and the share of
the decoding time outside the target's steps.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from aded.config.command_line import run_command
from aded.errors import BadInput
from aded.files.atomic import write_text
from aded.records.finished_runs import FinishedRun, read_run
from scripts import NoSettings

OF_SUMMARY = (
    "model",
    "turns",
    "mean_accepted_tokens",
    "tokens_per_second",
    "autoregressive_tokens_per_second",
    "speedup",
    "speedup_low",
    "speedup_high",
)


def of_table(table: dict[str, Any]) -> dict[str, Any]:
    """The numbers of a table of scripts.bench.verify."""
    by_nodes = table["ms_by_nodes"]
    return {
        "device": table["machine"]["gpu"] or table["machine"]["processor"],
        "bandwidth_gb_s": table["bandwidth_gb_s"],
        "floor_ms": table["floor_ms"],
        "ms_by_nodes": by_nodes,
        "share_of_bandwidth": table["floor_ms"] / by_nodes["1"],
        "price_of_64": by_nodes["64"] / by_nodes["1"] if "64" in by_nodes else None,
    }


def of_run(run: FinishedRun) -> dict[str, Any]:
    """The numbers of a run."""
    decoding = sum(row.decode_seconds or 0.0 for row in run.rows)
    verifying = sum(row.verify_seconds or 0.0 for row in run.rows)
    return {
        **{key: getattr(run.summary, key) for key in OF_SUMMARY},
        "share_outside_steps": 1 - verifying / decoding if decoding else None,
    }


def run(arguments: list[str], settings: NoSettings) -> None:
    if len(arguments) != 1 or not Path(arguments[0]).is_dir():
        raise BadInput(
            "FOLDER", "name the folder that bench_gpu.sh wrote: python -m scripts.bench.gpu_summary FOLDER"
        )
    folder = Path(arguments[0])
    if (folder / "rows.jsonl").exists():
        raise BadInput("FOLDER", f"{folder} is a run, whose summary.json would be lost; name the folder above it")
    try:
        found = {
            "verify": {
                path.stem.removeprefix("verify-"): of_table(json.loads(path.read_text()))
                for path in sorted(folder.glob("verify-*.json"))
            },
            "runs": {
                path.parent.name: of_run(read_run(path.parent)) for path in sorted(folder.glob("*/summary.json"))
            },
        }
    except ValueError as error:
        raise BadInput("FOLDER", str(error)) from None
    write_text(folder / "summary.json", json.dumps(found, indent=1) + "\n", "FOLDER")
    print(json.dumps(found))


def main() -> None:
    run_command(run, NoSettings, __doc__ or "")


if __name__ == "__main__":
    main()
