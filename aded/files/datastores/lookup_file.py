"""The look-up file: a small language model of a corpus, as tables that are memory-mapped.

========== ======================== ============================================================================
array      shape                    meaning
========== ======================== ============================================================================
``rows``   int32 [vocabulary + 1]   the row of each token in the tables, and of the separator, which is the
                                    vocabulary's size; frequent tokens come first, all rare ones share the last row
``tables`` uint16 [R, PAST + 2, H]  bfloat16: of a token, what it adds at each of PAST places, then what the memory
                                    keeps of itself and what the token adds to it
``output`` uint16 [R, WIDTH]        bfloat16: what a token's score is the product with
``bias``   float32 [R]              is added to that product
``b``,     float32                  the two products between them, see aded.drafters.backoff.lookup
...
========== ======================== ============================================================================

H is HIDDEN. Opening verifies every block: a look-up reads the tables everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from aded.errors import BadInput
from aded.files.datastores.array_file import DATASTORE_KEY, ArrayFile, open_arrays

FORMAT = "aded-lookup"
VERSION = "1"
PAST = 8
"""Tokens that the model sees one by one; its memory has all others."""
HIDDEN, WIDTH = 256, 192
KEEP, ADD = PAST, PAST + 1
"""Places in a token's tables."""
WEIGHTS = {
    "b": (HIDDEN,),
    "c": (HIDDEN,),
    "w1": (HIDDEN, HIDDEN),
    "b1": (HIDDEN,),
    "w2": (2 * HIDDEN, WIDTH),
    "b2": (WIDTH,),
    "level": (2 * HIDDEN,),
}
"""Shapes of the float32 weights that are no tables."""


class LookupModel(NamedTuple):
    """What compiled code reads: the arrays of the file.

    rows: int32 [vocabulary + 1]
    tables: uint16 [R, PAST + 2, HIDDEN]
    output: uint16 [R, WIDTH]
    bias: float32 [R]
    b, c, w1, b1, w2, b2, level: float32, of the shapes of WEIGHTS
    """

    rows: np.ndarray
    tables: np.ndarray
    output: np.ndarray
    bias: np.ndarray
    b: np.ndarray
    c: np.ndarray
    w1: np.ndarray
    b1: np.ndarray
    w2: np.ndarray
    b2: np.ndarray
    level: np.ndarray


@dataclass(frozen=True)
class LookupFile(ArrayFile):
    """An open look-up file, verified."""

    model: LookupModel


def open_lookup(path: str | Path) -> LookupFile:
    """Map the file read-only. Raises BadInput, naming the file, unless it is a whole look-up file."""
    path = Path(path)
    header, arrays, _, blocks = open_arrays(path, FORMAT, VERSION)
    shapes = {"tables": (-1, PAST + 2, HIDDEN), "output": (-1, WIDTH), **WEIGHTS}
    try:
        model = LookupModel(*(arrays[name].reshape(shapes.get(name, (-1,))) for name in LookupModel._fields))
    except (KeyError, ValueError):
        model = None
    if model is None or not _fit(model, int(header["vocabulary"])):
        raise BadInput(DATASTORE_KEY, f"{path} is damaged (its arrays do not fit together); build it again")
    file = LookupFile(path, header, model, blocks=blocks)
    file.verify()
    return file


def _fit(model: LookupModel, vocabulary: int) -> bool:
    rows = len(model.bias)
    own = np.sort(model.rows[model.rows < rows - 2])  # the last two are shared
    return (
        len(model.rows) == vocabulary + 1
        and len(model.tables) == len(model.output) == rows
        and model.rows.max() < rows
        and np.array_equal(own, np.arange(rows - 2))
    )
