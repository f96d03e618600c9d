"""Which rows each tree node sees: the committed rows, its ancestors and itself."""

from __future__ import annotations

import torch
from transformers import PreTrainedConfig

from aded.core.tree import DraftTree

Mask = torch.Tensor | dict[str, torch.Tensor]


def visible(tree: DraftTree, committed: int, window: int | None, device: torch.device) -> torch.Tensor:
    """bool [1, 1, n, committed + n]: what node i sees. `window`: it sees that many positions, its own included.

    Committed row j holds position j, node i position committed + depth i; a sliding window compares
    positions, not rows, since siblings share a position.
    """
    n = len(tree)
    mask = torch.ones(1, 1, n, committed + n, dtype=torch.bool)
    mask[..., committed:] = torch.from_numpy(tree.ancestors)
    if window is not None:
        depths = torch.from_numpy(tree.depths)
        positions = torch.cat([torch.arange(committed), committed + depths])
        mask &= (positions[committed:, None] - positions[None, :]) < window
    return mask.to(device, non_blocking=True)


class TreeMask:
    """Builds the mask a model's forward takes, from its config: sliding or full layers, boolean or additive."""

    def __init__(self, config: PreTrainedConfig, dtype: torch.dtype) -> None:
        self.dtype = dtype
        # sdpa and our own take booleans; eager attention adds the mask to its scores.
        self.additive = config._attn_implementation not in ("sdpa", "tree")
        kinds = set(getattr(config, "layer_types", None) or [])
        self.mixed = len(kinds) > 1
        self._config, self._slides = config, not kinds or "sliding_attention" in kinds
        self.always = False
        """A mask even where one row sees everything, of one form for every tree."""

    @property
    def window(self) -> int | None:
        """Tokens that a sliding layer sees; None: all."""
        return getattr(self._config, "sliding_window", None) if self._slides else None

    def __call__(self, tree: DraftTree, committed: int, device: torch.device, since: int = 0) -> Mask | None:
        """A mask for the model's `attention_mask`, or None where one row sees everything.

        since: the nodes before this one are in the cache; the others are the mask's rows.
        """
        window = self.window
        if not self.always:
            window = window if window is not None and window < committed + len(tree) else None
            if len(tree) == 1 and window is None and not self.mixed:
                return None
        full = self.as_taken(visible(tree, committed, None, device)[:, :, since:])
        sliding = full if window is None else self.as_taken(visible(tree, committed, window, device)[:, :, since:])
        if not self.mixed:
            return sliding
        return {"full_attention": full, "sliding_attention": sliding}

    def as_taken(self, mask: torch.Tensor) -> torch.Tensor:
        """The form of a boolean mask that the model takes."""
        if not self.additive:
            return mask
        hidden = torch.zeros(mask.shape, dtype=self.dtype, device=mask.device)
        return hidden.masked_fill(~mask, torch.finfo(self.dtype).min)
