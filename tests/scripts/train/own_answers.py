"""What heads of a tiny model are taught."""

from __future__ import annotations

import numpy as np
from transformers import PreTrainedModel

from aded.core.decode import decode
from aded.core.sampler import Greedy
from aded.targets.eager import EagerTarget
from baselines.autoregressive import Autoregressive


def pairs_of(model: PreTrainedModel, count: int = 6, tokens: int = 20) -> list[tuple[list[int], list[int]]]:
    """Prompts with the model's own answers."""
    target = EagerTarget(model)
    prompts = [[3 + number, 40, 7 + 5 * number] for number in range(count)]
    return [
        (prompt, decode(target, Autoregressive(), np.array(prompt), Greedy(), max_new_tokens=tokens).token_ids)
        for prompt in prompts
    ]
