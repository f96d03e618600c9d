import re
import shlex
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from command import Command
from small_ngrams import write_small_ngrams

from aded.errors import BadInput
from datastore.suffix_array import with_separators, write_suffixes
from scripts import NoSettings, sweep
from scripts.report.plots.catalogue import PLOTS
from scripts.sweep import combinations, run

MAKEFILE = Path(__file__).parents[2] / "Makefile"


def test_every_combination_is_a_run() -> None:
    found = combinations("cpu_default", ["benchmark.limit=1,2", "method=rest,aded", "logger=none"])
    expected = [
        {"+experiment=cpu_default", f"method={method}", f"benchmark.limit={limit}", "logger=none"}
        for method, limit in product(("rest", "aded"), (1, 2))
    ]
    assert len(found) == 4
    assert [set(one) for one in found] == expected


@pytest.fixture
def datastores(tmp_path: Path) -> tuple[str, str]:
    ids = [np.array([1, 2, 1, 2])]
    write_suffixes(tmp_path / "a.suffixes", with_separators(ids, 8), {"tokenizer": "t", "vocabulary": "8"})
    return str(write_small_ngrams(tmp_path / "a.ngrams", ids, 8, 3)), str(tmp_path / "a.suffixes")


def test_each_method_takes_the_settings_and_the_datastore_that_it_has(datastores: tuple[str, str]) -> None:
    ngrams, suffixes = datastores
    given = ["method.adaptation=prompt,session", f"datastore.path={ngrams},{suffixes}", "method.budget=16"]
    found = [dict(part.split("=", 1) for part in one[1:]) for one in combinations("peers_recorded", given)]
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
    found = combinations("peers_recorded", given)
    assert [one[-1] for one in found] == ["method.adaptation=prompt", "method.adaptation=session"]


def test_a_method_without_its_kind_of_datastore_and_no_experiment_are_refused(datastores: tuple[str, str]) -> None:
    with pytest.raises(BadInput, match=r"datastore.path: rest reads a file of suffixes, and none is named"):
        combinations("peers_recorded", [f"datastore.path={datastores[0]}"])
    for arguments in ([], ["no_such_experiment"], ["method=aded"]):
        with pytest.raises(BadInput, match=r"EXPERIMENT: name one of .*cpu_default"):
            run(arguments, NoSettings())


def test_make_run_reports(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
    """The command of `make run`, for a tiny model, two methods that need no files, one plot and no W&B."""
    out = tmp_path / "cpu_default"
    (recipe,) = re.findall(r"^run:.*\n\t@.*\$\(BIN\)/aded sweep (.*)\n", MAKEFILE.read_text(), re.MULTILINE)
    monkeypatch.setattr("scripts.plots.PLOTS", {"speedup": PLOTS["speedup"]})
    tiny = [f"model={folder}", "method=prompt_lookup,token_recycling", "benchmark.max_new_tokens=8"]
    quick = ["logger=none", "benchmark.limit=2", "model.kernels=torch", "progress=false", f"paths.output={out}"]
    code, printed, errors = command(sweep.main, *shlex.split(recipe), *tiny, *quick)
    assert code == 0, errors[-2000:]
    assert "token_recycling" in (out / "summary.md").read_text()
    assert "outputs of all methods are identical" in (out / "report.html").read_text()
    for place in ("summary.md", "speedup.png", "report.html", f"records: {out}"):
        assert place in printed
