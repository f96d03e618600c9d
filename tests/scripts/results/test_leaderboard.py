"""Every row of the leaderboard can be rebuilt, and one that cannot is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from packed import TURNS, small_pack

from aded.errors import BadInput
from scripts.results import leaderboard
from scripts.results.leaderboard import LeaderboardSettings, Submission, add, read_rows, verify
from scripts.results.measure import as_csv, names_of_packs

ROOT = Path(__file__).parents[3]
OURS = ROOT / "results" / "leaderboard.csv"


@pytest.fixture
def given(tmp_path: Path) -> dict[str, Any]:
    for name in ("one", "two"):
        small_pack(tmp_path / "packs" / name)
    return {"file": str(tmp_path / "board.csv"), "packs": str(tmp_path / "packs")}


def test_ours_is_whole() -> None:
    rows = read_rows(OURS)
    assert as_csv([asdict(row) for row in rows]) == OURS.read_text()
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


def test_a_pack_whose_name_joins_names_is_refused(given: dict[str, Any]) -> None:
    small_pack(Path(given["packs"]) / "b+c")
    with pytest.raises(BadInput, match=r"^packs: .*b\+c has a \+ in its name"):
        add(LeaderboardSettings(**given, method="prompt_lookup", submitter="me"))


def test_a_row_is_kept_when_the_next_pack_cannot_be_measured(given: dict[str, Any]) -> None:
    (Path(given["packs"]) / "two" / "answers.jsonl.xz").write_bytes(b"no answer")
    with pytest.raises(BadInput):
        add(LeaderboardSettings(**given, method="prompt_lookup", submitter="me"))
    assert [row.pack for row in read_rows(Path(given["file"]))] == ["one"]


@pytest.fixture
def change(given: dict[str, Any]) -> Callable[..., Submission]:
    """Adds a row to the leaderboard and changes some of its columns; returns it as it was."""

    def change(**columns: str) -> Submission:
        add(LeaderboardSettings(**given, method="prompt_lookup", pack="one", submitter="me"))
        path = Path(given["file"])
        (row,) = read_rows(path)
        path.write_text(as_csv([asdict(row) | columns]))
        return row

    return change


@pytest.mark.parametrize("key", leaderboard.REBUILT)
def test_a_row_that_differs_fails(
    given: dict[str, Any], capsys: pytest.CaptureFixture[str], key: str, change: Callable[..., Submission]
) -> None:
    row = change(**{key: "12x"})
    with pytest.raises(SystemExit) as stop:
        verify(LeaderboardSettings(**given))
    assert stop.value.code == 1
    assert f"line 2: prompt_lookup on one: {key} is {getattr(row, key)}, not 12x" in capsys.readouterr().err


def test_drafting_time_is_not_compared_and_the_pack_is(
    given: dict[str, Any], capsys: pytest.CaptureFixture[str], change: Callable[..., Submission]
) -> None:
    change(draft_ms="99.0")
    verify(LeaderboardSettings(**given))
    small_pack(Path(given["packs"]) / "one", TURNS[:1])
    capsys.readouterr()
    with pytest.raises(SystemExit) as stop:
        verify(LeaderboardSettings(**given))
    assert stop.value.code == 1
    assert "line 2: prompt_lookup on one: config is " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({"method": "no_such"}, "'no_such' is no method"),
        ({"corpus": "four"}, "has no pack four"),
        ({"settings": "[]"}, "line 2: settings"),
        ({"settings": '{"budgets": 3}'}, "method.budgets: no such key"),
    ],
)
def test_rows_that_nobody_can_rebuild_are_refused(
    given: dict[str, Any], changed: dict[str, str], line: str, change: Callable[..., Submission]
) -> None:
    change(**changed)
    with pytest.raises(BadInput, match=line):
        verify(LeaderboardSettings(**given))


def test_what_a_leaderboard_or_a_command_lacks_is_named(given: dict[str, Any], tmp_path: Path) -> None:
    settings = LeaderboardSettings(**given)
    for key, lacking in (
        ("submitter", replace(settings, method="rest")),
        ("method", replace(settings, submitter="me")),
    ):
        with pytest.raises(BadInput, match=f"{key}: must be given"):
            add(lacking)
    heads = ",".join(leaderboard.COLUMNS)
    for text, problem in (
        (f"{heads}\nrest,{{}}\n", "line 2 has not 13 columns"),
        ("method,pack\n", "no leaderboard"),
    ):
        (tmp_path / "board.csv").write_text(text)
        with pytest.raises(BadInput, match=f"file: .*board.csv.* {problem}"):
            verify(settings)
    with pytest.raises(BadInput, match="verify, add"):
        leaderboard.run(["check"], settings)
