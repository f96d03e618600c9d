"""The comparison report of a W&B project (wandb-workspaces): python -m scripts.wandb_report ENTITY/PROJECT

Speedup, mean accepted tokens and tokens per second of the project's runs, grouped by model, benchmark and method.
It needs an account; without one the same comparison is made locally, by scripts.tables and scripts.plots.
"""

from __future__ import annotations

import sys
from typing import Any

from aded.command_line import exit_with_error
from aded.errors import BadInput

METRICS = {
    "speedup": "Speedup over autoregressive decoding",
    "mean_accepted_tokens": "Mean accepted tokens",
    "tokens_per_second": "Tokens per second",
    "draft_ms_median": "Milliseconds to draft, median step",
}
"""Keys of summary.json, by their titles."""
GROUPED_BY = ("model.name", "benchmark.name", "method.name")
NO_ACCOUNT = (
    "no W&B account is logged in. Sign up at wandb.ai and run `wandb login`, upload offline runs with `wandb sync "
    "FOLDER`, and start this again; or compare without one: python -m scripts.tables outputs"
)


def report(entity: str, project: str) -> Any:
    """The wandb_workspaces Report, not saved yet; making it asks no server."""
    import wandb_workspaces.reports.v2 as wr

    runs = wr.Runset(entity=entity, project=project, groupby=[f"config.{key}" for key in GROUPED_BY])
    bars: list[Any] = [
        wr.BarPlot(title=title, metrics=[wr.SummaryMetric(key)], orientation="h", layout=wr.Layout(w=12, h=8))
        for key, title in METRICS.items()
    ]
    text = "A speedup is paired: both arms decoded the same prompts in turn. The runs' own folders are the truth."
    return wr.Report(
        project=project,
        entity=entity,
        title="Draft-verification methods compared",
        blocks=[wr.P(text), wr.PanelGrid(runsets=[runs], panels=bars)],
    )


def save(entity: str, project: str) -> str:
    """Save the report; return its address. Raises BadInput without an account, or where the server refuses."""
    import wandb

    if not wandb.login(prompt=False):
        raise BadInput("wandb", NO_ACCOUNT)
    made = report(entity, project)
    try:
        made.save()
    except (wandb.errors.Error, ValueError, OSError) as error:
        raise BadInput("ENTITY/PROJECT", f"{entity}/{project}: W&B did not take the report ({error})") from None
    return str(made.url)


def main() -> None:
    try:
        entity, _, project = sys.argv[1].partition("/") if len(sys.argv) == 2 else ("", "", "")
        if not entity or not project:
            raise BadInput("ENTITY/PROJECT", "name a W&B project: python -m scripts.wandb_report ENTITY/PROJECT")
        print(f"report: {save(entity, project)}")
    except BadInput as error:
        exit_with_error(error)


if __name__ == "__main__":
    main()
