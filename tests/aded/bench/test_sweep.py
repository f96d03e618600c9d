"""What a sweep runs: each method with the settings that it has, every experiment as its first line starts it."""

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hydra import compose, initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.utils import get_class
from omegaconf import OmegaConf
from shell import Shell
from small_ngrams import write_small_ngrams, write_small_suffixes

from aded.bench.sweep import combinations
from aded.config.choices import names_of
from aded.config.command_line import CONF
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


@pytest.mark.filterwarnings("ignore:(?s).*validated against ConfigStore schema")
@pytest.mark.parametrize("name", sorted(path.stem for path in (CONF / "hydra" / "launcher").glob("*.yaml")))
def test_each_launcher_takes_its_config(name: str) -> None:
    with initialize_config_dir(str(CONF), version_base="1.3"):
        config = compose("config", [f"hydra/launcher={name}"], return_hydra_config=True)
    launcher = OmegaConf.to_container(config.hydra.launcher, resolve=False)
    assert isinstance(launcher, dict)
    settings = {str(key): value for key, value in launcher.items() if key != "_target_"}
    assert get_class(launcher["_target_"])(**settings)
    assert settings.get("n_jobs", 1) == 1, "runs side by side spoil each other's times"
    assert (settings.get("gpus_per_node") == 1) is (name == "submitit_slurm")


BROKEN = """
import os
from aded.core.drafter import Drafter

class Raises(Drafter):
    def __init__(self, budget: int = 8) -> None:
        self.budget = budget

    def draft(self, context):
        raise ZeroDivisionError("no step")

class Dies(Raises):
    def draft(self, context):
        os._exit(9)
"""


@pytest.mark.parametrize(
    ("launcher", "broken", "problem"),
    [
        ("hydra/launcher=basic", "Raises", "ZeroDivisionError: no step"),
        pytest.param(
            "hydra/launcher=joblib hydra.launcher.n_jobs=2", "Dies", "did not end", marks=pytest.mark.thorough
        ),
        pytest.param("hydra/launcher=submitit_local", "Dies", "did not end", marks=pytest.mark.thorough),
    ],
)
def test_a_run_that_fails_costs_no_other(
    shell: Shell, tmp_path: Path, folder: Path, launcher: str, broken: str, problem: str
) -> None:
    """One is refused before the first run, one fails in its midst, and one is finished."""
    (tmp_path / "mine.py").write_text(BROKEN)
    classes = f"no.Such,mine.{broken},baselines.tokens.prompt_lookup.PromptLookup"
    overrides = ["method=custom", f"method._target_={classes}", *launcher.split(), f"model={folder}"]
    overrides += [
        "output_dir=null",
        f"paths.output={tmp_path}/out",
        "benchmark.limit=2",
        "benchmark.max_new_tokens=8",
    ]
    code, printed, errors = shell(*overrides, "-m")
    assert code == 1
    first, *_, failed, unknown, other = errors.splitlines()
    assert first.startswith("method._target_=no.Such cannot run: method._target_: no.Such is no class here")
    assert failed == "2 of 3 runs failed; the others are finished:"
    assert unknown == f"  {first.replace(' cannot run', '')}"
    assert other.startswith(f"  method._target_=mine.{broken}: {problem}")
    assert len([*tmp_path.glob("out/*/*/*/summary.json")]) == printed.count("identical 2 of 2") == 1


def test_where_all_runs_fail_alike_one_line_says_so(shell: Shell) -> None:
    """Keys of Hydra that would be dropped are refused too."""
    for wrong, line in (
        ("no_such=1", "no_such: no such key"),
        ("hydra/launcher=no_such", "hydra.launcher: 'no_such': no such launcher; there are basic, joblib"),
        ("hydra.sweeper.max_batch_size=2", "hydra/sweeper: a sweep has every combination"),
        ("--info", "--info: is not read with -m"),
    ):
        code, _, errors = shell("method=prompt_lookup,aded", wrong, "-m")
        assert (code, errors.count("\n")) == (2, 1), errors
        assert errors.startswith(line)


def sweep(name: str) -> dict[str, list[str]]:
    experiment: Any = OmegaConf.load(CONF / "experiment" / f"{name}.yaml")
    params = (experiment.get("hydra") or {}).get("sweeper", {}).get("params", {})
    return {key: str(values).split(",") for key, values in params.items()}


def covering(swept: dict[str, list[str]]) -> list[tuple[str, ...]]:
    """As few combinations as have each value once: the k-th of each key together, from the first again at its end."""
    most = max(map(len, swept.values()), default=1)
    return [tuple(values[k % len(values)] for values in swept.values()) for k in range(most)]


@pytest.mark.parametrize("most", [1, pytest.param(None, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("name", names_of("experiment"))
def test_each_value_of_the_sweep_composes(name: str, most: int | None) -> None:
    first = (CONF / "experiment" / f"{name}.yaml").read_text().splitlines()
    command = next(line for line in first if line.startswith(("# aded run -m", "# aded sweep")))
    given = [part for part in command.split() if "=" in part and not part.startswith(("+", "["))]
    overrides = [override.split(",")[0] for override in given]
    swept, seen = sweep(name), set()
    for key, choices in swept.items():
        assert not (CONF / key).is_dir() or set(choices) <= set(names_of(key)), key
    with initialize_config_dir(str(CONF), version_base="1.3"):
        for values in covering(swept)[:most]:
            settings = [f"{key}={value}" for key, value in zip(swept, values, strict=True)]
            config = compose("config", [f"+experiment={name}", *overrides, *settings])
            seen.add(OmegaConf.to_yaml(config))
            assert Path(config.paths.output).name == name
            for key, value in zip(swept, values, strict=True):
                if "/" not in key and not (CONF / key).is_dir():
                    found = OmegaConf.select(config, key)
                    wanted = OverridesParser.create().parse_override(f"{key}={value}").value()
                    assert wanted.items() <= found.items() if isinstance(wanted, dict) else found == wanted
    assert len(seen) == len(covering(swept)[:most])
