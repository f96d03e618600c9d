"""Imported by the server that processes are forked from (forked.py): what most commands do first."""

from hydra.core.plugins import Plugins
from transformers.models.auto import modeling_auto  # noqa: F401

from aded.config.command_line import compose_config
from aded.core.tree import DraftTree

# Hydra looks for its plugins in all that is installed, and its grammar gets ready as it parses.
Plugins.instance()
compose_config(["method=aded"])
# Loading numba's compiled functions readies numba itself.
DraftTree.from_sequences(1, [[2, 3], [4]], budget=3)
