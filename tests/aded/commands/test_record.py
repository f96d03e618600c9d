"""A recorded pack replays as the model decoded, without tokenizer, questions and model."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from answer_lines import TEXTS, written
from packed import small_pack
from shell import Shell
from small_ngrams import write_small_ngrams
from tiny import tiny_tokenizer

import aded
from aded.commands import record
from aded.errors import BadInput
from aded.files.pack import read_about, read_pack
from aded.identity import tokenizer_fingerprint

SAME = ("question_id", "turn", "category", "prompt_tokens", "token_ids", "accept_lengths", "drafted_nodes")


@pytest.fixture
def model(folder: Path, tmp_path: Path) -> Sequence[str]:
    """The arguments of a run whose second turns have answers in their prompts."""
    asked = ({"question_id": n, "category": "cats", "turns": [TEXTS[n], "and then?"]} for n in range(3))
    written(tmp_path, *asked, name="question.jsonl")
    benchmark = ["benchmark=alpaca", f"benchmark.question_file={tmp_path / 'question.jsonl'}"]
    benchmark += ["benchmark.max_new_tokens=24", "datastore.path=null", "progress=false"]
    return [f"model={folder}", "model.dtype=float32", *benchmark]


def test_a_pack_replays_as_the_model_decoded(shell: Shell, model: Sequence[str], tmp_path: Path) -> None:
    method = ["method=prompt_lookup", "method.cost=none"]
    assert shell(*model, *method, "pairing=off")[0] == 0
    decoded = shell.rows()
    assert shell.command(record.main, *model, f"output_dir={tmp_path / 'run'}", f"out={tmp_path / 'pack'}").code == 0
    about = read_about(tmp_path / "pack", "pack")
    assert (about.model, about.benchmark, about.turns) == ("model0", "alpaca", 6)
    assert about.tokenizer == tokenizer_fingerprint(tiny_tokenizer())
    assert str(tmp_path) not in (tmp_path / "pack" / "pack.json").read_text()
    shutil.rmtree(tmp_path / "run")
    (tmp_path / "question.jsonl").unlink()
    shell.out = tmp_path / "replay"
    code, _, errors = shell("model=recorded", f"model.answers={tmp_path / 'pack'}", *method)
    assert (code, errors) == (0, "")
    replayed, summary = shell.rows(), shell.summary()
    assert [[row[key] for key in SAME] for row in replayed] == [[row[key] for key in SAME] for row in decoded]
    assert (summary["model"], summary["benchmark"]) == ("model0", "alpaca")
    (again,) = aded.replay(tmp_path / "pack", methods=["prompt_lookup"])
    assert (again.steps, again.model, again.benchmark) == (summary["steps"], "model0", "alpaca")


def test_recording_goes_on_where_it_was_and_packs_a_finished_run(
    shell: Shell, model: Sequence[str], tmp_path: Path
) -> None:
    shell.out = tmp_path / "run"
    run = [*model, "method=autoregressive", "pairing=off"]
    assert shell(*run)[0] == 0
    rows = (shell.out / "rows.jsonl").read_bytes()
    packing = [*run, f"output_dir={shell.out}", f"out={tmp_path / 'pack'}", "licence=MIT"]
    assert shell.command(record.main, *packing).code == 0
    assert (shell.out / "rows.jsonl").read_bytes() == rows
    whole = read_pack(tmp_path / "pack", "pack")
    assert [list(turn.token_ids) for turn in whole.turns] == [row["token_ids"] for row in shell.rows()]
    assert whole.about.licence == "MIT"
    # Killed after the second question: the rest is answered, and the pack is the same.
    (shell.out / "summary.json").unlink()
    (shell.out / "rows.jsonl").write_bytes(b"".join(rows.splitlines(keepends=True)[:4]))
    assert shell.command(record.main, *packing).code == 0
    assert read_pack(tmp_path / "pack", "pack").turns == whole.turns
    # Never over another pack.
    other = [*packing[:-3], "benchmark.limit=1", f"output_dir={tmp_path / 'other'}", *packing[-2:]]
    assert "out: " in shell.command.refusal(record.main, *other)
    assert read_pack(tmp_path / "pack", "pack").turns == whole.turns


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["model.answers=pack", "model.tokenizer=MODEL"], "model.tokenizer: has the fingerprint"),
        (["model.answers=pack", "method=aded"], "model.tokenizer: must be given: the pack has ids alone"),
        (["model.answers=pack", "benchmark=human_eval", "method=prompt_lookup"], "answers none of the benchmark's"),
        (["model.answers=pack", "benchmark=pack", "benchmark.pack=no"], "model.answers: no is no pack"),
        (["model.answers=question.jsonl"], "model.tokenizer: must be given: question.jsonl is no pack"),
        (["model.answers=pack", "method=token_recycling"], "method: token_recycling needs logits"),
    ],
)
def test_what_does_not_fit_a_pack_is_one_line(
    shell: Shell, model: Sequence[str], folder: Path, tmp_path: Path, arguments: list[str], line: str
) -> None:
    small_pack(tmp_path / "pack")
    given = [argument.replace("MODEL", str(folder)) for argument in arguments]
    code, _, errors = shell("model=recorded", *given)
    assert (code, errors.count("\n")) == (2, 1)
    assert line in errors


def test_a_place_that_takes_no_pack_is_refused_before_the_run(
    shell: Shell, model: Sequence[str], folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("mine")
    before = sorted(folder.iterdir())
    (theirs := tmp_path / "theirs").mkdir()
    (theirs / "answers.jsonl.xz").write_text("mine")
    refusals = {"a.txt": "is a file; name a folder", folder: "belongs to model.path", theirs: "not as aded wrote it"}
    for out, line in refusals.items():
        assert line in shell.command.refusal(record.main, *model, f"output_dir={tmp_path / 'run'}", f"out={out}")
    assert not (tmp_path / "run").exists()
    assert sorted(folder.iterdir()) == before


def test_a_replay_needs_methods_and_a_datastore_of_its_tokenizer(tmp_path: Path) -> None:
    small_pack(tmp_path)
    ngrams = write_small_ngrams(tmp_path / "a.ngrams", [np.arange(9)], 16)
    (found,) = aded.replay(tmp_path, methods=["prompt_lookup"])
    assert found.repetitive_share is None, "the answers have no text"
    assert (found.turns, found.mean_accepted_tokens) == (3, found.new_tokens / found.steps)
    assert (found.mean_accepted_tokens or 0) > 1.5
    for arguments, line in (
        ({"methods": ["aded"], "datastore": ngrams}, "was built with"),
        ({"methods": ["prompt_lookup"], "questions": "mt_bench"}, "questions: .* is a pack, which has its own"),
    ):
        with pytest.raises(BadInput, match=line):
            aded.replay(tmp_path, **arguments)
