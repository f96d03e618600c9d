"""The numbers of a run, each from its rows, and what every key means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

Row = Mapping[str, Any]

ROW_KEYS = {
    "question_id": "id of the question, unique in its benchmark",
    "turn": "0 for the first turn",
    "category": "the benchmark's category of the question",
    "prompt_tokens": "tokens of the prompt, earlier turns and answers included",
    "new_tokens": "tokens that the steps decided: the sum of accept_lengths; the prefill's token is not among them",
    "steps": "target forwards over a draft tree; prefill is no step",
    "accept_lengths": "tokens each step added to the answer: accepted drafts and the bonus token, up to the stop",
    "drafted_nodes": "nodes drafted at each step, the root apart",
    "reliability": "of the nodes whose probability of acceptance the drafter told, in 20 equal bins of the probability: nodes, "
    "the sum of their probabilities, and how many were accepted (aded.core.calibration; null: the drafter tells none)",
    "draft_ms": "milliseconds of drafting at each step: draft and observe, in the first step begin as well",
    "draft_seconds": "sum of draft_ms, in seconds",
    "verify_seconds": "seconds in the target: forward, accepted path, compaction (null: recorded answers)",
    "decode_seconds": "wall time from the first token's decision to the last token's (null: recorded answers)",
    "prefill_seconds": "wall time of the forward over the prompt, which decides the first token (null: as above)",
    "stop_reason": "eos, stop_string, limit (of tokens asked for or held by the model) or context (prompt too long)",
    "token_ids": "the whole answer, the prefill's token first",
    "token_ids_sha256": "sha256 of token_ids as JSON without spaces",
    "identical": "does the answer equal autoregressive decoding of the same prompt (null: not compared)",
    "divergence": "where it first differs: position in the answer, and the gap between autoregressive decoding's two "
    "best logits there (null: it does not)",
    "autoregressive_new_tokens": "new_tokens of autoregressive decoding of the same prompt (null: paired=false)",
    "autoregressive_decode_seconds": "its decode_seconds",
    "autoregressive_prefill_seconds": "its prefill_seconds",
}

SUMMARY_KEYS = {
    "method": "name of the method's config",
    "model": "name of the model's config",
    "benchmark": "name of the benchmark's config",
    "questions": "questions answered",
    "turns": "turns answered: rows",
    "steps": "sum over rows",
    "new_tokens": "sum over rows",
    "mean_accepted_tokens": "new_tokens / steps; 1.00 for autoregressive decoding",
    "drafted_nodes_per_step": "mean number of drafted nodes a step, the root apart",
    "draft_ms_median": "median of all steps' draft_ms",
    "draft_ms_p99": "99th percentile of all steps' draft_ms",
    "draft_share": "draft seconds / decode seconds",
    "tokens_per_second": "new_tokens / decode seconds",
    "tokens_per_second_end_to_end": "all tokens of the answers / (prefill + decode seconds)",
    "autoregressive_tokens_per_second": "the same as tokens_per_second, for the paired autoregressive decoding",
    "speedup": "tokens_per_second / autoregressive_tokens_per_second",
    "speedup_low": "lower end of its 95 % bootstrap interval over questions",
    "speedup_high": "upper end of that interval",
    "identical_outputs": "turns whose answer equals autoregressive decoding's",
    "run_id": "hash of the resolved config without volatile keys",
}


def summarise(rows: Sequence[Row], *, method: str, model: str, benchmark: str, run_id: str) -> dict[str, Any]:
    """The summary of a run, with exactly the keys of SUMMARY_KEYS; null where a number does not apply."""
    total = {key: sum(row[key] for row in rows) for key in ("new_tokens", "steps")}
    timed = [row for row in rows if row["decode_seconds"] is not None]
    seconds = {key: sum(row[key] for row in timed) for key in ("decode_seconds", "prefill_seconds", "draft_seconds")}
    draft_ms = [ms for row in rows for ms in row["draft_ms"]]
    paired = [row for row in rows if row["autoregressive_decode_seconds"] is not None]
    low, high = speedup_interval(paired)
    answer_tokens = sum(len(row["token_ids"]) for row in rows)
    return {
        "method": method,
        "model": model,
        "benchmark": benchmark,
        "questions": len({row["question_id"] for row in rows}),
        "turns": len(rows),
        "steps": total["steps"],
        "new_tokens": total["new_tokens"],
        "mean_accepted_tokens": ratio(total["new_tokens"], total["steps"]),
        "drafted_nodes_per_step": ratio(sum(sum(row["drafted_nodes"]) for row in rows), total["steps"]),
        "draft_ms_median": float(np.median(draft_ms)) if draft_ms else None,
        "draft_ms_p99": float(np.percentile(draft_ms, 99)) if draft_ms else None,
        "draft_share": ratio(seconds["draft_seconds"], seconds["decode_seconds"]),
        "tokens_per_second": ratio(total["new_tokens"], seconds["decode_seconds"]),
        "tokens_per_second_end_to_end": ratio(answer_tokens, seconds["prefill_seconds"] + seconds["decode_seconds"]),
        "autoregressive_tokens_per_second": ratio(
            sum(row["autoregressive_new_tokens"] for row in paired),
            sum(row["autoregressive_decode_seconds"] for row in paired),
        ),
        "speedup": speedup(paired),
        "speedup_low": low,
        "speedup_high": high,
        "identical_outputs": sum(row["identical"] for row in paired) if paired else None,
        "run_id": run_id,
    }


def ratio(numerator: float, denominator: float) -> float | None:
    """The quotient, or None where there is nothing to divide by."""
    return numerator / denominator if denominator else None


def _sums(rows: Sequence[Row]) -> np.ndarray:
    """float [questions, 4]: tokens and seconds of the method, tokens and seconds of autoregressive decoding."""
    keys = ("new_tokens", "decode_seconds", "autoregressive_new_tokens", "autoregressive_decode_seconds")
    by_question: dict[str, np.ndarray] = {}
    for row in rows:
        values = np.array([row[key] for key in keys], float)
        by_question[row["question_id"]] = by_question.get(row["question_id"], 0) + values
    return np.array(list(by_question.values())).reshape(-1, 4)


def _speedups(sums: np.ndarray) -> np.ndarray:
    """float [.., 4] to [..]: (tokens / seconds of the method) / (tokens / seconds of autoregressive decoding)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return sums[..., 0] / sums[..., 1] / (sums[..., 2] / sums[..., 3])


def speedup(rows: Sequence[Row]) -> float | None:
    """Ratio of the tokens per second over all paired rows."""
    value = float(_speedups(_sums(rows).sum(axis=0)))
    return value if np.isfinite(value) else None


def speedup_interval(rows: Sequence[Row], resamples: int = 2000) -> tuple[float | None, float | None]:
    """95 % percentile bootstrap over questions (Efron 1979), seeded; (None, None) for fewer than two."""
    sums = _sums(rows)
    if len(sums) < 2:
        return None, None
    picks = np.random.default_rng(0).integers(len(sums), size=(resamples, len(sums)))
    values = _speedups(sums[picks].sum(axis=1))
    values = values[np.isfinite(values)]
    if len(values) == 0:
        return None, None
    low, high = np.percentile(values, [2.5, 97.5])
    return float(low), float(high)
