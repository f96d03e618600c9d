"""Reading records back: rows, trees, runs. What happens to one run is named, and the others are read."""

import json
import re
from collections.abc import Callable
from dataclasses import MISSING, fields
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import pytest
from made_up_run import row, times, write_run

from aded.core.target import Step
from aded.core.tree import DraftTree
from aded.identity import sha256
from aded.records.finished_runs import read_run, read_runs
from aded.records.rows import Row, parse, to_json
from aded.records.summary import Summary
from aded.records.trees import MOST_NODES, AnswerTrees, RecordedTree, TreeRecorder, read_trees, token_text
from baselines.autoregressive import Autoregressive

ROW = row(0, 0, [2, 1, 3], **times(1.0, 2.0, 6))


@pytest.mark.parametrize(
    "change",
    [
        {"draft_ms": [1.0, 2.0]},
        {"verify_ms": None},
        {"autoregressive_draft_ms": None},
        {"slices": None},
        {"slices": {"steps": [3], "autoregressive_steps": [7], "others": [0.0], "steal": [0.0]}},
        {"slices": {"steps": [3], "autoregressive_steps": [6], "others": [0.0, 0.0], "steal": [0.0]}},
    ],
)
def test_timings_of_other_steps_are_refused(change: dict[str, Any]) -> None:
    for one in (ROW, row(0, 0, [2, 1, 3])):
        assert parse(Row, to_json(one), "row") == one
    made: dict[str, Any] = json.loads(to_json(ROW))
    made["timings"][0] |= change
    for line in (made, made | {"timings": []}):
        with pytest.raises(ValueError, match=r"^here: .*timings.*$"):
            parse(Row, json.dumps(line), "here")


def test_records_of_an_earlier_version_are_read(tmp_path: Path) -> None:
    """They lack the keys that have a default."""
    folder = write_run(tmp_path / "run", [ROW, row(1, 0, [2], compression=3.0)], adaptation="session")
    kinds: tuple[tuple[str, type[Row] | type[Summary]], ...] = (("summary.json", Summary), ("rows.jsonl", Row))
    for name, kind in kinds:
        younger = [each.name for each in fields(kind) if each.default is not MISSING]
        lines = (folder / name).read_text().splitlines() if kind is Row else [(folder / name).read_text()]
        kept = [{key: value for key, value in json.loads(line).items() if key not in younger} for line in lines]
        for machine in (timing["machine"] for one in kept for timing in one.get("timings", ())):
            del machine["peak_memory_mb"], machine["peak_gpu_memory_mb"]
        assert all(len(json.loads(line)) > len(one) for line, one in zip(lines, kept, strict=True))
        (folder / name).write_text("".join(json.dumps(one) + "\n" for one in kept))
    run = read_run(folder)
    assert (run.summary.mean_accepted_tokens, run.summary.mean_accepted_tokens_macro) == (2.0, None)
    assert run.summary.peak_memory_mb is None
    assert [one.compression for one in run.rows] == [None, None]


# Root 5 with the drafts "6 7" and "8": 6 and 7 are accepted, 9 is the bonus token; then a step without drafts.
STEPS = [
    RecordedTree([5, 6, 7, 8], [-1, 0, 1, 0], [1.0, 0.5, 0.25, 0.1], None, [0, 1, 2], 9),
    RecordedTree([9], [-1], None, None, [0], 2),
]
DRAFTED = row(1, 0, [3, 1], token_ids=[5, 6, 7, 9, 2], drafted_nodes=[3, 0])
TREES = AnswerTrees("1", 0, "a prompt", {"5": "five"}, STEPS, 0)


class Letters:
    """A tokenizer of one letter per token, which drops the space at a text's beginning."""

    def decode(self, ids: list[int]) -> str:
        return "".join({0: " a", 1: "\ud800", 2: "\0<", 3: "\u202e"}[one] for one in ids).removeprefix(" ")


def write(folder: Path, *lines: AnswerTrees | str) -> Path:
    texts = [one if isinstance(one, str) else to_json(one) + "\n" for one in lines]
    (folder / "trees.jsonl").write_text("".join(texts))
    return folder


def test_accepted_tokens_stand_where_a_method_keeps_what_it_learned(tmp_path: Path) -> None:
    for setting, columns in (("prompt", ("cold",)), ("off", ("cold", "session")), ("session", ("session",))):
        run = write_run(tmp_path / setting, [row(81, 0, [2])], settings={"method.adaptation": setting})
        assert read_run(run).columns == columns


def test_trees_are_read_beside_their_rows(tmp_path: Path) -> None:
    assert read_trees(tmp_path, [DRAFTED]) == []
    assert read_trees(write(tmp_path, TREES), [DRAFTED]) == [TREES]
    assert read_trees(tmp_path, [row(2, 0, [1])]) == [], "of another question"
    assert read_trees(write(tmp_path, TREES, to_json(TREES)[:40]), [DRAFTED]) == [TREES], "the last line is cut"
    # Those that are not of the row are refused.
    changes: list[dict[str, object]] = [
        {"tokens": [5, 6, 4, 8]},
        {"tokens": [5, 6, 7]},
        {"parents": [-1, 0, 0, 0]},
        {"path": [0, 9]},
        {"bonus": 8},
        {"probabilities": [1.0]},
        {"parts": ["corpus"]},
    ]
    for change in changes:
        damaged: dict[str, Any] = json.loads(to_json(TREES))
        damaged["steps"][0] |= change
        write(tmp_path, json.dumps(damaged) + "\n")
        with pytest.raises(ValueError, match=r"trees.jsonl line 1: "):
            read_trees(tmp_path, [DRAFTED])


def test_an_answer_s_trees_are_bounded() -> None:
    """Whole steps are kept up to the bound, and how many there were after them."""
    recorder = TreeRecorder(1, Letters())
    see = recorder.begin("q", 0, np.array([0, 0]), Autoregressive())
    tree = DraftTree.chain(0, [2] * 999)
    for _ in range(MOST_NODES // 1000 + 5):
        see(Step(tree, [0], 0))
    (trees,) = recorder.take()
    assert (len(trees.steps), trees.steps_left_out, trees.prompt) == (MOST_NODES // 1000, 5, "a a")
    assert recorder.take() == []

    # A step keeps what the drafter says of its nodes.
    class Sure(Autoregressive):
        def node_parts(self, tree: DraftTree) -> list[str]:
            return ["", *["corpus"] * tree.drafted]

    recorder = TreeRecorder(1, Letters())
    see = recorder.begin("q", 0, np.array([0]), Sure())
    see(Step(DraftTree(np.array([0, 2]), np.array([-1, 0]), np.array([1, 1 / 3], np.float32)), [0, 1], 3))
    see(Step(DraftTree.root(3), [0], 0))
    assert recorder.take()[0].steps == [
        RecordedTree([0, 2], [-1, 0], [1.0, 0.3333], ["", "corpus"], [0, 1], 3),
        RecordedTree([3], [-1], None, [""], [0], 0),
    ]
    # A token has its text as it stands within a text.
    for token, text in enumerate((" a", "\\ud800", "\0<", "\u202e")):
        assert token_text(Letters(), token) == text
        trees = AnswerTrees("\0<q>", 0, "", {str(token): text}, [], 0)
        assert parse(AnswerTrees, to_json(trees), "here") == trees


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two whole runs, `good` and `hurt`."""
    for name, lengths in (("good", [1, 2, 3]), ("hurt", [4, 4])):
        write_run(tmp_path / name, [row(81, 0, lengths), row(82, 0, lengths)], method=name)
    return tmp_path


def methods(folder: Path) -> list[str]:
    return [run.method for run in read_runs([folder])]


@pytest.mark.parametrize("name", ["config.yaml", "environment.json", "rows.jsonl", "summary.json", "samples.jsonl"])
def test_a_run_that_lost_a_file_is_named_and_left_out(
    folder: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without its samples it counts. A config may be YAML, and yet none of a run."""
    assert methods(folder) == ["good", "hurt"]
    assert capsys.readouterr().err == "", "whole runs are read without a word"
    path = folder / "hurt" / name
    text = path.read_bytes()
    configs = [text + b"pairing: {1: 2}\n", text + b"pairing: !!binary aGk=\n"] if name == "config.yaml" else []
    damages = [text[: len(text) // 2], b"\xff\x00", *configs] if name != "samples.jsonl" else []
    for content in (*damages, None):
        path.unlink() if content is None else path.write_bytes(content)
        assert methods(folder) == (["good", "hurt"] if name == "samples.jsonl" else ["good"])
        output = capsys.readouterr().err
        assert name in output
        assert str(folder / "hurt") in output
        assert str(folder / "good") not in output


def test_the_command_is_what_the_run_was_given_without_where_its_record_went(tmp_path: Path) -> None:
    given = ["+experiment=fig3", "model=a b", "output_dir=/x", "paths.output=/y", "record.trees=2", "~logger"]
    write_run(tmp_path / "new", [row(81, 0, [1])], overrides=given)
    write_run(tmp_path / "old", [row(81, 0, [2])])
    new, old = read_runs([tmp_path])
    assert new.command == "aded run +experiment=fig3 'model=a b' record.trees=2"
    assert old.command is None


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda rows: rows.splitlines(keepends=True)[0], ": 1 turns"),
        (lambda rows: rows.replace('"new_tokens": 8', '"new_tokens": 9', 1), ": line 1 "),
        (
            lambda rows: rows.replace("[4, 4]", "[4, 99]", 1).replace('tokens": 8', 'tokens": 103', 1),
            ": line 1 disagrees",
        ),
        (lambda rows: 2 * rows, ": line 3 repeats question 81, turn 0"),
        (lambda rows: rows.replace('"drafted_nodes": [8, 8]', '"drafted_nodes": [8]', 1), ": line 1 .* 2 steps"),
    ],
)
def test_lost_and_edited_rows_are_seen(
    folder: Path, change: Callable[[str], str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder / "hurt" / "rows.jsonl"
    path.write_text(change(path.read_text()))
    assert methods(folder) == ["good"]
    assert re.search(f"{re.escape(str(path))}{problem}", capsys.readouterr().err)


def test_a_copied_run_counts_once_and_folders_of_wandb_or_hidden_ones_never(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("wandb", ".hidden"):
        write_run(folder / name / "run", [row(81, 0, [1])], method=name)
    copytree(folder / "hurt", folder / "hurt copy")
    assert methods(folder) == ["good", "hurt"]
    assert "counts once" in capsys.readouterr().err


def test_a_score_that_is_damaged_or_of_other_samples_is_left_out(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    digest, file = sha256(folder / "hurt" / "samples.jsonl"), folder / "hurt" / "score.json"
    for rate in ("0.5", '"much"', "null", "1.5", "NaN", "\xff", "[" * 99_999, "1.0"):
        of = "0" if rate == "1.0" else digest
        file.write_text(f'{{"pass@1": {rate}, "samples_sha256": "{of}"}}', encoding="latin-1")
        assert [run.pass_at_1 for run in read_runs([folder])] == [None, 0.5 if rate == "0.5" else None]
        assert (str(file) in capsys.readouterr().err) == (rate != "0.5")
