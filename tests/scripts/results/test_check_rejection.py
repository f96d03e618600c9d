"""The check of rejection tallies what was tried, and refuses a method that draws nothing."""

from __future__ import annotations

import numpy as np
import pytest

from aded.config.command_line import compose_config
from aded.errors import BadInput
from scripts.results.check_rejection import tally_of

SHORT = ["decoding=rejection", "benchmark.limit=1", "benchmark.max_new_tokens=10", "method.cost=none"]


def test_the_models_own_layers_are_accepted_as_often_as_their_distributions_agree() -> None:
    tally = tally_of(compose_config([*SHORT, "method=layer_skip", "method.layers=29"]))
    chances = np.array(tally.chances)
    assert ((chances > 0) & (chances <= 1 + 1e-9)).all()
    assert len(chances) <= tally.accepted + tally.steps
    assert abs(tally.accepted - chances.sum()) < 4 * np.sqrt((chances * (1 - chances)).sum()) + 1e-9
    assert "drafted tokens accepted; sum(min(p, q)) =" in str(tally)


def test_a_method_without_a_distribution_is_refused() -> None:
    with pytest.raises(BadInput, match="drew no drafts"):
        tally_of(compose_config([*SHORT, "method=prompt_lookup"]))
