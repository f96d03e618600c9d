"""Near-duplicates by MinHash and locality-sensitive hashing, with the settings of FineWeb (arXiv 2406.17557, 3.4).

A text is the set of its 5-grams of words. 112 hash functions, in 14 bands of 8, find a text whose 5-grams are three
quarters those of another (Jaccard similarity 0.75) with probability 0.77; at a similarity of 0.9 nearly always, and
at 0.5 in 5 of 100 cases.

rensa computes the hash functions. The bands are kept here, 8 bytes each in a table: an index of rensa or datasketch
also keeps names and signatures, and 1.5 million conversations have 42 million bands.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xxhash
from numba import njit

from aded.errors import naming_the_extra
from datastore.cleaning.words import ngram_hashes, words

SHINGLE = 5
"""Words in a row."""
BANDS, ROWS = 14, 8
SEED = 0
FULLEST = 0.7
"""Share of the table that may be filled."""


def shingles(text: str) -> np.ndarray:
    """Hashes of the text's 5-grams of words, uint64 [m], m >= 1; of a shorter text, of all that it has."""
    hashes = words(text)
    if not len(hashes):
        return np.array([xxhash.xxh3_64_intdigest(text.strip().encode())], np.uint64)
    return ngram_hashes(hashes, min(SHINGLE, len(hashes)))


class NearDuplicates:
    """The texts that were met so far."""

    def __init__(self) -> None:
        with naming_the_extra():
            from rensa import RMinHash
        self._digests = RMinHash.digest_matrix_from_flat_token_hashes
        self._table, self._filled = np.zeros(1 << 16, np.uint64), 0

    def has(self, parts: Sequence[np.ndarray]) -> bool:
        """Is every part of a conversation nearly a text that was met before? If one is not, all are added.

        parts: the shingles of each, uint64 [m].
        """
        ends = np.cumsum([0, *map(len, parts)]).astype(np.uint64)
        digests = self._digests(np.concatenate(parts), ends, BANDS * ROWS, SEED).to_rows()
        bands = _band_keys(np.array(digests, np.uint32), ROWS)
        if _all_met(self._table, bands):
            return True
        if self._filled + bands.size > FULLEST * len(self._table):
            larger = np.zeros(2 * len(self._table), np.uint64)
            _add(larger, self._table)
            self._table = larger
        self._filled += _add(self._table, bands.ravel())
        return False


@njit(cache=True)
def _band_keys(digests: np.ndarray, rows: int) -> np.ndarray:
    """uint64 [texts, bands], hashes of a band's place and values; none is 0. digests: uint32 [texts, hashes]."""
    bands = digests.shape[1] // rows
    keys = np.empty((len(digests), bands), np.uint64)
    for text in range(len(digests)):
        for band in range(bands):
            key = np.uint64(band + 1)
            for value in digests[text, band * rows : (band + 1) * rows]:
                key = (key ^ np.uint64(value)) * np.uint64(0x9E3779B97F4A7C15)
                key ^= key >> np.uint64(29)
            keys[text, band] = max(key, np.uint64(1))
    return keys


@njit(cache=True)
def _find_slot(table: np.ndarray, key: np.uint64) -> int:
    """Where the key is, or the empty slot where it belongs."""
    last = np.uint64(len(table) - 1)
    slot = key & last
    while table[slot] != 0 and table[slot] != key:
        slot = (slot + np.uint64(1)) & last
    return int(slot)


@njit(cache=True)
def _all_met(table: np.ndarray, bands: np.ndarray) -> bool:
    """Is a band of each text in the table? bands: uint64 [texts, bands]."""
    for keys in bands:
        met = False
        for key in keys:
            met |= table[_find_slot(table, key)] == key
        if not met:
            return False
    return True


@njit(cache=True)
def _add(table: np.ndarray, keys: np.ndarray) -> int:
    """Add the keys that are not 0; returns how many were new."""
    new = 0
    for key in keys:
        if key != 0:
            slot = _find_slot(table, key)
            new += table[slot] == 0
            table[slot] = key
    return new
