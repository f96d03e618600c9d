from itertools import product
from pathlib import Path

import numpy as np
import pytest
from small_ngrams import write_small_ngrams, write_small_suffixes

from aded.bench.sweep import combinations
from aded.errors import BadInput


def test_every_combination_is_a_run() -> None:
    found = combinations(["+experiment=cpu_default", "benchmark.limit=1,2", "method=rest,aded", "logger=none"])
    expected = [
        {"+experiment=cpu_default", f"method={method}", f"benchmark.limit={limit}", "logger=none"}
        for method, limit in product(("rest", "aded"), (1, 2))
    ]
    assert len(found) == 4
    assert [set(one) for one in found] == expected


@pytest.fixture
def datastores(tmp_path: Path) -> tuple[str, str]:
    ids = [np.array([1, 2, 1, 2])]
    suffixes = write_small_suffixes(tmp_path / "a.suffixes", ids, 8)
    return str(write_small_ngrams(tmp_path / "a.ngrams", ids, 8, 3)), str(suffixes)


def test_each_method_takes_the_settings_and_the_datastore_that_it_has(datastores: tuple[str, str]) -> None:
    ngrams, suffixes = datastores
    given = ["method.adaptation=prompt,session", f"datastore.path={ngrams},{suffixes}", "method.budget=16"]
    found = [
        dict(part.split("=", 1) for part in one[1:]) for one in combinations(["+experiment=peers_recorded", *given])
    ]
    by_method: dict[str, list[dict[str, str]]] = {}
    for one in found:
        assert one.pop("method.budget") == "16"
        by_method.setdefault(one.pop("method"), []).append(one)
    scopes = [{"method.adaptation": scope} for scope in ("prompt", "session")]
    assert by_method["prompt_lookup"] == [{}]
    assert by_method["rest"] == [{"datastore.path": suffixes}]
    assert by_method["suffix_decoding"] == scopes
    assert by_method["aded"] == [{**scope, "datastore.path": ngrams} for scope in scopes]


def test_a_single_method_is_left_its_settings_so_that_a_wrong_one_is_refused() -> None:
    given = ["method=prompt_lookup", "method.budget=16", "method.adaptation=prompt,session"]
    found = combinations(["+experiment=peers_recorded", *given])
    assert [one[-1] for one in found] == ["method.adaptation=prompt", "method.adaptation=session"]


def test_a_method_without_its_kind_of_datastore_is_refused(datastores: tuple[str, str]) -> None:
    with pytest.raises(BadInput, match=r"datastore.path: rest reads a file of suffixes, and none is named"):
        combinations(["+experiment=peers_recorded", f"datastore.path={datastores[0]}"])
