from pathlib import Path
from typing import Any

import pytest
from made_up_run import row, write_run

from aded.records.finished_runs import read_runs
from aded.records.rows import Row
from aded.report.page.page import accepted_tables
from aded.report.published import Footnotes, Published
from aded.report.tables.accepted import as_markdown, headline, in_both_scopes, long_table
from llm_judge.spec_bench import RunFile

MODEL = "answers/vicuna-7b-v1.3.jsonl"
FIGURES = [
    Published(method, f"vicuna-{size}-v1.3", benchmark, "mean_accepted_tokens", value, None, (), hardware, "S")
    for method, size, benchmark, value, hardware in (
        ("eagle", "7b", "spec_bench", 3.57, "RTX 3090"),
        ("eagle", "13b", "spec_bench", 3.64, "A100"),
        ("rest", "7b", "spec_bench", 1.63, "RTX 3090"),
        ("rest", "7b", "spec_bench", 1.82, "A100"),
        ("rest", "7b", "mt_bench", 9.0, "A100"),
    )
]
FILE = RunFile("vicuna-7b-v1.3-eagle", {"81": [4.0, 3.0, 3.0], "161": [2.0]})


def answered(*lengths: list[int]) -> list[Row]:
    return [
        row(number, 0, accepted, category=category, compression=3.0)
        for number, category, accepted in zip((81, 161), ("mt_bench", "translation"), lengths, strict=True)
    ]


def write_scope(folder: Path, scope: str, *lengths: list[int]) -> None:
    settings = {"method.adaptation": scope, "method.budget": 64}
    known: dict[str, Any] = {"benchmark": "spec_bench", "answers": MODEL, "settings": settings, "adaptation": scope}
    write_run(folder / scope, answered(*lengths), **known)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_scope(tmp_path, "prompt", [2, 2, 2, 2], [4])
    write_scope(tmp_path, "session", [2, 2, 2, 3], [5])
    rows = [*answered([1, 2], [1]), row(162, 0, [9], category="translation", compression=50.0)]
    write_run(tmp_path / "rest", rows, benchmark="spec_bench", answers=MODEL, method="rest", adaptation="off")
    return tmp_path


def table(folder: Path) -> dict[str, dict[str, str]]:
    frame = headline(in_both_scopes(read_runs([folder])), [FILE], FIGURES, Footnotes())
    return {str(one["method"]): {str(key): str(one[key]) for key in one} for one in frame.to_dict("records")}


def test_cold_stands_first_and_beside_session_on_one_line_and_others_have_a_column(folder: Path) -> None:
    found = table(folder)
    assert list(found) == ["rest", "aded", "eagle, published", "vicuna-7b-v1.3-eagle, measured elsewhere"]
    assert list(found["aded"])[1:5] == ["cold, micro", "session, micro", "cold, macro", "session, macro"]
    assert [found["aded"][key] for key in list(found["aded"])[1:5]] == ["2.40", "2.80", "3.00", "3.62"]
    rest = found["rest"]
    assert rest["cold, micro"] == rest["session, micro"] == "3.25", "it keeps nothing"
    assert (rest["cold, without repetitive"], rest["repetitive answers"]) == ("1.33", "33.3%")
    assert rest["elsewhere"] == "1.63 p1; 1.82 p2"
    assert found["eagle, published"]["elsewhere"] == "3.57 p1", "of this model alone"
    assert found["eagle, published"]["cold, micro"] == "–"
    assert found["vicuna-7b-v1.3-eagle, measured elsewhere"]["elsewhere"] == f"3.0 (macro {(10 / 3 + 2) / 2!r})"
    write_scope(folder, "off", [1, 1, 2, 1], [1])
    off = table(folder)["aded (adaptation=off)"]
    assert off["cold, micro"] == off["session, micro"] == "1.20"
    assert table(folder)["aded"]["session, micro"] == "2.80"


def test_the_page_has_both_scopes_by_category_and_position(folder: Path) -> None:
    text = " ".join(as_markdown(read_runs([folder]), [FILE], FIGURES).split())
    titles = (f"### {scope}, by {kind}" for scope in ("cold", "session") for kind in ("category", "position"))
    places = list(map(text.index, titles))
    assert places == sorted(places)
    assert "3.3333333333333335 | 2.0" in text[places[0] : places[1]]
    assert "1.000 (1.000) | 0.200 (0.200) | 0.200 (1.000)" in text[places[1] : places[2]]
    other = RunFile("llama-eagle", {"81": [4.0, 3.0], "161": [2.0]})
    text = as_markdown(read_runs([folder]), [other], FIGURES)
    assert "llama-eagle, measured elsewhere" in text, "of a model that no run has"


def test_methods_that_keep_nothing_have_one_table_for_both_scopes(tmp_path: Path) -> None:
    write_run(tmp_path / "a", answered([2, 3], [1]), method="rest")
    write_run(tmp_path / "b", answered([2, 2], [1]), method="prompt_lookup")
    right = ["cold and session, by category", "cold and session, by position"]
    assert [one.title.rpartition(": ")[2] for one in accepted_tables(read_runs([tmp_path]))] == right
    write_run(tmp_path / "c", answered([2, 2], [1]), settings={"method.adaptation": "prompt"})
    assert len(accepted_tables(read_runs([tmp_path]))) == 4


def test_for_programs_every_number_is_unrounded(folder: Path) -> None:
    keys = ["method", "scope", "number", "source"]
    found = long_table(read_runs([folder]), [FILE], FIGURES).set_index(keys)["value"]
    assert found["aded", "session", "macro", "here"] == (9 / 4 + 5) / 2
    assert found["aded", "cold", "category translation", "here"] == 4.0
    assert found["vicuna-7b-v1.3-eagle", "elsewhere", "micro", "measured elsewhere"] == 3.0
    assert found["eagle", "elsewhere", "micro", "S; RTX 3090"] == 3.57
