"""Imported by the server that processes are forked from (forked.py): what most commands do first."""

from __future__ import annotations

from hydra._internal.hydra import Hydra

from aded.core.tree import DraftTree

# As in conftest.py: each config is composed once.
Hydra.get_mode = lambda *_, **__: None  # type: ignore[method-assign]
# Loading numba's compiled functions readies numba itself.
DraftTree.from_sequences(1, [[2, 3], [4]], budget=3)
