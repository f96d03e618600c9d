"""Look-up files of random models."""

from pathlib import Path

import numpy as np
import torch

from aded.files.datastores.array_file import write_arrays
from aded.files.datastores.lookup_file import FORMAT, VERSION
from datastore.lookup import LookupNetwork


def random_network(vocabulary: int, seed: int = 0) -> LookupNetwork:
    """Of that many tokens, the separator, and a row for rare tokens; its gates and levels are random too."""
    torch.manual_seed(seed)
    network = LookupNetwork(torch.linspace(-1, -8, vocabulary + 2))
    with torch.no_grad():
        for weights in (network.keep, network.c, network.b, network.b1, network.b2, network.shift, network.level):
            weights.copy_(torch.randn_like(weights) * 0.1)
    return network


def write_lookup(path: Path, network: LookupNetwork, *, first: int = 0, tokenizer: str = "t") -> Path:
    """Tokens have rows in their order, which begins with the token `first` and goes round."""
    vocabulary = len(network.bias) - 2
    rows = (np.arange(vocabulary + 1, dtype=np.int32) - first) % vocabulary
    rows[vocabulary] = vocabulary
    header = {"format": FORMAT, "version": VERSION, "tokenizer": tokenizer, "vocabulary": str(vocabulary)}
    write_arrays(path, header, {"rows": rows, **network.tables()})
    return path
