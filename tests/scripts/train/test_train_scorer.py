import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from command import Command
from from_python import compiled
from lookup_files import random_network, write_lookup
from omegaconf import DictConfig
from scored_by_hand import random_candidates, random_scorer
from small_ngrams import write_small_ngrams, write_small_suffixes
from test_train_medusa import SOURCE
from texts import CODE, write_code
from tiny import tiny_tokenizer

from aded.api.drafter import drafter as method
from aded.core.drafter import Step
from aded.drafters.backoff.candidates import LOOKUP, NEAREST, PROMPT, SOURCE_BIAS, SOURCES, TARGET, Candidates
from aded.drafters.backoff.drafter import BackoffDrafter
from aded.drafters.backoff.scorer import SHAPES, read_scorer, score
from aded.errors import BadInput
from aded.files.datastores.ngram_file import no_ngrams
from aded.targets.weightless import WeightlessTarget
from baselines.autoregressive import Autoregressive
from scripts.train import mixing
from scripts.train.scorer import descend, follow_answer, main, open_corpora, without_loops
from scripts.train.scorer_examples import Examples, FeatureCollector, FeatureCollectors, joined

pytestmark = pytest.mark.thorough


def collected(*settings: dict[str, Any], answer: list[int], share: float = 1.0) -> list[Examples]:
    contexts = {"target": 3, "prompt": 6}
    every: list[dict[str, Any]] = [{"contexts": contexts, **more} for more in settings]
    drafters = [BackoffDrafter(no_ngrams(), **own) for own in every]
    collectors = FeatureCollectors([FeatureCollector(drafter, share, 0) for drafter in drafters])
    logits = torch.full((len(answer), 64), -20.0)
    logits[torch.arange(len(answer)), torch.tensor(answer)] = 20.0
    follow_answer(collectors, [60, 61, 62], answer, logits)
    return [collector.examples for collector in collectors.collectors]


def write_corpora(folder: Path, stream: np.ndarray) -> dict[str, str]:
    write_small_ngrams(folder / "n", [stream], 128)
    write_small_suffixes(folder / "s", [stream], 128)
    write_lookup(folder / "l", random_network(128))
    return {"corpus": str(folder / "n"), "retrieval": str(folder / "s"), "lookup": str(folder / "l")}


def test_an_example_has_what_was_known_before_the_token() -> None:
    """The target's distribution that decided a token is not among it: nothing recurs, so nothing is known."""
    examples = collected({}, answer=list(range(40)))[0]
    assert len(examples.decided) == 40
    assert (examples.decided == examples.candidates).all(), "a token that was never read is another token"
    assert not examples.seen[:, TARGET : PROMPT * SOURCES : SOURCES].any()
    recurring = collected({}, answer=[*range(10), *range(10)])[0]
    assert (recurring.decided < recurring.candidates)[11:].all()
    assert recurring.seen[11:, TARGET].all()


def test_an_answer_is_followed_with_the_logits_that_decided_each_token() -> None:
    seen: list[tuple[int, int, int]] = []

    class Noting(Autoregressive):
        def observe(self, step: Step) -> None:
            assert step.logits is not None
            seen.append((int(step.tree.tokens[0]), int(step.logits.argmax()), step.next_token))

    follow_answer(Noting(), [9, 8], [1, 2, 3], torch.eye(4)[[1, 2, 3]])
    assert seen == [(8, 1, 1), (1, 2, 2), (2, 3, 3)]


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


def test_scorers_are_read(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ADED_CACHE", str(tmp_path / "cache"))
    files = write_corpora(tmp_path, np.array(tiny_tokenizer()(SOURCE)["input_ids"]))
    question = {"question_id": 1, "category": "a", "turns": ["the cat sat"]}
    Path("question.jsonl").write_text(json.dumps(question))
    answer = {"question_id": 1, "choices": [{"turns": ["the cat sat on the mat, the cat sat"]}]}
    Path("answers.jsonl").write_text(json.dumps(answer))
    write_code(tmp_path)
    recorded = {"answers": "answers.jsonl", "questions": "question.jsonl", "tokenizer": folder, "template": "raw"}
    recorded |= files
    named = ", ".join(f"{key}: {value}" for key, value in recorded.items())
    settings = ["prompts=2", "asking.max_new_tokens=8", "passes=2", "share=1", "out=w.safetensors"]
    own = [f"own_{key}={value}" for key, value in files.items()]
    done = command(main, f"model={folder}", f"recorded=[{{{named}}}]", *CODE, *settings, *own)
    assert "scorer: w.safetensors" in done.out, done.err
    without, learned_from = read_scorer("w.safetensors")
    assert "answers.jsonl" in learned_from
    for part, expert in (("retrieval", SOURCE_BIAS + NEAREST), ("lookup", LOOKUP)):
        scorer, _ = read_scorer("w.safetensors", **{part: True})
        assert (without.contexts[expert] != scorer.contexts[expert]).any()
    mine = method("aded_backoff", scorer="w.safetensors")
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
    files = write_corpora(tmp_path, np.arange(9))
    for kind in files:
        missing = {**files, kind: "/missing"}
        for where, recorded, own in (("recorded.0.", missing, files), ("own_", files, missing)):
            every: dict[str, Any] = {"recorded": [recorded], **{f"own_{name}": file for name, file in own.items()}}
            with pytest.raises(BadInput, match=f"^{where}{kind}: .*/missing"):
                open_corpora(DictConfig(every))


def loss(weights: list[torch.Tensor], candidates: Candidates, decided: int) -> torch.Tensor:
    n, m = (int(size) for size in candidates.sizes)
    bias, contexts, features = weights
    seen = candidates.seen.astype(bool)
    evidence = torch.from_numpy(candidates.evidence[seen]).double()
    known = torch.cat([torch.ones(len(evidence), 1), evidence], 1).double()
    common = bias[0] + torch.einsum("ef,efu->u", known, contexts[torch.from_numpy(seen)])
    values = torch.cat([torch.ones(m, 1), torch.from_numpy(candidates.feature_values[:m])], 1).double()
    sparse = torch.einsum("kf,kfu->ku", values, features[torch.from_numpy(candidates.feature_experts[:m])])
    hidden = common.expand(n + 1, -1).index_add(0, torch.from_numpy(candidates.feature_candidates[:m]), sparse)
    hidden = torch.cat([hidden[:n], hidden[n:] + bias[1]])
    return -torch.log_softmax(hidden.relu() @ bias[2], 0)[decided]


@pytest.mark.parametrize("known", [True, False])
def test_a_step_goes_down_the_gradient(known: bool) -> None:
    random = np.random.default_rng(3)
    scorer, candidates = random_scorer(random), random_candidates(random, 40)
    decided = 2 if known else int(candidates.sizes[0])
    arrays = [scorer[name] for name in SHAPES]
    weights = [torch.from_numpy(array).double().requires_grad_() for array in arrays]
    expected = loss(weights, candidates, decided)
    expected.backward()
    before = [array.copy() for array in arrays]
    compiled(score)(scorer, candidates)
    assert descend(scorer, candidates, decided, 0.5) == pytest.approx(expected.item(), rel=1e-4)
    for array, was, tensor in zip(arrays, before, weights, strict=True):
        assert tensor.grad is not None
        np.testing.assert_allclose(was - array, 0.5 * tensor.grad.numpy(), atol=1e-5)


def test_mixing_is_learned(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
    (tmp_path / "corpus.txt").write_text("###".join([SOURCE] * 20))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ADED_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(mixing, "READ_BY_HEADS", 0)
    monkeypatch.setattr(mixing, "PROMPTS", 4)
    corpus = ["corpus@datastore.corpus=text", "datastore.corpus.path=corpus.txt", "datastore.corpus.separator='###'"]
    done = command(mixing.main, f"model={folder}", "method.parts=[token_recycling,prompt_lookup]", *corpus)
    title, *rows = done.out.replace("[", "").replace("]", "").splitlines()
    assert title.startswith("prompt_lookup, from "), "the first has no other beside it"
    weights = np.array([row.split() for row in rows], float)
    assert weights.shape == (3, 3)
    assert (weights != mixing.PLAIN).any(axis=1).all()
    assert weights[0, 1] == weights[1, 0] == 0, "nothing is learned of a silent part's weight"
