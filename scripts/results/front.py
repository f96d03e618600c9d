"""The figure and the badges of README.md, drawn from committed files: python -m scripts.results.front

    results    the folder of the results; results
    out        the folder of the pictures; docs/images

Left: speedups of results/live, whose answers are those of autoregressive decoding. Right: mean accepted tokens of
results/targets, in a session, 64 nodes. Each is drawn for light and for dark pages.
"""

from __future__ import annotations

import csv
from configparser import ConfigParser
from dataclasses import dataclass
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from aded.config.command_line import check_no_arguments, run_command
from aded.files.atomic import write_bytes, write_text
from aded.records.metrics import Estimate
from aded.report.plots.style import DARK_PAGE, LIGHT_PAGE, NAMES, column_bars, drawn_on, svg_of
from aded.settings import FilePath
from aded.shown import say

ROOT = Path(__file__).parents[2]
SPEEDUPS = {"human_eval": "HumanEval, in a chat", "mt_bench": "MT-Bench", "human_eval_raw": "HumanEval, raw"}
"""The folders of results/live, and what they are called."""
ARMS = {
    "aded_backoff (lookup=a file, retrieval=a file)": f"{NAMES['aded_backoff']}, look-up, retrieval",
    "aded_backoff (lookup=none, retrieval=none)": NAMES["aded_backoff"],
    "prompt_lookup": NAMES["prompt_lookup"],
}
"""The lines of results/live."""
TARGETS = {
    ("qwen3-32b", "human_eval_chat"): "Qwen3-32B\nHumanEval",
    ("qwen3-32b", "mt_bench"): "Qwen3-32B\nMT-Bench",
    ("llama-3.1-8b-instruct", "specdecode_gsm8k"): "Llama-3.1-8B\nGSM8K",
    ("llama-3.1-8b-instruct", "can_it_edit"): "Llama-3.1-8B\nCanItEdit",
}
"""Models and benchmarks of results/targets."""
METHODS = {
    "aded_backoff (shape=tree)": NAMES["aded_backoff"],
    "sam_decoding": NAMES["sam_decoding"],
    "suffix_decoding (shape=tree)": NAMES["suffix_decoding"],
    "aded": f"{NAMES['aded']} as published",
    "prompt_lookup": NAMES["prompt_lookup"],
    "rest": NAMES["rest"],
}
"""The methods of results/targets."""

DRAWN = tuple(dict.fromkeys([*ARMS.values(), *METHODS.values()]))
"""A name's place is its colour; in both panels the same."""
TITLE = {"fontsize": 10, "fontweight": "bold"}


@dataclass(frozen=True)
class FrontSettings:
    """Keys of the command."""

    results: FilePath = str(ROOT / "results")
    out: FilePath = str(ROOT / "docs" / "images")


def rows_of(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def speedups(results: Path) -> dict[str, dict[str, Estimate]]:
    """Of each benchmark, the bars of the methods that ran on it."""
    found: dict[str, dict[str, Estimate]] = {}
    for folder, title in SPEEDUPS.items():
        rows = {row["line"]: row for row in rows_of(results / "live" / folder / "summary.csv")}
        bars = {name: rows[line] for line, name in ARMS.items() if line in rows}
        found[title] = {
            name: Estimate(float(row["speedup"]), float(row["speedup_low"]), float(row["speedup_high"]))
            for name, row in bars.items()
        }
    return found


def accepted(results: Path) -> dict[str, dict[str, Estimate]]:
    """Of each target and benchmark, the bars of all methods."""
    found: dict[str, dict[str, Estimate]] = {title: {} for title in TARGETS.values()}
    rows = rows_of(results / "targets" / "peers_equal.csv")
    values = {(row["model"], row["benchmark"], row["method"]): row["session, 64"] for row in rows}
    for (model, benchmark), title in TARGETS.items():
        found[title] = {name: Estimate(float(values[model, benchmark, method])) for method, name in METHODS.items()}
    return found


def draw(results: Path) -> Figure:
    """Both panels, above one legend."""
    figure = plt.figure(figsize=(9.6, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[0.4, 0.6])
    column_bars(left, speedups(results), DRAWN, DRAWN)
    column_bars(right, accepted(results), DRAWN, DRAWN[1:2])
    left.set_title("Speedup: Qwen2.5-Coder-1.5B, identical outputs", TITLE, loc="left")
    right.set_title("Mean accepted tokens: recorded answers, 64 nodes", TITLE, loc="left")
    for axes in (left, right):
        axes.axhline(1, color=plt.rcParams["text.color"], linewidth=0.8, linestyle=":")
    drawn = {
        name: bars for axes in (left, right) for bars, name in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    names = [name for name in DRAWN if name in drawn]
    figure.legend([drawn[name] for name in names], names, loc="outside lower center", ncols=4, frameon=False)
    return figure


def badge(name: str, value: str) -> str:
    """A badge of two fields, as SVG; a letter is taken for 6.6 pixels wide."""
    left, right = (round(6.6 * len(text)) + 14 for text in (name, value))
    texts = "".join(
        f'<text x="{x}" y="14" textLength="{round(6.6 * len(text))}" lengthAdjust="spacingAndGlyphs">{text}</text>'
        for x, text in ((7, name), (left + 7, value))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" role="img" '
        f'aria-label="{name}: {value}">'
        f'<rect width="{left + right}" height="20" rx="4" fill="#44546a"/>'
        f'<path d="M{left} 0h{right - 4}a4 4 0 0 1 4 4v12a4 4 0 0 1-4 4h-{right - 4}z" fill="#0072b2"/>'
        f'<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">{texts}</g></svg>\n'
    )


def badges() -> dict[str, str]:
    """By the name of the file; what setup.cfg says."""
    config = ConfigParser()
    config.read(ROOT / "setup.cfg")
    lines = config["metadata"]["classifiers"].split("\n")
    versions = [line.rpartition(":: ")[2] for line in lines if ":: 3." in line]
    return {
        "licence": badge("licence", config["metadata"]["license"]),
        "python": badge("python", " | ".join(versions)),
    }


def run(arguments: list[str], settings: FrontSettings) -> None:
    check_no_arguments(arguments)
    results, out = Path(settings.results).expanduser(), Path(settings.out).expanduser()
    for name, page in (("light", LIGHT_PAGE), ("dark", DARK_PAGE)):
        with drawn_on(page):
            figure = draw(results)
            write_bytes(out / f"front-{name}.svg", svg_of(figure), "out")
            plt.close(figure)
    for name, text in badges().items():
        write_text(out / f"badge-{name}.svg", text, "out")
    say(f"drawn: {out}/front-light.svg, front-dark.svg, badge-*.svg")


def main() -> None:
    run_command(run, FrontSettings, __doc__ or "")


if __name__ == "__main__":
    main()
