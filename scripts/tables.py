"""Tables from the records of runs: python -m scripts.tables FOLDER [FOLDER ...]

Reads every summary.json below the folders and writes table.md and table.csv into the first one.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pandas as pd

from aded.metrics import SUMMARY_KEYS

COLUMNS = {
    "method": "method",
    "tokens_per_second": "tokens/s",
    "speedup": "speedup [95 %]",
    "mean_accepted_tokens": "mean accepted tokens",
    "identical": "identical outputs",
    "draft_share": "drafting share of the time",
}


def summaries(folders: list[Path]) -> list[dict[str, Any]]:
    """Every finished run's summary below the folders, by path; what cannot be read is named and left out."""
    found = []
    for path in sorted(path for folder in folders for path in folder.rglob("summary.json")):
        try:
            summary = json.loads(path.read_text())
            missing = sorted(SUMMARY_KEYS.keys() - summary.keys())
        except (OSError, ValueError, AttributeError):
            print(f"{path}: not a summary; left out", file=sys.stderr)
            continue
        if missing:
            print(f"{path}: lacks {', '.join(missing)}; left out", file=sys.stderr)
            continue
        found.append(summary)
    return found


def table(found: list[dict[str, Any]]) -> pd.DataFrame:
    """One line a run, slowest first, below the yardstick they were paired with; what was not measured is missing."""
    rows = [_yardstick(found)] if any(run["speedup"] is not None for run in found) else []
    for summary in sorted(found, key=lambda run: run["speedup"] or 0):
        rows.append(
            {
                COLUMNS["method"]: summary["method"],
                COLUMNS["tokens_per_second"]: _number(summary["tokens_per_second"], ".1f"),
                COLUMNS["speedup"]: _interval(summary),
                COLUMNS["mean_accepted_tokens"]: _number(summary["mean_accepted_tokens"], ".2f"),
                COLUMNS["identical"]: _identical(summary),
                COLUMNS["draft_share"]: _number(summary["draft_share"], ".1%"),
            }
        )
    return pd.DataFrame(rows, columns=list(COLUMNS.values()))


def _yardstick(found: list[dict[str, Any]]) -> dict[str, str]:
    """Autoregressive decoding as it ran in turn with the methods: the median of its rates over the runs."""
    rates = [run["autoregressive_tokens_per_second"] for run in found if run["speedup"] is not None]
    return {
        **dict.fromkeys(COLUMNS.values(), "–"),
        COLUMNS["method"]: "autoregressive (paired)",
        COLUMNS["tokens_per_second"]: _number(float(pd.Series(rates).median()), ".1f"),
        COLUMNS["speedup"]: "1.00",
        COLUMNS["mean_accepted_tokens"]: "1.00",
    }


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


def _interval(summary: dict[str, Any]) -> str:
    ends = f"[{_number(summary['speedup_low'], '.2f')}, {_number(summary['speedup_high'], '.2f')}]"
    return f"{_number(summary['speedup'], '.2f')} {ends}"


def _identical(summary: dict[str, Any]) -> str:
    return "–" if summary["identical_outputs"] is None else f"{summary['identical_outputs']} of {summary['turns']}"


def main() -> None:
    folders = [Path(word) for word in sys.argv[1:]]
    if not folders or not all(folder.is_dir() for folder in folders):
        print(
            "FOLDER: name folders that hold finished runs, as in: python -m scripts.tables outputs", file=sys.stderr
        )
        sys.exit(2)
    found = summaries(folders)
    if not found:
        print(f"{folders[0]}: no finished run below it (no summary.json)", file=sys.stderr)
        sys.exit(2)
    frame = table(found)
    text = frame.to_markdown(index=False, disable_numparse=True)
    (folders[0] / "table.md").write_text(text + "\n")
    pd.DataFrame(found).to_csv(folders[0] / "table.csv", index=False)
    print(text)
    print(f"\ntable: {folders[0] / 'table.md'}  (all numbers: table.csv)")


if __name__ == "__main__":
    main()
