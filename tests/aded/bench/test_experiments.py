"""Every experiment's sweep, as its first line starts it, composes to configs that name what they sweep."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

from aded.config.command_line import CONF

EXPERIMENTS = sorted(path.stem for path in (CONF / "experiment").glob("*.yaml"))


def sweep(name: str) -> dict[str, list[str]]:
    experiment: Any = OmegaConf.load(CONF / "experiment" / f"{name}.yaml")
    params = (experiment.get("hydra") or {}).get("sweeper", {}).get("params", {})
    return {key: str(values).split(",") for key, values in params.items()}


def covering(swept: dict[str, list[str]]) -> list[tuple[str, ...]]:
    """As few combinations as have each value once: the k-th of each key together, from the first again at its end."""
    most = max(map(len, swept.values()), default=1)
    return [tuple(values[k % len(values)] for values in swept.values()) for k in range(most)]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_each_value_of_the_sweep_composes(name: str) -> None:
    first = (CONF / "experiment" / f"{name}.yaml").read_text().splitlines()
    command = next(line for line in first if line.startswith(("# aded run -m", "# aded sweep")))
    given = [part for part in command.split() if "=" in part and not part.startswith(("+", "["))]
    overrides = [override.split(",")[0] for override in given]
    swept = sweep(name)
    seen = set()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        for values in covering(swept):
            settings = [f"{key}={value}" for key, value in zip(swept, values, strict=True)]
            config = compose("config", [f"+experiment={name}", *overrides, *settings])
            seen.add(OmegaConf.to_yaml(config))
            assert Path(config.paths.output).name == name
            for key, value in zip(swept, values, strict=True):
                if "/" not in key and not (CONF / key).is_dir():
                    found = OmegaConf.select(config, key)
                    wanted = OverridesParser.create().parse_override(f"{key}={value}").value()
                    assert wanted.items() <= found.items() if isinstance(wanted, dict) else found == wanted
    assert len(seen) == len(covering(swept))
