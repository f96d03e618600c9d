"""Puts what scripts/bench_gpu.sh measured into one file: python -m scripts.gpu_summary FOLDER

FOLDER/summary.json: for each shape the share of the memory's bandwidth that a step over one node reaches, the price
of 64 nodes, and for each method the speedup and the share of decoding outside the target's steps.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def of_table(table: dict[str, Any]) -> dict[str, Any]:
    """Of a table of scripts.bench_verify."""
    by_nodes = table["ms_by_nodes"]
    return {
        "device": table["machine"]["gpu"] or table["machine"]["processor"],
        "bandwidth_gb_s": table["bandwidth_gb_s"],
        "floor_ms": table["floor_ms"],
        "ms_by_nodes": by_nodes,
        "share_of_bandwidth": table["floor_ms"] / by_nodes["1"],
        "price_of_64": by_nodes["64"] / by_nodes["1"] if "64" in by_nodes else None,
    }


def of_run(folder: Path) -> dict[str, Any]:
    """Of a run's record."""
    summary = json.loads((folder / "summary.json").read_text())
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    decoding = sum(row["decode_seconds"] for row in rows)
    verifying = sum(row["verify_seconds"] for row in rows)
    keys = ("model", "turns", "mean_accepted_tokens", "tokens_per_second", "autoregressive_tokens_per_second")
    return {
        **{key: summary[key] for key in (*keys, "speedup", "speedup_low", "speedup_high")},
        "share_outside_steps": 1 - verifying / decoding if decoding else None,
    }


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: python -m scripts.gpu_summary FOLDER")
    folder = Path(sys.argv[1])
    found = {
        "verify": {
            path.stem.removeprefix("verify-"): of_table(json.loads(path.read_text()))
            for path in sorted(folder.glob("verify-*.json"))
        },
        "runs": {path.parent.name: of_run(path.parent) for path in sorted(folder.glob("*/summary.json"))},
    }
    (folder / "summary.json").write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
