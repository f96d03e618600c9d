"""The table that `make run` prints: one line a run, missing shown as missing."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from made_up_run import row, write_run

from aded.bench.metrics import SUMMARY_KEYS
from scripts.tables import COLUMNS, main, table


def summary(**known: Any) -> dict[str, Any]:
    return {**dict.fromkeys(SUMMARY_KEYS), "turns": 4, **known}


def paired(method: str, speedup: float, baseline: float) -> dict[str, Any]:
    return summary(
        method=method,
        speedup=speedup,
        speedup_low=speedup - 0.1,
        speedup_high=speedup + 0.1,
        tokens_per_second=speedup * baseline,
        autoregressive_tokens_per_second=baseline,
        mean_accepted_tokens=2.0,
        identical_outputs=4,
        draft_share=0.01,
    )


def test_methods_stand_below_the_baseline_they_were_paired_with() -> None:
    frame = table([paired("fast", 1.5, 20.0), paired("slow", 0.5, 30.0)])
    assert frame[COLUMNS["method"]].tolist() == ["autoregressive (paired)", "slow", "fast"]
    assert frame[COLUMNS["tokens_per_second"]].tolist() == ["25.0", "15.0", "30.0"]
    assert frame[COLUMNS["speedup"]].tolist() == ["1.00", "0.50 [0.40, 0.60]", "1.50 [1.40, 1.60]"]
    assert frame[COLUMNS["identical"]].tolist() == ["–", "4 of 4", "4 of 4"]


def test_what_was_not_measured_is_shown_as_missing() -> None:
    frame = table([summary(method="recorded", mean_accepted_tokens=2.5)])
    assert frame.iloc[0].tolist() == ["recorded", "–", "– [–, –]", "2.50", "–", "–"]


def cut_a_row(path: Path) -> None:
    """As a kill would leave it, were rows not flushed whole."""
    first, second = path.read_text().splitlines()
    path.write_text(f"{first}\n{second[: len(second) // 2]}")


DAMAGE: dict[str, tuple[str, Callable[[Path], object]]] = {
    **{
        f"{name} deleted": (name, Path.unlink)
        for name in ("config.yaml", "environment.json", "rows.jsonl", "summary.json")
    },
    "row cut": ("rows.jsonl", cut_a_row),
    "foreign row": ("rows.jsonl", lambda path: path.write_text('{"id": 1}\n' * 2)),
}


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], dict[str, bytes]]:
    def made(folder: Path) -> dict[str, bytes]:
        """What the command writes, by file name."""
        monkeypatch.setattr("sys.argv", ["tables", str(folder)])
        main()
        return {path.name: path.read_bytes() for path in folder.glob("*.*")}

    return made


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_run_is_named_and_the_tables_are_those_of_the_others(
    tmp_path: Path,
    damage: str,
    tables: Callable[[Path], dict[str, bytes]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_run(tmp_path / "good", [row(81, 0, [1, 2, 3]), row(82, 0, [2, 2])], method="good")
    right = tables(tmp_path)
    assert right.keys() == {"table.md", "table.csv", "paper.md", "paper.tex", "paper.csv"}
    write_run(tmp_path / "hurt", [row(81, 0, [4, 4]), row(82, 0, [4])], method="hurt")
    assert b"hurt" in tables(tmp_path)["paper.csv"]
    name, hurt = DAMAGE[damage]
    hurt(tmp_path / "hurt" / name)
    capsys.readouterr()
    assert tables(tmp_path) == right
    (told,) = capsys.readouterr().err.splitlines()
    assert str(tmp_path / "hurt") in told
    assert name in told


def test_a_foreign_file_is_named_and_changes_no_table(
    tmp_path: Path, tables: Callable[[Path], dict[str, bytes]], capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(tmp_path / "good", [row(81, 0, [1, 2, 3])], method="good")
    right = tables(tmp_path)
    (tmp_path / "good" / "notes.jsonl").write_text("{}\n")
    capsys.readouterr()
    assert tables(tmp_path) == right
    assert capsys.readouterr().err == f"{tmp_path / 'good' / 'notes.jsonl'}: no file of a run; ignored\n"
