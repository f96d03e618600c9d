"""Checksums of a file's blocks, each verified when the block is first read.

Opening a file of any size therefore takes no time, and a run verifies what it reads. Compiled code does both,
and no library's hash can be called from there. A block's sum adds its 64-bit words, each multiplied by an odd number
of its own, modulo 2^64. It differs for certain when one word differs, and nearly so otherwise. It finds damage; it
does not resist forgery, and neither does any plain hash that the file itself carries.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from aded.compiled import INLINED, UNCOUNTED

BITS = 16
BLOCK = 1 << BITS
"""Bytes of a block: verified in about 5 us, and as much as a system reads ahead."""
WORD = 8
"""Bytes."""
FACTOR = np.uint64(0x9E3779B97F4A7C15)


class Blocks(NamedTuple):
    """A mapped file.

    words: uint64 [m], all its bytes that the sums cover
    sums: uint64 [blocks]; empty: there is nothing to verify, as for arrays in memory
    verified: uint8 [blocks], 1 after the block was found whole
    damaged: int64 [1], 1 + the number of a block that is damaged, 0 while none was found
    """

    words: np.ndarray
    sums: np.ndarray
    verified: np.ndarray
    damaged: np.ndarray


def no_blocks() -> Blocks:
    none = np.empty(0, np.uint64)
    none.flags.writeable = False
    return Blocks(none, none, np.empty(0, np.uint8), np.zeros(1, np.int64))


@njit(**UNCOUNTED)
def block_sum(words: np.ndarray) -> np.uint64:
    """The sum of a block's words, uint64 [m]."""
    total = np.uint64(0)
    for i in range(len(words)):
        total += words[i] * (np.uint64(2 * i + 1) * FACTOR)
    return total


@njit(**UNCOUNTED)
def _verify(blocks: Blocks, block: int) -> bool:
    start = block * (BLOCK // WORD)
    if block < len(blocks.sums) and block_sum(blocks.words[start : start + BLOCK // WORD]) == blocks.sums[block]:
        blocks.verified[block] = 1
        return True
    blocks.damaged[0] = block + 1
    return False


@njit(**INLINED)
def are_whole(blocks: Blocks, first: int, last: int) -> bool:
    """Are the blocks of the bytes `first` to `last` what was written? Each is verified once."""
    if len(blocks.sums) > 0:
        for block in range(first >> BITS, (last >> BITS) + 1):
            if blocks.verified[block] == 0 and not _verify(blocks, block):
                return False
    return True


@njit(**UNCOUNTED)
def verify_all(blocks: Blocks) -> bool:
    """Verify every block, read or not."""
    whole = True
    for block in range(len(blocks.sums)):
        whole = _verify(blocks, block) and whole
    return whole
