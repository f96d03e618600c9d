"""Every row of the leaderboard can be rebuilt, and one that cannot is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from packed import TURNS, small_pack

from aded.errors import BadInput
from scripts.results import leaderboard
from scripts.results.leaderboard import LeaderboardSettings, add, as_csv, numbers_of, read_rows, verify
from scripts.results.measure import names_of_packs

ROOT = Path(__file__).parents[3]
OURS = ROOT / "results" / "leaderboard.csv"


@pytest.fixture
def given(tmp_path: Path) -> dict[str, Any]:
    for name in ("one", "two"):
        small_pack(tmp_path / "packs" / name)
    return {"file": str(tmp_path / "board.csv"), "packs": str(tmp_path / "packs")}


def test_ours_is_whole() -> None:
    rows = read_rows(OURS)
    assert as_csv(rows) == OURS.read_text()
    assert {row.pack for row in rows} == set(names_of_packs(ROOT / "results" / "packs"))


def test_a_row_of_ours_is_found_again(capsys: pytest.CaptureFixture[str]) -> None:
    """One here, all by `python -m scripts.results.leaderboard verify`."""
    given: dict[str, Any] = {"file": str(OURS), "packs": str(ROOT / "results" / "packs")}
    verify(LeaderboardSettings(**given, method="prompt_lookup", pack="smollm2-long_answers"))
    assert capsys.readouterr().out.count("found again") == 1


def test_rows_are_added_replaced_and_verified(given: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    for method, settings in (("prompt_lookup", {}), ("prompt_lookup", {"budget": 4}), ("prompt_lookup", {})):
        add(LeaderboardSettings(**given, method=method, settings=settings, submitter="me"))
    rows = read_rows(Path(given["file"]))
    assert sorted((row.pack, row.settings) for row in rows) == [
        (pack, settings) for pack in ("one", "two") for settings in ('{"budget": 4}', "{}")
    ]
    assert all(len(row.config) == 16 and row.submitter == "me" and row.mat_cold == row.mat_session for row in rows)
    capsys.readouterr()
    verify(LeaderboardSettings(**given))
    assert capsys.readouterr().out.count("found again") == 4


@pytest.mark.parametrize("key", leaderboard.REBUILT)
def test_a_row_that_differs_fails(given: dict[str, Any], capsys: pytest.CaptureFixture[str], key: str) -> None:
    add(LeaderboardSettings(**given, method="prompt_lookup", pack="one", submitter="me"))
    path = Path(given["file"])
    (row,) = read_rows(path)
    path.write_text(as_csv([replace(row, **{key: getattr(row, key)[:-1] + "x"})]))
    with pytest.raises(SystemExit) as stop:
        verify(LeaderboardSettings(**given))
    assert stop.value.code == 1
    assert f"line 2: prompt_lookup on one: {key} is {getattr(row, key)}, not" in capsys.readouterr().err


def test_drafting_time_is_not_compared(given: dict[str, Any]) -> None:
    add(LeaderboardSettings(**given, method="prompt_lookup", pack="one", submitter="me"))
    path = Path(given["file"])
    (row,) = read_rows(path)
    path.write_text(as_csv([replace(row, draft_ms="99.0")]))
    verify(LeaderboardSettings(**given))


def test_another_pack_is_another_number(given: dict[str, Any]) -> None:
    add(LeaderboardSettings(**given, method="prompt_lookup", pack="one", submitter="me"))
    small_pack(Path(given["packs"]) / "one", TURNS[:1])
    with pytest.raises(SystemExit):
        verify(LeaderboardSettings(**given))


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({"method": "no_such"}, "'no_such' is no method"),
        ({"pack": "three"}, "has no pack three; put it there"),
        ({"corpus": "four"}, "has no pack four; put it there"),
        ({"settings": "[]"}, "line 2: settings must be a JSON object"),
        ({"settings": '{"budgets": 3}'}, "method.budgets: no such key"),
    ],
)
def test_rows_that_nobody_can_rebuild_are_refused(given: dict[str, Any], changed: dict[str, str], line: str) -> None:
    add(LeaderboardSettings(**given, method="prompt_lookup", pack="one", submitter="me"))
    path = Path(given["file"])
    (row,) = read_rows(path)
    path.write_text(as_csv([replace(row, **changed)]))
    with pytest.raises(BadInput, match=line):
        verify(LeaderboardSettings(**given))


def test_what_a_row_lacks_is_named(given: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="submitter: must be given"):
        add(LeaderboardSettings(**given, method="prompt_lookup"))
    with pytest.raises(BadInput, match="method: must be given"):
        add(LeaderboardSettings(**given, submitter="me"))
    (tmp_path / "board.csv").write_text(",".join(leaderboard.COLUMNS) + "\nrest,{}\n")
    with pytest.raises(BadInput, match=r"board.csv line 2 has not 13 columns"):
        verify(LeaderboardSettings(**given))
    (tmp_path / "board.csv").write_text("method,pack\n")
    with pytest.raises(BadInput, match="is no leaderboard; its columns must be method, settings"):
        verify(LeaderboardSettings(**given))
    with pytest.raises(BadInput, match="name one of verify, add"):
        leaderboard.act(["check"], LeaderboardSettings(**given))
    assert numbers_of(leaderboard.new_case(Path(given["packs"]), "one", "prompt_lookup", {}))["mat_cold"]
