"""Any method by its name, with its settings, refused in the lines of a run."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from own_drafters import Noting
from small_ngrams import write_small_ngrams
from tiny import VOCABULARY, tiny_model, tiny_tokenizer

import aded
from aded.api.drafter import NamedDrafter, as_drafter
from aded.api.shared import SharedDrafter
from aded.bench.run import checked_config
from aded.config.command_line import compose_config
from aded.errors import BadInput
from aded.files.datastores.ngram_file import open_ngrams
from aded.targets.eager import EagerTarget
from aded.targets.weightless import WeightlessTarget
from baselines.autoregressive import Autoregressive

TEXT = np.array([7, 8, 9, 10, 11, 12, 7, 8, 9])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_small_ngrams(tmp_path / "a.ngrams", [np.arange(20, 40)], VOCABULARY, tokenizer=tiny_tokenizer())


def test_it_drafts_from_its_text_and_from_its_corpus(file: Path) -> None:
    alone = aded.drafter("aded_backoff", cost="none")
    alone.begin(TEXT)
    assert 10 in alone.draft(TEXT).tokens
    for datastore in (file, str(file), open_ngrams(file)):
        drafter, text = aded.drafter("aded_backoff", datastore=datastore, cost="none"), np.array([20, 21, 22])
        drafter.begin(text)
        assert 23 in drafter.draft(text).tokens


@pytest.mark.parametrize(
    ("name", "settings", "override"),
    [
        ("aded_backoff", {"budget": -1}, "method.budget=-1"),
        ("aded_backoff", {"zzz": 1}, "++method.zzz=1"),
        ("aded", {"draft_maker": {"zzz": 1}}, "++method.draft_maker.zzz=1"),
    ],
)
def test_a_wrong_setting_has_the_line_of_a_run(name: str, settings: dict[str, object], override: str) -> None:
    with pytest.raises(BadInput) as of_run:
        checked_config(compose_config([f"method={name}", override]))
    with pytest.raises(BadInput, match=f"^{re.escape(str(of_run.value))}$"):
        aded.drafter(name, **settings)


def test_wrong_names_and_files_are_refused(tmp_path: Path, file: Path) -> None:
    for call, line in (
        (lambda: aded.drafter("zzz"), r"^method: 'zzz': no such method; there are aded, aded_backoff, "),
        (lambda: aded.drafter("custom"), r"^method._target_: must be given"),
        (lambda: aded.drafter("rest"), r"^datastore: must be given: rest drafts from a suffix file"),
        (lambda: aded.drafter("rest", datastore=file), r"^datastore.path: .* is an n-gram file"),
        (lambda: aded.drafter("aded", datastore=tmp_path / "no"), r"^datastore.path: no file "),
        (lambda: aded.drafter("aded", datastore=7), r"^datastore: aded reads a file of ngrams"),
        (lambda: aded.drafter("prompt_lookup", datastore=file), r"^method._target_: .* takes no datastore"),
        (lambda: as_drafter(7), r"^drafter: int is neither"),  # type: ignore[arg-type]
    ):
        with pytest.raises(BadInput, match=line):
            call()
    drafter = aded.drafter("aded", datastore=file)
    drafter.check_tokenizer(tiny_tokenizer())
    with pytest.raises(BadInput, match=r"^datastore.path: .* was built with the tokenizer"):
        drafter.check_tokenizer(tiny_tokenizer(["zzz"]))


def test_a_class_of_ones_own() -> None:
    assert isinstance(aded.drafter("custom", _target_="own_drafters.Noting"), NamedDrafter)
    mine = Noting()
    assert aded.drafter(mine).drafter is as_drafter(mine).drafter is mine
    with pytest.raises(BadInput, match=r"^drafter: is made already"):
        aded.drafter(mine, budget=3)


def test_a_copy_of_a_drafter_is_reset_and_the_drafter_is_left_alone() -> None:
    mine = Noting()
    copied: Any = as_drafter(mine).fresh().unsized
    assert (mine.calls, copied.calls) == ([], ["reset"])


def test_a_drafter_is_set_up_once_for_a_model_and_forgets_at_another() -> None:
    mine, first, second = Noting(), EagerTarget(tiny_model()), WeightlessTarget()
    for target in (first, first, second, second, first):
        as_drafter(mine).setup(target)
    assert mine.calls == ["setup", "reset", "setup", "reset", "setup"]


def test_two_wrappers_of_one_drafter_ask_for_the_same_and_forget_it_at_another_model() -> None:
    mine, target = aded.drafter("aded_backoff", cost="none").drafter, EagerTarget(tiny_model())
    for wrapper in (as_drafter(mine), as_drafter(mine)):
        wrapper.setup(target)
        assert wrapper.requires == {"logits"}
    wrapper.setup(WeightlessTarget())
    assert wrapper.requires == frozenset()
    with pytest.raises(BadInput, match=r"^drafter: token_recycling needs logits"):
        aded.drafter("token_recycling").setup(WeightlessTarget())


def test_a_drafter_serves_one_answer_at_a_time_and_equal_ones_without_a_hash_are_two() -> None:
    @dataclass
    class Nothing(Autoregressive):
        tokens: int = 0

    mine = Nothing()
    one, same, other = (SharedDrafter("nothing", each, given=True) for each in (mine, mine, Nothing()))
    with one.in_use(), other.in_use(), pytest.raises(BadInput, match=r"^drafter: nothing is drafting another answer"):
        same.in_use().__enter__()
    with same.in_use():
        pass
