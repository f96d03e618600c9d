from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from aded.files.datastores.blocks import BLOCK, WORD, Blocks, are_whole, block_sum, no_blocks, verify_all

WORDS = 3 * BLOCK // WORD - 7


def blocks(words: np.ndarray) -> Blocks:
    parts = np.split(words, range(BLOCK // WORD, len(words), BLOCK // WORD))
    sums = np.array([block_sum(part) for part in parts], np.uint64)
    return Blocks(words, sums, np.zeros(len(sums), np.uint8), np.zeros(1, np.int64))


@given(st.integers(0, WORDS - 1), st.integers(0, 63))
def test_each_flipped_bit_damages_its_block_and_no_other(word: int, bit: int) -> None:
    words = np.arange(WORDS, dtype=np.uint64)
    file = blocks(words)
    words[word] ^= np.uint64(1 << bit)
    damaged = word * WORD // BLOCK
    for block in range(3):
        assert are_whole(file, block * BLOCK, block * BLOCK) is (block != damaged)
    assert file.damaged[0] == damaged + 1
    assert file.verified.tolist() == [int(block != damaged) for block in range(3)]
    assert not verify_all(file)


def test_a_range_over_several_blocks_needs_all_of_them() -> None:
    words = np.arange(WORDS, dtype=np.uint64)
    file = blocks(words)
    words[BLOCK // WORD] += np.uint64(1)
    assert are_whole(file, 0, BLOCK - 1)
    assert not are_whole(file, BLOCK - 1, BLOCK)
    assert not are_whole(file, 0, 3 * BLOCK), "its end is behind the blocks"


def test_two_exchanged_words_change_the_sum() -> None:
    words = np.arange(100, dtype=np.uint64)
    assert block_sum(words) != block_sum(words[::-1].copy())


def test_a_block_is_verified_once() -> None:
    words = np.arange(WORDS, dtype=np.uint64)
    file = blocks(words)
    assert verify_all(file)
    words[0] += np.uint64(1)
    assert are_whole(file, 0, 0)


def test_arrays_in_memory_need_no_verification() -> None:
    assert are_whole(no_blocks(), 0, 10**9)
