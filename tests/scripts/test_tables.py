"""The table that `make run` prints: one line a run, missing shown as missing."""

from typing import Any

from aded.metrics import SUMMARY_KEYS
from scripts.tables import COLUMNS, table


def summary(**known: Any) -> dict[str, Any]:
    return {**dict.fromkeys(SUMMARY_KEYS), "turns": 4, **known}


def paired(method: str, speedup: float, yardstick: float) -> dict[str, Any]:
    return summary(
        method=method,
        speedup=speedup,
        speedup_low=speedup - 0.1,
        speedup_high=speedup + 0.1,
        tokens_per_second=speedup * yardstick,
        autoregressive_tokens_per_second=yardstick,
        mean_accepted_tokens=2.0,
        identical_outputs=4,
        draft_share=0.01,
    )


def test_methods_stand_below_the_yardstick_they_were_paired_with() -> None:
    frame = table([paired("fast", 1.5, 20.0), paired("slow", 0.5, 30.0)])
    assert frame[COLUMNS["method"]].tolist() == ["autoregressive (paired)", "slow", "fast"]
    assert frame[COLUMNS["tokens_per_second"]].tolist() == ["25.0", "15.0", "30.0"]
    assert frame[COLUMNS["speedup"]].tolist() == ["1.00", "0.50 [0.40, 0.60]", "1.50 [1.40, 1.60]"]
    assert frame[COLUMNS["identical"]].tolist() == ["–", "4 of 4", "4 of 4"]


def test_what_was_not_measured_is_shown_as_missing() -> None:
    frame = table([summary(method="recorded", mean_accepted_tokens=2.5)])
    assert frame.iloc[0].tolist() == ["recorded", "–", "– [–, –]", "2.50", "–", "–"]
