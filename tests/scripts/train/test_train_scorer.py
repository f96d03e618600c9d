"""Examples and the command; the descent itself: test_gradient.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lookup_files import random_network, write_lookup
from omegaconf import DictConfig
from small_ngrams import write_small_ngrams
from test_train_medusa import SOURCE
from texts import CODE, write_code
from tiny import tiny_model, tiny_tokenizer

from aded.api.drafter import drafter as method
from aded.drafters.backoff.candidates import LOOKUP, NEAREST, PROMPT, SOURCE_BIAS, SOURCES, TARGET
from aded.drafters.backoff.drafter import BackoffDrafter
from aded.drafters.backoff.scorer import read_scorer
from aded.errors import BadInput
from aded.files.datastores.ngram_file import no_ngrams
from aded.targets.weightless import WeightlessTarget
from datastore.suffix_array import with_separators, write_suffixes
from scripts.train.scorer import follow_answer, main, open_corpora, without_loops
from scripts.train.scorer_examples import Examples, FeatureCollector, FeatureCollectors, joined


def collected(*settings: dict[str, Any], answer: list[int], share: float = 1.0) -> list[Examples]:
    """What drafters with these settings keep of an answer, which the target is sure of."""
    contexts = {"target": 3, "prompt": 6}
    every: list[dict[str, Any]] = [{"contexts": contexts, **more} for more in settings]
    drafters = [BackoffDrafter(no_ngrams(), **own) for own in every]
    collectors = FeatureCollectors([FeatureCollector(drafter, share, 0) for drafter in drafters])
    logits = torch.full((len(answer), 64), -20.0)
    logits[torch.arange(len(answer)), torch.tensor(answer)] = 20.0
    follow_answer(collectors, [60, 61, 62], answer, logits)
    return [collector.examples for collector in collectors.collectors]


def test_an_example_has_what_was_known_before_the_token() -> None:
    """The target's distribution that decided a token is not among it: nothing recurs, so nothing is known."""
    examples = collected({}, answer=list(range(40)))[0]
    assert len(examples.decided) == 40
    assert (examples.decided == examples.candidates).all(), "a token that was never read is another token"
    assert not examples.seen[:, TARGET : PROMPT * SOURCES : SOURCES].any()
    recurring = collected({}, answer=[*range(10), *range(10)])[0]
    assert (recurring.decided < recurring.candidates)[11:].all()
    assert recurring.seen[11:, TARGET].all()


def test_collectors_read_with_their_own_settings_and_keep_their_share() -> None:
    on, off = collected({}, {"contexts": {"prompt": 6}}, answer=list(range(50)), share=0.5)
    assert on.seen[:, SOURCE_BIAS + TARGET].all()
    assert not off.seen[:, SOURCE_BIAS + TARGET].any()
    assert 10 < len(on.decided) < 40


def test_joined_examples_keep_their_features() -> None:
    groups = [collected({}, answer=list(answer))[0] for answer in ((1, 2, 1, 2, 1), (5, 6, 7, 5, 6, 7))]
    every = joined(groups)
    p = len(groups[0].decided) + 4
    own, (start, end) = groups[1].feature_starts[4:6], every.feature_starts[p : p + 2]
    assert end - start == own[1] - own[0] > 0
    np.testing.assert_array_equal(every.feature_values[start:end], groups[1].feature_values[slice(*own)])


@pytest.mark.thorough
def test_the_command_writes_weights_that_a_drafter_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, tokenizer = tmp_path / "model", tiny_tokenizer()
    tiny_model(vocab_size=128, max_position_embeddings=4096).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    stream = np.array(tokenizer(SOURCE)["input_ids"])
    write_small_ngrams(tmp_path / "tiny.ngrams", [stream], 128)
    question = {"question_id": 1, "category": "a", "turns": ["the cat sat"]}
    (tmp_path / "question.jsonl").write_text(json.dumps(question))
    answer = {"question_id": 1, "choices": [{"turns": ["the cat sat on the mat, the cat sat"]}]}
    (tmp_path / "answers.jsonl").write_text(json.dumps(answer))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ADED_CACHE", str(tmp_path / "cache"))
    write_suffixes(
        tmp_path / "tiny.suffixes", with_separators([stream], 128), {"tokenizer": "t", "vocabulary": "128"}
    )
    write_lookup(tmp_path / "tiny.lookup", random_network(128))
    recorded = (
        "{answers: answers.jsonl, questions: question.jsonl, tokenizer: model, template: raw, corpus: tiny.ngrams, "
        "retrieval: tiny.suffixes, lookup: tiny.lookup}"
    )
    write_code(tmp_path)
    settings = [
        *CODE,
        "prompts=2",
        "asking.max_new_tokens=8",
        "passes=2",
        "share=1",
        "own_corpus=tiny.ngrams",
        "own_retrieval=tiny.suffixes",
        "own_lookup=tiny.lookup",
        "out=w.safetensors",
    ]
    monkeypatch.setattr("sys.argv", ["train_scorer", "model=model", f"recorded=[{recorded}]", *settings])
    main()
    assert "scorer: w.safetensors" in capsys.readouterr().out
    without, learned_from = read_scorer("w.safetensors")
    assert "answers.jsonl" in learned_from
    for part, expert in (("retrieval", SOURCE_BIAS + NEAREST), ("lookup", LOOKUP)):
        scorer, _ = read_scorer("w.safetensors", **{part: True})
        assert (without.contexts[expert] != scorer.contexts[expert]).any()
    mine = method("aded_backoff", scorer=str(tmp_path / "w.safetensors"))
    mine.setup(WeightlessTarget())
    mine.begin(np.array([5, 6, 7, 5]))
    assert mine.draft(np.array([5, 6, 7, 5, 6])).drafted


def test_answers_without_end_are_left_out(tmp_path: Path) -> None:
    lines = [json.dumps({"question_id": n, "choices": [{"turns": ["and on " * n]}]}) + "\n" for n in (1, 500, 2)]
    (tmp_path / "a.jsonl").write_text("".join(lines))
    (tmp_path / "kept").mkdir()
    assert without_loops(tmp_path / "a.jsonl", tmp_path / "kept").read_text() == lines[0] + lines[2]
    assert without_loops(tmp_path / "none", tmp_path / "kept") == tmp_path / "none"


def test_missing_corpora_are_named_by_their_own_keys(tmp_path: Path) -> None:
    header = {"tokenizer": "t", "vocabulary": "128"}
    write_small_ngrams(tmp_path / "n", [np.arange(9)], 128)
    write_suffixes(tmp_path / "s", with_separators([np.arange(9)], 128), header)
    write_lookup(tmp_path / "l", random_network(128))
    kinds = ("corpus", "retrieval", "lookup")
    for place, key in enumerate([where + kind for where in ("recorded.0.", "own_") for kind in kinds]):
        files = [str(tmp_path / name) for name in ("n", "s", "l", "n", "s", "l")]
        files[place] = str(tmp_path / "missing")
        own = {f"own_{kind}": file for kind, file in zip(kinds, files[3:], strict=True)}
        settings = {"recorded": [dict(zip(kinds, files[:3], strict=True))], **own}
        with pytest.raises(BadInput, match=f"^{key}: .*{tmp_path}/missing"):
            open_corpora(DictConfig(settings))
