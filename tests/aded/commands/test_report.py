import csv
import json
import re
import zlib
from base64 import b64decode
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from made_up_run import row, times, write_run
from made_up_sweep import write_trees

from aded.commands.report import ReportSettings, run, write_report
from aded.core.drafter import PartUse
from aded.errors import BadInput
from aded.records.finished_runs import read_begun
from aded.report.lines import lines_of
from aded.report.page.page import definitions

HOSTILE = "</script><img src=x onerror=alert(1)>\u202e&\0"


def measured(folder: Path, method: str, seconds: float, **known: Any) -> Path:
    rows = [row(number, 0, [3, 2], drafted_nodes=[3, 2], **times(seconds, 2.0, 5)) for number in range(1, 4)]
    return write_run(folder / method, rows, method=method, answers=None, **known)


def with_trees(folder: Path, texts: dict[str, str] | None = None) -> None:
    write_trees(folder, read_begun(folder).rows[0], texts)


def page_of(folder: Path) -> str:
    write_report([folder], folder / "report.html")
    return (folder / "report.html").read_text(encoding="utf-8")


def data_of(page: str) -> Any:
    (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    return json.loads(found)


def csv_of(page: str, name: str) -> list[dict[str, str]]:
    (found,) = re.findall(rf'download="{name}\.csv" href="data:text/csv;charset=utf-8,([^"]*)"', page)
    return list(csv.DictReader(unquote(found).splitlines()))


def test_the_first_page_says_what_the_runs_show(tmp_path: Path) -> None:
    measured(tmp_path / "plain", "autoregressive", 2.0)
    page = page_of(tmp_path / "plain")
    assert "Autoregressive decoding alone ran." in page
    measured(tmp_path / "runs", "slow", 4.0)
    tmp_path /= "runs"
    page = page_of(tmp_path)
    assert "No method was faster" in page
    measured(tmp_path, "fast", 1.0)
    page = page_of(tmp_path)
    assert "<b>fast</b> decodes <b>2.00 times</b>" in page
    assert "All 6 outputs of all methods are identical" in page
    assert page.index(">fast</th>") < page.index(">slow</th>"), "best first"
    assert {one["method"]: float(one["speedup"]) for one in csv_of(page, "ranking")} == {"fast": 2.0, "slow": 0.5}
    assert not re.search(r'(?:src|href)="(?!#|data:)', page), "nothing is fetched"
    places = re.findall(r'<th scope="col"><a href="#([\w-]+)"', page)
    assert len(places) > 20
    assert all(f'<dt id="{place}">' in page for place in places), "every head has its definition"
    assert all(definitions().values())
    assert page == page_of(tmp_path), "the same runs make the same page"


def test_each_run_table_and_plot_has_the_command_that_makes_it_again(tmp_path: Path) -> None:
    overrides = ["method=prompt_lookup", "method.budget=7", "output_dir=there"]
    for name, model, more in (("ours", "m", {"overrides": overrides}), ("older", "n", {})):
        settings = {"method.budget": len(more), "benchmark.default._partial_": not more}
        measured(tmp_path, name, 1.0, model=model, settings=settings, engine="eager", **more)
    page = page_of(tmp_path)
    assert {one["model"] for one in csv_of(page, "machine")} == {"m", "n"}
    assert [one["setting"] for one in csv_of(page, "settings")] == ["method.budget"], "what a reader can set"
    assert page.count('<pre tabindex="0">aded run ') == 1
    assert "aded run method=prompt_lookup method.budget=7</pre>" in page
    tables = re.findall(r'<a class="csv".*?<code>(aded \w+) (\S+)</code>', page)
    assert len(tables) == page.count('<a class="csv"')
    assert {name for name, _ in tables} == {"aded tables", "aded report"}
    plots = re.findall(r"<figcaption>.*?<code>aded plots (\S+)</code>", page)
    assert len(plots) == page.count("<figure>") > 3
    assert {*plots, *(folder for _, folder in tables)} == {str(tmp_path)}


def test_runs_of_every_kind_are_shown_and_what_they_lack_is_said(tmp_path: Path) -> None:
    with_trees(measured(tmp_path, "whole", 1.0))
    cut = measured(tmp_path, "cut", 1.0)
    (cut / "summary.json").unlink()
    with (cut / "rows.jsonl").open("a") as file:
        file.write('{"question_id": "half a li')
    gpu = {"processor": "p", "cores": 2, "torch_threads": 1, "gpu": "NVIDIA H200", "system": "Linux"}
    measured(tmp_path, "on_gpu", 1.0, machine=gpu)
    use = {"part": PartUse(drafted=9, accepted=3, accepted_alone=1, seconds=0.1)}
    write_run(tmp_path / "hybrid", [row(1, 0, [3, 2], parts=use), row(2, 0, [1], parts=use)], method="hybrid")
    damaged = measured(tmp_path, "damaged", 1.0)
    (damaged / "rows.jsonl").write_text("{}\n")
    page = page_of(tmp_path)
    missing = ("cut off after 3 questions", "answers were replayed", "no draft trees", "no calibration")
    for words in (*missing, "NVIDIA H200, 1 thread", "Left out", f"{damaged}/rows.jsonl: line 1: "):
        assert words in page, words
    (part,) = csv_of(page, "parts")
    assert (part["part"], part["nodes drafted"]) == ("part", "6.0")
    assert [one["run"] for one in data_of(page)["answers"]] == ["whole"]


def test_trees_of_repeats_are_told_apart_and_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder, seconds in (("first", 1.0), ("second", 2.0)):
        with_trees(measured(tmp_path / folder, "same", seconds))
    answers = data_of(page_of(tmp_path))["answers"]
    assert [one["run"] for one in answers] == ["same", "same, run 2"]
    monkeypatch.setattr("aded.report.page.page.MOST_BYTES", len(answers[0]["packed"]) + 10)
    page = page_of(tmp_path)
    assert len(data_of(page)["answers"]) == 1
    assert "The trees of 1 more answers would make this file too large" in page


def test_a_cut_off_run_does_not_change_the_numbers_of_whole_ones(tmp_path: Path) -> None:
    for seed in range(3):
        rows = [row(n, 0, [3, 2], **times(0.5 + 0.1 * n + 0.1 * seed, 2.0, 5)) for n in range(1, 4 - seed // 2)]
        write_run(tmp_path / str(seed), rows, answers=None, seed=seed)
    *whole, last = [read_begun(tmp_path / str(seed)) for seed in range(3)]
    (tmp_path / "2" / "summary.json").unlink()
    cut = read_begun(last.folder)
    assert (cut.cut_off, cut.summary) == (True, last.summary), "it counts with the rows it has"
    first, second = lines_of([*whole, cut])
    assert (first.name, second.name) == ("aded", "aded, cut off")
    assert first.estimates == lines_of(whole)[0].estimates
    (tmp_path / "1" / "summary.json").unlink()
    cut_off = [read_begun(tmp_path / str(seed)) for seed in (1, 2)]
    assert {line.name for line in lines_of([whole[0], *cut_off])} == {"aded", "aded, cut off", "aded, cut off 2"}


def test_hostile_names_settings_and_tokens_are_literal(tmp_path: Path) -> None:
    named = {"method.name": HOSTILE, "method.note": HOSTILE}
    folder = measured(tmp_path / "<b>\u202e", "fast", 1.0, benchmark=HOSTILE, settings=named)
    with_trees(folder, {"1": HOSTILE, "2": "\\ud800"})
    measured(tmp_path, "slow", 4.0)
    page = page_of(tmp_path)
    assert not [raw for raw in ("<img", "\0", "\u202e") if raw in page]
    assert page.count("</script>") == 2, "one each of data and page.js"
    assert r"&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;\u202e&amp;\x00" in page
    packed = data_of(page)["answers"][0]["packed"]
    texts = json.loads(zlib.decompress(b64decode(packed)))["texts"]
    assert texts == {"1": r"</script><img src=x onerror=alert(1)>\u202e&\x00", "2": "\\ud800"}


def test_more_methods_than_colours_leave_the_best_to_draw(tmp_path: Path) -> None:
    for number in range(10):
        rows = [row(1, 0, [number + 1] * 20), row(2, 0, [number + 1] * 20)]
        write_run(tmp_path / str(number), rows, method=f"method{number}")
    page = page_of(tmp_path)
    (drawn,) = re.findall(r"<svg[^>]*Steps by the tokens that they added.*?</svg>", page, re.DOTALL)
    assert "Of the 8 methods" in drawn
    assert sorted(set(re.findall(r"method\d", drawn))) == [f"method{number}" for number in range(2, 10)]


def test_bad_input_is_named_and_a_runs_own_file_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    rows = write_run(tmp_path / "run", [row(81, 0, [2])]) / "rows.jsonl"
    before = rows.read_bytes()
    for arguments, out, words in (
        ([], None, "FOLDER: name folders that hold runs"),
        ([str(tmp_path / "empty")], None, "no run with a row below it"),
        ([str(tmp_path)], str(rows), "out: .*rows.jsonl belongs to FOLDER"),
    ):
        with pytest.raises(BadInput, match=words):
            run(arguments, ReportSettings(out=out))
    assert rows.read_bytes() == before
