"""Plots from the records of runs: python -m scripts.plots FOLDER [FOLDER ...]

Writes speedup.png and speedup.pdf into the first folder.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from scripts.finished_runs import read_runs

# Okabe and Ito's palette, which the colour-blind can tell apart.
BLUE, ORANGE = "#0072B2", "#E69F00"


def speedup_bars(found: Sequence[Mapping[str, Any]]) -> plt.Figure:
    """Speedup with its interval, and mean accepted tokens, a pair of bars a method."""
    runs = sorted((run for run in found if run["speedup"] is not None), key=lambda run: run["speedup"])
    figure, axes = plt.subplots(figsize=(6.4, 0.7 * len(runs) + 1.4), layout="constrained")
    for y, run in enumerate(runs):
        low, high = run["speedup_low"] or run["speedup"], run["speedup_high"] or run["speedup"]
        error = [[run["speedup"] - low], [high - run["speedup"]]]
        first = y == 0
        axes.barh(
            y + 0.19, run["speedup"], 0.36, xerr=error, capsize=3, color=BLUE, label="speedup" if first else None
        )
        axes.barh(
            y - 0.19,
            run["mean_accepted_tokens"] or 0,
            0.36,
            color=ORANGE,
            hatch="//",
            edgecolor="white",
            label="mean accepted tokens" if first else None,
        )
    axes.axvline(1, color="black", linewidth=0.8, linestyle=":")
    axes.set_yticks(range(len(runs)), [run["method"] for run in runs])
    axes.set_xlabel("times autoregressive decoding")
    axes.legend(loc="lower right", frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def main() -> None:
    folders = [Path(word) for word in sys.argv[1:]]
    found = [run.summary for run in read_runs(folders)]
    if not any(run["speedup"] is not None for run in found):
        print("FOLDER: name folders that hold finished, paired runs", file=sys.stderr)
        sys.exit(2)
    figure = speedup_bars(found)
    for kind in ("png", "pdf"):
        figure.savefig(folders[0] / f"speedup.{kind}", dpi=160)
    print(f"plot: {folders[0] / 'speedup.png'}")


if __name__ == "__main__":
    main()
