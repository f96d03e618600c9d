"""A run's acceptance as engines read it, to try their serving stack with a drafter's rates and without the drafter.

`rates[i]` is the share of the steps that accepted at least i + 1 drafted tokens: what vLLM calls
synthetic_acceptance_rates (vllm/config/speculative.py) and llama.cpp --spec-synthetic-acceptance-rates. An engine fed
with them yields 1 + their sum tokens per step, if it drafts at every step.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from aded.errors import BadInput
from aded.records.finished_runs import FinishedRun, read_finished

UNSAID = (
    "trees: a rate is that of the whole draft tree; an engine that verifies one chain reaches it only if the run "
    "drafted chains (method.shape=chain)",
    "drafting time: an engine fed with rates drafts with whatever drafter it runs",
    "streaks: rates are means over all steps, and real accepted drafts come in runs of easy text",
)
"""What no list of rates can say."""


def acceptance_profile(folder: Path, longest: int | None = None) -> dict[str, Any]:
    """The profile of a finished run. longest: of a draft; None: the longest of which anything was accepted.

    Raises BadInput.
    """
    run = read_finished(folder, "RUN_FOLDER")
    rates = _rates(run, longest)
    summary = run.summary
    return {
        "run": {
            "method": summary.method,
            "model": run.model,
            "benchmark": run.benchmark,
            "steps": summary.steps,
            "mean_accepted_tokens": summary.mean_accepted_tokens,
            "drafted_nodes_per_step": summary.drafted_nodes_per_step,
            "draft_ms_median": summary.draft_ms_median,
            "draft_ms_p99": summary.draft_ms_p99,
        },
        "rates": rates,
        "tokens_per_step": 1 + sum(rates),
        "vllm": {
            "num_speculative_tokens": len(rates),
            "rejection_sample_method": "synthetic",
            "synthetic_acceptance_rates": rates,
        },
        "llama_cpp": ["--spec-synthetic-acceptance-rates", ",".join(f"{rate:.6f}" for rate in rates)],
        "not_in_it": list(UNSAID),
    }


def _rates(run: FinishedRun, longest: int | None) -> list[float]:
    """At least one, never rising. Raises BadInput."""
    found = run.summary.acceptance_by_position
    if found is None:
        raise BadInput("RUN_FOLDER", f"{run.folder} has no steps, so it accepted nothing and rejected nothing")
    joint = found.joint[:longest]
    return joint + [0.0] * ((longest or 1) - len(joint))
