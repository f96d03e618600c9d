import sys
from typing import Any, Literal

import numpy as np
import pytest
from tiny import drafted_along

from aded.errors import BadInput
from baselines.tokens.suffix_decoding import SuffixDecoding


def test_without_the_package_one_line_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.startswith("arctic_inference")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(BadInput, match=r"^arctic_inference: .*'\.\[suffix\]'"):
        SuffixDecoding()


@pytest.fixture
def package() -> Any:
    return pytest.importorskip("arctic_inference.suffix_decoding", reason="the extra `suffix` is not installed")


@pytest.mark.parametrize("shape", ["tree", "chain"])
def test_the_drafts_are_those_of_the_package_driven_directly(package: Any, shape: Literal["tree", "chain"]) -> None:
    rng = np.random.default_rng(0)
    questions = [(rng.integers(6, size=30).tolist(), rng.integers(6, size=60).tolist()) for _ in range(5)]
    drafter, cache = SuffixDecoding(shape=shape, budget=20, depth=16), package.SuffixDecodingCache(16)
    drafted = 0
    for number, (prompt, answer) in enumerate(questions):
        trees = drafted_along(drafter, prompt, answer)
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


@pytest.mark.usefixtures("package")
def test_so_many_answers_are_kept_and_one_prompt_is_open() -> None:
    drafter = SuffixDecoding(answers=2)
    for first in range(10, 60, 10):
        drafted_along(drafter, [1], [first, first + 1, first + 2])
    assert len(drafter._cache.cached_requests) == 2
    assert drafted_along(drafter, [2], [10, 11])[1].drafted == 0
    assert len(drafter._cache.active_requests) == 0
    for _ in range(2):
        drafter.begin(np.array([1, 2]))
        assert len(drafter._cache.active_requests) == 1, "the next prompt ends the one before"
