"""A verifier whose answers depend on the drafts is found: by a run, by check_lossless, by check_drafter."""

from pathlib import Path
from typing import Any

import pytest
import torch
from command import Command
from shell import Shell
from tiny import tiny_tokenizer
from transformers import AutoModelForCausalLM

from aded.bench.human_eval import HumanEval
from aded.bench.questions import ChatTemplate
from aded.core.sampler import Greedy
from aded.core.tree import DraftTree
from aded.testing import check_drafter
from baselines.tokens.prompt_lookup import PromptLookup
from scripts.results import check_lossless

TOKENS = 24


@pytest.fixture(autouse=True)
def wrong_where_something_is_drafted(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Greedy.walk

    def walk(self: Greedy, tree: DraftTree, logits: torch.Tensor | None, position: int) -> tuple[list[int], int]:
        path, bonus = right(self, tree, logits, position)
        return path, (bonus + 1) % 64 if len(tree) > 1 else bonus  # both models here have 64 tokens

    monkeypatch.setattr(Greedy, "walk", walk)


def test_a_run_says_which_answers_differ_and_where(shell: Shell, folder: Path) -> None:
    shell.usual += [f"model={folder}", "model.dtype=float32", "benchmark.limit=3", "method.cost=none"]
    shell.usual += [f"benchmark.max_new_tokens={TOKENS}"]
    assert shell("method=autoregressive")[0] == 0
    right, shell.out = shell.rows(), shell.out.with_name("wrong")
    code, output, _ = shell("method=prompt_lookup")
    assert code == 0
    rows = shell.rows()
    differ = [row["token_ids"] != plain["token_ids"] for row, plain in zip(rows, right, strict=True)]
    assert any(differ)
    assert [row["identical"] for row in rows] == [not one for one in differ]
    assert shell.summary()["identical_outputs"] == 3 - sum(differ)
    assert f"identical {3 - sum(differ)} of 3" in output
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    for row, plain, question in zip(rows, right, HumanEval("chat", ()).questions(), strict=False):
        if row["identical"]:
            assert row["divergence"] is None
            continue
        mine, wanted = row["token_ids"], plain["token_ids"]
        at = next(index for index in range(TOKENS) if mine[index] != wanted[index])
        prompt = ChatTemplate().ids(tiny_tokenizer(), question.turns, [])
        first, second = model(torch.tensor([prompt + wanted[:at]])).logits[0, -1].topk(2).values.tolist()
        assert row["divergence"] == {"position": at, "logit_gap": pytest.approx(first - second, abs=1e-4)}


def test_check_lossless_names_each_answer_that_differs(command: Command, folder: Path) -> None:
    asked = [f"model={folder}", "benchmark.limit=2", f"benchmark.max_new_tokens={TOKENS}", "method.cost=none"]
    assert command(check_lossless.main, *asked, "method=autoregressive").code == 0
    code, output, _ = command(check_lossless.main, *asked, "method=prompt_lookup")
    *named, last = output.splitlines()
    assert code == 1
    assert named
    assert set(named) <= {f"HumanEval/{number}: differs from model.generate" for number in range(2)}
    assert f": {len(named)} answers differ" in last


def test_check_drafter_fails() -> None:
    with pytest.raises(AssertionError, match=r"^an answer is not that of autoregressive decoding"):
        check_drafter(PromptLookup)
