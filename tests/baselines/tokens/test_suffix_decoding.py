from __future__ import annotations

import sys

import numpy as np
import pytest

from aded.core.drafter import Step
from aded.core.tree import DraftTree
from aded.errors import BadInput
from baselines.tokens.suffix_decoding import SuffixDecoding


def test_without_the_package_one_line_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.startswith("arctic_inference")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(BadInput) as error:
        SuffixDecoding()
    assert error.value.key == "arctic_inference"
    assert "'.[suffix]'" in str(error.value)


class TestWithThePackage:
    @pytest.fixture(autouse=True)
    def _installed(self) -> None:
        pytest.importorskip("arctic_inference", reason="the extra `suffix` is not installed")

    def answered(self, drafter: SuffixDecoding, prompt: list[int], answer: list[int]) -> list[DraftTree]:
        """The trees of an answer of which each step decides one token."""
        drafter.begin(np.array(prompt))
        trees = []
        for n, token in enumerate(answer):
            drafter.observe(Step(DraftTree.root([*prompt, *answer][len(prompt) + n - 1]), [0], token))
            trees.append(drafter.draft(np.array([*prompt, *answer[: n + 1]])))
        drafter.end()
        return trees

    @pytest.mark.parametrize("shape", ["tree", "chain"])
    def test_the_drafts_are_those_of_the_package_driven_directly(self, shape: str) -> None:
        from arctic_inference.suffix_decoding import SuffixDecodingCache

        rng = np.random.default_rng(0)
        questions = [(rng.integers(6, size=30).tolist(), rng.integers(6, size=60).tolist()) for _ in range(5)]
        drafter, cache = SuffixDecoding(shape=shape, budget=20, depth=16), SuffixDecodingCache(16)  # type: ignore[arg-type]
        drafted = 0
        for number, (prompt, answer) in enumerate(questions):
            trees = self.answered(drafter, prompt, answer)
            cache.start_request(number, prompt)
            for n, (token, tree) in enumerate(zip(answer, trees, strict=True)):
                cache.add_active_response(number, [token])
                context = [*prompt, *answer[: n + 1]]
                wanted = cache.speculate(number, context, 20, use_tree_spec=shape == "tree")
                assert tree.tokens.tolist() == [token, *wanted.token_ids]
                assert tree.parents[1:].tolist() == [parent + 1 for parent in wanted.parents]
                drafted += tree.drafted
            cache.stop_request(number)
        assert drafted > 100

    def test_at_most_so_many_answers_are_kept(self) -> None:
        drafter = SuffixDecoding(answers=2)
        for first in range(10, 60, 10):
            self.answered(drafter, [1], [first, first + 1, first + 2])
        assert len(drafter._cache.cached_requests) == 2
        assert self.answered(drafter, [2], [10, 11])[1].drafted == 0
        assert len(drafter._cache.active_requests) == 0

    def test_a_prompt_that_begins_while_another_is_open_ends_it(self) -> None:
        drafter = SuffixDecoding()
        drafter.begin(np.array([1, 2]))
        drafter.begin(np.array([1, 2]))
        assert len(drafter._cache.active_requests) == 1
