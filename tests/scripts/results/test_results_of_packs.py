from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from packed import TURNS, small_pack

from aded.errors import BadInput
from aded.files.pack import PackedTurn
from datastore.builder import write_suffixes
from scripts.results import leaderboard, replay
from scripts.results import measure as measuring
from scripts.results.leaderboard import LeaderboardSettings, add, read_rows, verify
from scripts.results.measure import Case, as_csv, measure, names_of_packs, new_case

ROOT = Path(__file__).parents[3]
PACKS, OURS = ROOT / replay.PACKS, ROOT / "results" / "leaderboard.csv"
COMMITTED = (ROOT / replay.COMMITTED / "table.csv").read_text()


@pytest.fixture
def packs(tmp_path: Path) -> Path:
    for name in ("one", "two"):
        small_pack(tmp_path / "packs" / name, benchmark=name)
    return tmp_path / "packs"


@pytest.mark.parametrize("method", replay.METHODS, ids=lambda method: method[0])
def test_the_committed_table_is_found_again(method: tuple[str, dict[str, object]]) -> None:
    case = new_case(PACKS, "smollm2-long_answers", *method)
    assert replay.as_csv([replay.row_of(case)]).splitlines()[1] in COMMITTED.splitlines()


def test_the_committed_files_belong_together() -> None:
    names = [line.split(",")[:2] for line in COMMITTED.splitlines()[1:]]
    assert names == [[pack, method] for pack in names_of_packs(PACKS) for method, _ in replay.METHODS]
    assert sum(file.stat().st_size for file in PACKS.rglob("*")) < 2_000_000
    rows = read_rows(OURS)
    assert as_csv([asdict(row) for row in rows]) == OURS.read_text()
    assert {row.pack for row in rows} == set(names_of_packs(PACKS))


def test_cold_forgets_and_session_keeps(packs: Path) -> None:
    answer = (3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 2)
    small_pack(packs / "one", [PackedTurn(name, 0, "", (1, 14), answer, "eos") for name in "abc"])
    cold, session = measure(Case(packs, "one", "aded_backoff", {"cost": "none"}))
    assert cold.new_tokens == session.new_tokens == 3 * (len(answer) - 1)
    assert cold.steps == cold.new_tokens  # nothing occurs twice within an answer
    assert session.steps < cold.steps


def test_the_hash_is_of_settings_pack_and_corpus(packs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case, whole = new_case(packs, "one", "aded", {}), measuring.method_config("aded", {})
    before = case.config
    same = Case(packs, "two", "aded", {}, ("one",))
    assert before == same.config  # the two packs hold the same answers
    assert new_case(packs, "one", "aded", {"budget": 7}).config != before
    small_pack(packs / "two", [PackedTurn("a", 0, "", (1,), (5, 2), "eos")])
    assert len({same.config, case.config, before, new_case(packs, "one", "aded", {"gain": 0.05}).config}) == 4
    moved = {**whole, "_target_": "elsewhere.X", "draft_maker": {**whole["draft_maker"], "_target_": "elsewhere.Y"}}
    before = case.config
    monkeypatch.setattr(measuring, "method_config", lambda *_: moved)
    assert case.config == before


def test_the_corpus_is_the_answers_of_the_other_packs(packs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = new_case(packs, "one", "rest", {})
    assert case.corpus == ("two",)
    both = {"parts": ["prompt_lookup", "aded"]}
    for method, settings, corpus in (("prompt_lookup", {}, ()), ("layered", {}, ()), ("layered", both, ("two",))):
        assert new_case(packs, "one", method, settings).corpus == corpus
    seen: list[np.ndarray] = []

    def write(path: Path, ids: np.ndarray, header: dict[str, str]) -> None:
        seen.append(ids)
        write_suffixes(path, ids, header)

    monkeypatch.setattr(measuring, "write_suffixes", write)
    cold, _ = measure(case)
    assert seen[0].tolist() == [token for turn in TURNS for token in (*turn.token_ids, 16)]
    assert (cold.mean_accepted_tokens or 0) > 1.5  # the very answers are in the corpus


def test_what_cannot_be_measured_is_refused(packs: Path) -> None:
    with pytest.raises(BadInput, match=r"^settings\.datastore: is no setting of a method"):
        new_case(packs, "one", "aded", {"datastore": "x"})
    small_pack(packs / "three", tokenizer="0" * 64)
    with pytest.raises(BadInput, match="have different tokenizers"):
        measure(new_case(packs, "one", "aded", {}))
    with pytest.raises(BadInput, match="holds no pack"):
        names_of_packs(packs / "one")
    small_pack(packs / "b+c")
    with pytest.raises(BadInput, match=r"^packs: .*b\+c has a \+ in its name"):
        names_of_packs(packs)


def test_the_command_writes_and_compares(
    packs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(replay, "METHODS", replay.METHODS[:2])
    monkeypatch.setattr(replay, "COMMITTED", tmp_path / "out")
    monkeypatch.setattr(replay, "rows_of", lambda folder, jobs: list(map(replay.row_of, replay.cases_of(folder))))
    given = replay.ReplaySettings(packs=str(packs), jobs=1)
    replay.run([], replace(given, out=str(tmp_path / "out")))
    replay.run([], given)
    assert "4 rows, each digit as in" in capsys.readouterr().out
    small_pack(packs / "two", TURNS[:1])
    with pytest.raises(SystemExit) as stop:
        replay.run([], given)
    assert stop.value.code == 1
    error = capsys.readouterr().err
    assert "table.csv: line 4 was two,autoregressive,{},,3," in error
    assert error.count("\n") == 1
    for before, now in ((COMMITTED, COMMITTED[:-9]), ("", COMMITTED)):
        assert replay.first_difference(before, now) is not None


@pytest.fixture
def given(packs: Path, tmp_path: Path) -> LeaderboardSettings:
    return LeaderboardSettings(str(tmp_path / "board.csv"), str(packs), "prompt_lookup", submitter="me")


def test_rows_are_added_replaced_and_verified(given: LeaderboardSettings, capsys: pytest.CaptureFixture[str]) -> None:
    for settings in ({}, {"budget": 4}, {}):
        add(replace(given, settings=settings))
    rows = read_rows(Path(given.file))
    assert sorted((row.pack, row.settings) for row in rows) == [
        (pack, settings) for pack in ("one", "two") for settings in ('{"budget": 4}', "{}")
    ]
    assert all(len(row.config) == 16 and row.submitter == "me" and row.mat_cold == row.mat_session for row in rows)
    capsys.readouterr()
    verify(replace(given, method=None))
    assert capsys.readouterr().out.count("found again") == 4
    ours = LeaderboardSettings(str(OURS), str(PACKS), "prompt_lookup", pack="smollm2-long_answers")
    verify(ours)  # one of ours here, all by `python -m scripts.results.leaderboard verify`
    assert capsys.readouterr().out.count("found again") == 1


def test_a_row_is_kept_when_the_next_pack_cannot_be_measured(given: LeaderboardSettings) -> None:
    (Path(given.packs) / "two" / "answers.jsonl.xz").write_bytes(b"no answer")
    with pytest.raises(BadInput):
        add(given)
    assert [row.pack for row in read_rows(Path(given.file))] == ["one"]


def test_a_row_that_differs_fails(given: LeaderboardSettings, capsys: pytest.CaptureFixture[str]) -> None:
    add(replace(given, pack="one"))
    (row,) = read_rows(Path(given.file))

    def changed(**columns: str) -> None:
        Path(given.file).write_text(as_csv([asdict(row) | columns]))
        verify(replace(given, method=None))

    changed(draft_ms="99.0")
    for key in leaderboard.REBUILT:
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            changed(**{key: "12x"})
        assert stop.value.code == 1
        assert f"line 2: prompt_lookup on one: {key} is {getattr(row, key)}, not 12x" in capsys.readouterr().err
    for key, value, problem in (
        ("method", "no_such", "'no_such': no such method"),
        ("corpus", "four", "has no pack four"),
        ("settings", "[]", "line 2: settings"),
        ("settings", '{"budgets": 3}', "method.budgets: no such key"),
    ):
        with pytest.raises(BadInput, match=problem):
            changed(**{key: value})
    small_pack(Path(given.packs) / "one", TURNS[:1])
    with pytest.raises(SystemExit):
        changed()
    assert "config is " in capsys.readouterr().err


def test_what_a_leaderboard_or_a_command_lacks_is_named(given: LeaderboardSettings) -> None:
    for lacking, key in ((replace(given, submitter=None), "submitter"), (replace(given, method=None), "method")):
        with pytest.raises(BadInput, match=f"{key}: must be given"):
            add(lacking)
    heads = ",".join(leaderboard.COLUMNS)
    for text, problem in (
        (f"{heads}\nrest,{{}}\n", "file: .*board.csv.* line 2 has not 13 columns"),
        ("method,pack\n", "file: .*board.csv.* no leaderboard"),
        (f"{heads}\n", "method: .*has no such row"),
    ):
        Path(given.file).write_text(text)
        with pytest.raises(BadInput, match=problem):
            verify(given)
    with pytest.raises(BadInput, match="verify, add"):
        leaderboard.run(["check"], given)
