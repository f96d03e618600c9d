"""The comparison report of a Weights & Biases project.

    aded wandb ENTITY/PROJECT [FOLDER ...]

Shows speedup, mean accepted tokens and tokens per second of the project's runs, the highest speedup first, grouped by
model, benchmark and method. With the folders of the runs' records it begins with their ranking, as `aded report` has
it. It needs an account; without one, `aded report` compares the same runs.
"""

from __future__ import annotations

from typing import Any

from aded.commands.tables import runs_below
from aded.config.command_line import NoSettings, run_command
from aded.errors import BadInput
from aded.report.tables.summary import ranking
from aded.shown import say

METRICS = {
    "speedup": "Speedup over autoregressive decoding",
    "mean_accepted_tokens": "Mean accepted tokens",
    "tokens_per_second": "Tokens per second",
    "draft_ms_median": "Milliseconds to draft, median step",
}
"""Keys of summary.json, with their titles."""
GROUPED_BY = ("model.name", "benchmark.name", "method.name")
NO_ACCOUNT = (
    "no W&B account is logged in. Sign up at wandb.ai and run `wandb login`, upload offline runs with `wandb sync "
    "FOLDER`, and start this again; or compare without one: aded report outputs"
)


def report(entity: str, project: str, ranking: str = "") -> Any:
    """The wandb_workspaces Report, not saved yet; making it asks no server. ranking: a table in Markdown."""
    import wandb_workspaces.reports.v2 as wr

    best_first = [wr.OrderBy(wr.SummaryMetric(key), ascending=False) for key in ("speedup", "mean_accepted_tokens")]
    grouped = [f"config.{key}" for key in GROUPED_BY]
    runs = wr.Runset(entity=entity, project=project, groupby=grouped, order=best_first)
    bars: list[Any] = [
        wr.BarPlot(title=title, metrics=[wr.SummaryMetric(key)], orientation="h", layout=wr.Layout(w=12, h=8))
        for key, title in METRICS.items()
    ]
    text = (
        "A speedup is paired: the method and autoregressive decoding took turns on the same prompts. The runs' own "
        "folders are the record."
    )
    return wr.Report(
        project=project,
        entity=entity,
        title="Draft-verification methods compared",
        blocks=[
            *([wr.MarkdownBlock(ranking)] if ranking else []),
            wr.P(text),
            wr.PanelGrid(runsets=[runs], panels=bars),
        ],
    )


def save(entity: str, project: str, ranking: str = "") -> str:
    """Save the report; return its address. Raises BadInput without an account, or where the server refuses."""
    import wandb

    try:
        if wandb.login(prompt=False):
            made = report(entity, project, ranking)
            made.save()
            return str(made.url)
    except (wandb.errors.Error, ValueError, OSError) as error:
        raise BadInput("ENTITY/PROJECT", f"{entity}/{project}: W&B did not take the report ({error})") from None
    raise BadInput("wandb", NO_ACCOUNT)


def run(arguments: list[str], settings: NoSettings) -> None:
    entity, _, project = arguments[0].partition("/") if arguments else ("", "", "")
    if not entity or not project:
        raise BadInput("ENTITY/PROJECT", "name a W&B project: aded wandb ENTITY/PROJECT [FOLDER ...]")
    table = ranking(runs_below(arguments[1:], "wandb")[0]) if arguments[1:] else ""
    say(f"report: {save(entity, project, table)}")


def main() -> None:
    run_command(run, NoSettings, __doc__ or "")


if __name__ == "__main__":
    main()
