"""Every experiment's sweep, as its first line starts it, composes to configs that name what they sweep."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from aded.run import CONF

EXPERIMENTS = sorted(path.stem for path in (CONF / "experiment").glob("*.yaml"))


def sweep(name: str) -> dict[str, list[str]]:
    experiment: Any = OmegaConf.load(CONF / "experiment" / f"{name}.yaml")
    params = (experiment.get("hydra") or {}).get("sweeper", {}).get("params", {})
    return {key: str(values).split(",") for key, values in params.items()}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_each_run_of_the_sweep_composes(name: str) -> None:
    first = (CONF / "experiment" / f"{name}.yaml").read_text().splitlines()
    command = next(line for line in first if line.startswith("# python -m aded.run -m"))
    words = [word for word in command.split() if "=" in word and not word.startswith("+")]
    words = [word.split(",")[0] for word in words]
    swept = sweep(name)
    seen = set()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        for values in product(*swept.values()):
            settings = [f"{key}={value}" for key, value in zip(swept, values, strict=True)]
            config = compose("config", [f"+experiment={name}", *words, *settings])
            seen.add(OmegaConf.to_yaml(config))
            assert Path(config.paths.output).name == name
            for key, value in zip(swept, values, strict=True):
                if key != "method" and "/" not in key:
                    assert (
                        str(OmegaConf.select(config, key)) in (value, str(float(value)))
                        if value[0].isdigit()
                        else value
                    )
    assert len(seen) == len(list(product(*swept.values())))
