"""Peers that draft with a model: a smaller one, or a part of the target."""
