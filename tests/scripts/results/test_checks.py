import json
from pathlib import Path

import numpy as np
import pytest

import aded
from aded.config.command_line import compose_config
from aded.errors import BadInput
from scripts.results.check_engine import CheckEngineSettings, count_steps, counts_at_each_position, run
from scripts.results.check_rejection import tally_of

PROMPT, GENERATED = [1, 2, 3, 4, 5, 9], [1, 2, 3, 4, 5, 7]
"""Behind 1 2 3 the answer goes on as the prompt did, for two tokens."""
EQUAL = [1, 1, 1, 3, 2, 1]


def test_each_position_has_what_a_step_from_there_would_yield() -> None:
    drafter = aded.drafter("prompt_lookup", max_ngram=7, min_ngram=3, budget=20, cost="none")
    assert counts_at_each_position(drafter, PROMPT, GENERATED).tolist() == EQUAL
    assert count_steps(np.array(EQUAL)) == 4


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        (EQUAL, "6 equal, 0 where the replay accepts more, 0 fewer, 0 where"),
        ([1, 1, 1, 3, 2, 4], "5 equal, 0 where the replay accepts more, 0 fewer, 1 where"),
        ([2, 1, 1, 2, 2, 1], "4 equal, 1 where the replay accepts more, 1 fewer, 0 where"),
    ],
)
def test_counts_differ(tmp_path: Path, capsys: pytest.CaptureFixture[str], counts: list[int], expected: str) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({"prompt": PROMPT, "generated": GENERATED, "ngram": counts}))
    run([str(tmp_path / "a.jsonl")], CheckEngineSettings())
    output = capsys.readouterr().out
    assert output.startswith(f"1 answers, 6 positions: {expected}")
    assert "replayed 1.5000" in output


def test_wrong_files_are_one_line(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text(json.dumps({"prompt": PROMPT, "generated": GENERATED, "ngram": [1]}))
    for files, settings, problem in (
        ([str(file)], CheckEngineSettings(), "line 1 has 1 counts; it must have prompt and generated"),
        ([str(file)], CheckEngineSettings(counts="eagle3"), "line 1: counts: None must be"),
        ([], CheckEngineSettings(), "name one file"),
    ):
        with pytest.raises(BadInput, match=problem):
            run(files, settings)


def test_a_models_own_layers_are_accepted_as_often_as_their_distributions_agree(folder: Path) -> None:
    short = [f"model={folder}", "decoding=rejection", "benchmark.limit=2", "benchmark.max_new_tokens=40"]
    short += ["model.dtype=float32", "model.kernels=torch", "engine=eager", "method.cost=none"]
    tally = tally_of(compose_config([*short, "method=layer_skip", "method.layers=1"]))
    chances = np.array(tally.chances)
    assert ((chances > 0) & (chances <= 1 + 1e-9)).all()
    assert 0 < tally.accepted < len(chances) <= tally.accepted + tally.steps
    assert abs(tally.accepted - chances.sum()) < 3 * np.sqrt((chances * (1 - chances)).sum()) + 1e-9
    assert f"{tally.accepted} of {len(chances)} drafted tokens accepted; sum(min(p, q)) =" in str(tally)
    with pytest.raises(BadInput, match="drew no drafts"):
        tally_of(compose_config([*short, "method=prompt_lookup"]))
