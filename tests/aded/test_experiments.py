"""Every experiment's sweep, as its first line starts it, composes to configs that name what they sweep."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

from aded.run import CONF

PAPER = {
    "table1_mt_bench",
    "table1_alpaca",
    "table1_human_eval",
    "table2_corpus",
    "fig3",
    "fig4",
    "fig5",
    "fig6",
    "fig7",
}
EXPERIMENTS = sorted(path.stem for path in (CONF / "experiment").glob("*.yaml"))


def sweep(name: str) -> dict[str, list[str]]:
    experiment: Any = OmegaConf.load(CONF / "experiment" / f"{name}.yaml")
    params = (experiment.get("hydra") or {}).get("sweeper", {}).get("params", {})
    return {key: str(values).split(",") for key, values in params.items()}


def in_turn(swept: dict[str, list[str]]) -> list[dict[str, str]]:
    """Settings in which every value of every key occurs: each in turn, the other keys at their first."""
    first = {key: values[0] for key, values in swept.items()}
    return [first, *({**first, key: value} for key, values in swept.items() for value in values[1:])]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_each_run_of_the_sweep_composes(name: str) -> None:
    lines = (CONF / "experiment" / f"{name}.yaml").read_text().splitlines()
    command = next(line for line in lines if line.startswith("# python -m aded.run -m"))
    words = [word for word in command.split() if "=" in word and not word.startswith("+")]
    words = [word.split(",")[0] for word in words]
    runs = in_turn(sweep(name))
    seen = set()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        for settings in runs:
            config = compose("config", [f"+experiment={name}", *words, *(f"{k}={v}" for k, v in settings.items())])
            seen.add(OmegaConf.to_yaml(config))
            assert Path(config.paths.output).name == name
            for key, value in settings.items():
                if "/" not in key and not (CONF / key).is_dir():
                    told = OmegaConf.select(config, key)
                    wanted = OverridesParser.create().parse_override(f"{key}={value}").value()
                    assert wanted.items() <= told.items() if isinstance(wanted, dict) else told == wanted
    assert len(seen) == len(runs)


def test_each_table_and_figure_of_the_paper_has_its_experiment() -> None:
    assert set(EXPERIMENTS) >= PAPER | {"peers", "cpu_default"}
