"""The committed table is found again, and a difference is one line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from packed import TURNS, small_pack

import aded
from aded.errors import BadInput
from aded.files.pack import PackedTurn
from datastore.suffix_array import write_suffixes
from scripts.results import measure as measuring
from scripts.results import replay
from scripts.results.measure import Case, measure, names_of_packs, new_case

ROOT = Path(__file__).parents[3]
COMMITTED = (ROOT / replay.COMMITTED / "table.csv").read_text()


@pytest.fixture
def packs(tmp_path: Path) -> Path:
    for name in ("one", "two"):
        small_pack(tmp_path / name, benchmark=name)
    return tmp_path


@pytest.mark.parametrize("method", replay.METHODS, ids=lambda method: method[0])
def test_the_committed_table_is_found_again(method: tuple[str, dict[str, object]]) -> None:
    """On one pack here, on all by `make replay`."""
    case = new_case(ROOT / replay.PACKS, "smollm2-long_answers", *method)
    assert replay.as_csv([replay.row_of(case)]).splitlines()[1] in COMMITTED.splitlines()


def test_the_committed_files_belong_together() -> None:
    folder = ROOT / replay.PACKS
    names = [line.split(",")[:2] for line in COMMITTED.splitlines()[1:]]
    assert names == [[pack, method] for pack in names_of_packs(folder) for method, _ in replay.METHODS]
    assert sum(file.stat().st_size for file in folder.rglob("*")) < 2_000_000


def test_cold_forgets_and_session_keeps(packs: Path) -> None:
    answer = (3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 2)
    small_pack(packs / "one", [PackedTurn(name, 0, "", (1, 14), answer, "eos") for name in "abc"])
    cold, session = measure(Case(packs, "one", "aded_backoff", {"cost": "none"}))
    assert cold.new_tokens == session.new_tokens == 3 * (len(answer) - 1)
    assert cold.steps == cold.new_tokens  # nothing occurs twice within an answer
    assert session.steps < cold.steps
    (forgetful,) = aded.replay(packs / "one", methods=[aded.drafter("prompt_lookup")])
    cold, session = measure(new_case(packs, "one", "prompt_lookup", {}))
    assert forgetful.steps == cold.steps == session.steps


def test_a_setting_changes_the_hash_and_a_class_that_moves_does_not(
    packs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, whole = new_case(packs, "one", "aded", {}), measuring.method_config("aded", {})
    before = case.config
    assert new_case(packs, "one", "aded", {"budget": 7}).config != before
    moved = {**whole, "_target_": "elsewhere.X", "draft_maker": {**whole["draft_maker"], "_target_": "elsewhere.Y"}}
    monkeypatch.setattr(measuring, "method_config", lambda *_: moved)
    assert case.config == before


def test_the_corpus_is_the_answers_of_the_other_packs(packs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = new_case(packs, "one", "rest", {})
    assert case.corpus == ("two",)
    assert new_case(packs, "one", "prompt_lookup", {}).corpus == ()
    seen: list[np.ndarray] = []

    def write(path: Path, ids: np.ndarray, header: dict[str, str]) -> None:
        seen.append(ids)
        write_suffixes(path, ids, header)

    monkeypatch.setattr(measuring, "write_suffixes", write)
    cold, _ = measure(case)
    assert seen[0].tolist() == [token for turn in TURNS for token in (*turn.token_ids, 16)]
    assert (cold.mean_accepted_tokens or 0) > 1.5  # the very answers are in the corpus


def test_the_hash_is_of_settings_pack_and_corpus(packs: Path) -> None:
    case = new_case(packs, "one", "aded", {})
    same = Case(packs, "two", "aded", {}, ("one",))
    assert case.config == same.config  # the two packs hold the same answers
    small_pack(packs / "two", [PackedTurn("a", 0, "", (1,), (5, 2), "eos")])
    changed = new_case(packs, "one", "aded", {"gain": 0.05})
    assert len({same.config, case.config, changed.config}) == 3


def test_a_method_with_parts_reads_what_they_read(packs: Path) -> None:
    assert new_case(packs, "one", "layered", {}).corpus == ()
    assert new_case(packs, "one", "layered", {"parts": ["prompt_lookup", "aded"]}).corpus == ("two",)


def test_what_is_no_setting_is_refused(packs: Path) -> None:
    with pytest.raises(BadInput, match=r"^settings\.datastore: is no setting of a method; leave it out$"):
        new_case(packs, "one", "aded", {"datastore": "x"})


def test_packs_of_other_tokenizers_are_no_corpus(packs: Path) -> None:
    small_pack(packs / "three", tokenizer="0" * 64)
    with pytest.raises(BadInput, match="have different tokenizers"):
        measure(new_case(packs, "one", "aded", {}))
    with pytest.raises(BadInput, match="holds no pack"):
        names_of_packs(packs / "one")


def test_a_difference_is_named() -> None:
    assert replay.first_difference(COMMITTED, COMMITTED) is None
    head, first, *rest = COMMITTED.splitlines(keepends=True)
    changed = first.rstrip("\n") + "1"
    line = replay.first_difference(COMMITTED, "".join([head, f"{changed}\n", *rest]))
    assert line == f"line 2 was {first.rstrip()} and is {changed}"
    assert replay.first_difference(COMMITTED, "".join([head, first])) is not None
    assert replay.first_difference("", COMMITTED) is not None


def test_it_writes_and_compares(
    packs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(replay, "METHODS", replay.METHODS[:2])
    monkeypatch.setattr(replay, "COMMITTED", tmp_path / "out")
    monkeypatch.setattr(
        replay, "rows_of", lambda folder, jobs: [replay.row_of(case) for case in replay.cases_of(folder)]
    )
    given = replay.ReplaySettings(packs=str(packs), jobs=1)
    replay.run([], replay.ReplaySettings(packs=str(packs), jobs=1, out=str(tmp_path / "out")))
    replay.run([], given)
    assert "4 rows, each digit as in" in capsys.readouterr().out
    small_pack(packs / "two", TURNS[:1])
    with pytest.raises(SystemExit) as stop:
        replay.run([], given)
    assert stop.value.code == 1
    error = capsys.readouterr().err
    assert "table.csv: line 4 was two,autoregressive,{},,3," in error
    assert error.count("\n") == 1
