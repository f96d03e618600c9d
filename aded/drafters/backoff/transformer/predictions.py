"""The small transformer's predictions after the nodes that it has read, as the search looks them up."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from aded.compiled import inner

NODES = 16
"""Nodes below the root that are read at a step, the most probable ones. 10 bring most of the gain, 32 little more."""


class Predictions(NamedTuple):
    """The nodes that were read at this step, the root first.

    nodes: int64 [1], how many there are; 0: none was read yet
    tokens, parents: int64 [NODES + 1]
    logarithms: float32 [NODES + 1, outputs], of the probabilities after each node, in nats
    known: int64 [outputs - 1], the token of each output but the last, which stands for any other token
    places: int32 [known[-1] + 2], the output of each token, -1: it has none; all larger tokens share the last place
    """

    nodes: np.ndarray
    tokens: np.ndarray
    parents: np.ndarray
    logarithms: np.ndarray
    known: np.ndarray
    places: np.ndarray


def no_predictions(known: np.ndarray | None = None) -> Predictions:
    """known: None: there is no transformer"""
    known = np.empty(0, np.int64) if known is None else known
    places = np.full(known.max(initial=-1) + 2, -1, np.int32)
    places[known] = np.arange(len(known))
    most = NODES + 1 if len(known) else 1
    return Predictions(
        nodes=np.zeros(1, np.int64),
        tokens=np.zeros(most, np.int64),
        parents=np.zeros(most, np.int64),
        logarithms=np.zeros((most, len(known) + 1), np.float32),
        known=known,
        places=places,
    )


@inner
def output_of(predictions: Predictions, token: int) -> int:
    """Where the token stands in a row of logarithms; -1: nowhere."""
    return int(predictions.places[min(token, len(predictions.places) - 1)])


@inner
def read_child(predictions: Predictions, parent: int, token: int) -> int:
    """The node that was read below `parent`; -1: it was not, or neither was the parent."""
    if parent >= 0:
        for node in range(parent + 1, predictions.nodes[0]):
            if predictions.parents[node] == parent and predictions.tokens[node] == token:
                return node
    return -1
