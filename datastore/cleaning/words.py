"""The words of a text as 64-bit hashes, and the hashes of n-grams of words.

A word is a run of letters, marks and digits in lower case; a Chinese or Japanese character is a word by itself, since
these scripts put no space between words. Punctuation and white space count as nothing, as in appendix C of GPT-3's
paper (arXiv 2005.14165). The hashes are the same in every process.
"""

from __future__ import annotations

from functools import cache
from unicodedata import category

import numpy as np
from numba import njit

_BETWEEN, _PART, _ALONE = 0, 1, 2
"""What a character is: between words, part of a word, or a word by itself."""
_ALONE_RANGES = ((0x3040, 0x3100), (0x3400, 0x4DC0), (0x4E00, 0xA000), (0xF900, 0xFB00), (0x20000, 0x32400))
"""Kana, and the blocks of Chinese characters: the first, and the last plus 1."""
_START, _FACTOR = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)
"""FNV-1a's."""
_BASE = np.uint64(0x9E3779B97F4A7C15)


@cache
def _kinds() -> np.ndarray:
    """uint8 [code points]: what each character is."""
    kinds = np.array([category(chr(code))[0] in "LMN" for code in range(0x110000)], np.uint8)
    for first, end in _ALONE_RANGES:
        kinds[first:end] *= np.uint8(_ALONE)
    return kinds


def words(text: str) -> np.ndarray:
    """The hashes of the words of a text, uint64 [words]."""
    codes = np.frombuffer(text.lower().encode("utf-32-le", "surrogatepass"), np.uint32)
    return _hashed(codes, _kinds())


@njit(cache=True)
def mixed(value: np.uint64) -> np.uint64:
    """The last step of MurmurHash3: every bit depends on all."""
    value = (value ^ (value >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    value = (value ^ (value >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return value ^ (value >> np.uint64(33))


@njit(cache=True)
def appended(value: np.uint64, word: np.uint64) -> np.uint64:
    """The polynomial of an n-gram that one word more makes longer; `mixed` of it is the n-gram's hash."""
    return value * _BASE + word


@njit(cache=True)
def _hashed(codes: np.ndarray, kinds: np.ndarray) -> np.ndarray:
    """`words` of code points, uint32 [m]."""
    found, count, value, inside = np.empty(len(codes), np.uint64), 0, _START, False
    for code in codes:
        kind = kinds[code]
        if inside and kind != _PART:
            found[count] = mixed(value)
            count, value, inside = count + 1, _START, False
        if kind != _BETWEEN:
            value = (value ^ np.uint64(code)) * _FACTOR
            inside = True
        if kind == _ALONE:
            found[count] = mixed(value)
            count, value, inside = count + 1, _START, False
    if inside:
        found[count] = mixed(value)
        count += 1
    return found[:count].copy()


@njit(cache=True)
def ngram_hashes(words: np.ndarray, length: int) -> np.ndarray:
    """The hash of every `length` words in a row, uint64 [words - length + 1]; empty for fewer words."""
    found = np.empty(max(0, len(words) - length + 1), np.uint64)
    for i in range(len(found)):
        value = np.uint64(0)
        for word in words[i : i + length]:
            value = appended(value, word)
        found[i] = mixed(value)
    return found
