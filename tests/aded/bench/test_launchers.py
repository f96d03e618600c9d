"""Sweeps by other launchers than Hydra's own."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import forked
import pytest
from hydra import compose, initialize_config_dir
from hydra.utils import get_class
from omegaconf import OmegaConf

from aded.config.command_line import CONF

ROOT = Path(__file__).parents[3]


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


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("launcher", "methods"), [("submitit_local", ["prompt_lookup"]), ("joblib", ["autoregressive", "prompt_lookup"])]
)
def test_a_sweep_leaves_the_record_of_each_run(
    tmp_path: Path, folder: Path, launcher: str, methods: list[str], request: pytest.FixtureRequest
) -> None:
    """submitit starts a process per run, which imports everything anew: one run shows that it finds what it needs."""
    if launcher == "submitit_local" and not request.config.getoption("whole"):
        pytest.skip("takes 20 s: with --whole")
    overrides = [f"hydra/launcher={launcher}", f"model={folder}", f"method={','.join(methods)}"]
    overrides += ["benchmark.limit=2", "benchmark.max_new_tokens=8", f"paths.output={tmp_path / 'out'}"]
    done = forked.run([sys.executable, "-m", "aded", "run", "-m", *overrides], env=os.environ, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    summaries = [json.loads(path.read_text()) for path in tmp_path.glob("out/*/*/*/summary.json")]
    assert sorted(summary["method"] for summary in summaries) == methods
    assert all(summary["identical_outputs"] == 2 for summary in summaries)
