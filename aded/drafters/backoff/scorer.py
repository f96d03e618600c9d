"""The scorer: one small network, which turns the features of a token into its probability.

For every candidate token x, and for "another token", which has no features,

    h(x) = b + sum over experts that know the context of  A_e [1, evidence_e]
             + sum over experts with a feature of x of    B_e [1, log share_e(x), log count_e(x)]
    score(x) = w . max(0, h(x)),    p(x) = softmax over the candidates and "another token".

The sums are sparse: some experts know a context, and each has features of few tokens. scripts.train.scorer learned
the weights from answers of other models; while decoding they stay as they are, so one answer's decisions never change
what the next answer's evidence is worth.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open

from aded.compiled import inner, new_record
from aded.drafters.backoff.candidates import EXPERTS, UNITS, Candidates
from aded.errors import BadInput
from aded.files.places import here_or_shipped

SHIPPED = "aded/drafters/backoff/scorer.safetensors"
ZERO = np.float32(0.0)


Scorer = np.record
"""The network's weights: a record of WEIGHTS."""
SHAPES = {"bias": (3, UNITS), "contexts": (EXPERTS, 3, UNITS), "features": (EXPERTS, 3, UNITS)}
"""
bias: b, what is added for "another token", and w
contexts: A: known, its evidence
features: B: present, log share, log count
"""
WEIGHTS = np.dtype([(name, np.float32, shape) for name, shape in SHAPES.items()])
PREFIXES = {
    (retrieval, lookup): "retrieval." * retrieval + "lookup." * lookup
    for retrieval in (False, True)
    for lookup in (False, True)
}
"""Of the names in a file: one network for drafts without the two, three for drafts with them."""


def new_scorer(weights: Mapping[str, np.ndarray]) -> Scorer:
    """Of weights by name, with the shapes of SHAPES."""
    scorer: Scorer = new_record(WEIGHTS)
    for name in SHAPES:
        scorer[name][:] = weights[name]
    return scorer


def read_scorer(place: str, retrieval: bool = False, lookup: bool = False) -> tuple[Scorer, str]:
    """The weights of a file, and what they were learned from. Raises BadInput naming the file.

    place: a relative path is searched in the working directory, then in the repository
    retrieval, lookup: the weights that were learned with these
    """
    path, prefix = here_or_shipped(place) or Path(place), PREFIXES[retrieval, lookup]
    try:
        with safe_open(path, "np") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
            learned_from = (file.metadata() or {}).get(f"{prefix}learned_from", "an unknown source")
    except (OSError, SafetensorError):
        raise BadInput("method.scorer", f"{place} is no safetensors file; give one of scripts.train.scorer") from None
    shapes = {prefix + name: shape for prefix in PREFIXES.values() for name, shape in SHAPES.items()}
    if {name: tensor.shape for name, tensor in tensors.items()} != shapes or not all(
        np.isfinite(tensor).all() for tensor in tensors.values()
    ):
        raise BadInput("method.scorer", f"{place} holds other weights; this version needs those of {SHAPES}")
    return new_scorer({name: tensors[prefix + name] for name in SHAPES}), learned_from


@inner
def exponential(x: float) -> float:
    """e^x for x <= 0, to nine digits: the C library's differs between machines in the last digit.

    x = k ln 2 + r with |r| <= ln(2) / 2; the series of e^r, times 2^k, which is written into the number's exponent.
    """
    x = max(x, -700.0)
    k = np.floor(x * 1.4426950408889634 + 0.5)
    r = x - k * 0.6931471805599453
    series = 1.0
    for n in range(8, 0, -1):
        series = 1.0 + series * r / n
    return series * np.int64((np.int64(k) + 1023) << 52).view(np.float64)


@inner
def score(scorer: Scorer, candidates: Candidates) -> None:
    """Write hidden units and probabilities of all candidates."""
    n, m = candidates.sizes[0], candidates.sizes[1]
    common, sums, hidden = candidates.sums[0], candidates.sums[1], candidates.hidden
    for u in range(UNITS):
        common[u] = scorer.bias[0, u]
    for expert in range(EXPERTS):
        if candidates.seen[expert]:
            first, second, row = (
                candidates.evidence[expert, 0],
                candidates.evidence[expert, 1],
                scorer.contexts[expert],
            )
            for u in range(UNITS):
                common[u] += row[0, u] + first * row[1, u] + second * row[2, u]
    for i in range(n):
        for u in range(UNITS):
            hidden[i, u] = common[u]
    for u in range(UNITS):
        hidden[n, u] = common[u] + scorer.bias[1, u]
    for k in range(m):
        at, row = candidates.feature_candidates[k], scorer.features[candidates.feature_experts[k]]
        share, count = candidates.feature_values[k, 0], candidates.feature_values[k, 1]
        for u in range(UNITS):
            hidden[at, u] += row[0, u] + share * row[1, u] + count * row[2, u]
    probabilities, largest = candidates.probabilities, -np.inf
    for i in range(n + 1):
        for u in range(UNITS):
            sums[u] = max(ZERO, hidden[i, u]) * scorer.bias[2, u]
        # A sum in this order is the same on every processor, and quick on each.
        for u in range(16):
            sums[u] += sums[u + 16]
        for u in range(8):
            sums[u] += sums[u + 8]
        for u in range(4):
            sums[u] += sums[u + 4]
        probabilities[i] = np.float64(sums[0] + sums[2]) + np.float64(sums[1] + sums[3])
        largest = max(largest, probabilities[i])
    total = 0.0
    for i in range(n + 1):
        probabilities[i] = exponential(probabilities[i] - largest)
        total += probabilities[i]
    for i in range(n + 1):
        probabilities[i] /= total
