"""The container of datastore files, and the checksums of its blocks."""

import re
from pathlib import Path

import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from aded.errors import BadInput
from aded.files.datastores import array_file
from aded.files.datastores.array_file import (
    BLOCK,
    CHECKSUM,
    WORD,
    ArrayFile,
    Blocks,
    are_whole,
    block_sum,
    no_blocks,
    open_arrays,
    verify_all,
    write_arrays,
)
from datastore.token_stream import Spill

HEADER = {"format": "f", "version": "1", "tokenizer": "t", "vocabulary": "9"}
ARRAYS: dict[str, np.ndarray] = {
    "b": np.arange(5, dtype=np.int32),
    "a": np.arange(3, dtype=np.uint32),
    "wide": np.array([2**63], np.uint64),
    "none": np.empty(0, np.int64),
}


def opened(path: Path) -> ArrayFile:
    header, _, _, blocks = open_arrays(path, "f", "1")
    return ArrayFile(path, header, blocks=blocks)


def refused(path: Path) -> None:
    with pytest.raises(BadInput, match=f"^datastore.path: .*{re.escape(str(path))}"):
        opened(path).verify()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_arrays(tmp_path / "new" / "x.arrays", HEADER, ARRAYS)
    return tmp_path / "new" / "x.arrays"


def test_an_opened_file_equals_the_written_arrays(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Home is meant by a tilde; other programs read it as safetensors; a spill is written like an array."""
    spill = Spill(path.with_name("b.raw"), np.int32)
    for part in ([0, 1], [], [2, 3, 4]):
        spill.append(np.array(part, np.int64))
    write_arrays(path.with_name("spilled.arrays"), HEADER, {**ARRAYS, "b": spill})
    assert path.with_name("spilled.arrays").read_bytes() == path.read_bytes()
    monkeypatch.setenv("HOME", str(path.parent))
    assert array_file.format_of("~/x.arrays") == "f"
    header, arrays, starts, blocks = open_arrays("~/x.arrays", "f", "1")
    loaded = load_file(path)
    assert header == {**HEADER, "fingerprint": header["fingerprint"]}
    words = blocks.words.view(np.uint8)
    assert arrays.keys() - {"padding"} == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype
        assert words[starts[name] :][: array.nbytes].tobytes() == array.tobytes()
        assert np.array_equal(arrays[name], array)
        assert np.array_equal(loaded[name], array)
        assert not arrays[name].flags.writeable


def test_a_file_that_was_cut_lengthened_or_changed_anywhere_is_refused(path: Path) -> None:
    whole = path.read_bytes()
    for at, byte in enumerate(whole):
        for damaged in (whole[:at], whole[:at] + bytes([byte ^ 1 << at % 8]) + whole[at + 1 :]):
            path.write_bytes(damaged)
            refused(path)
    path.write_bytes(whole + b"\0")
    refused(path)


def test_what_is_no_such_file_is_refused(tmp_path: Path) -> None:
    """None, a folder, garbage, a header without a vocabulary, safetensors: with our header too it has no checksum."""
    path = tmp_path / "x.arrays"
    refused(path)
    refused(tmp_path)
    for data in (b"", b"PK\x03\x04 a zip file of some kind", bytes(100), b"\2" + bytes(7) + b"{}"):
        path.write_bytes(data)
        refused(path)
    for metadata in (None, HEADER):
        save_file({"weight": np.zeros(3, np.int32)}, path, metadata)
        refused(path)
    for changes in ({"vocabulary": "0"}, {"vocabulary": "many"}, {"vocabulary": str(1 << 40)}, {"tokenizer": ""}):
        write_arrays(path, HEADER | changes, ARRAYS)
        refused(path)


def test_arrays_that_overlap_are_refused_though_the_checksum_is_right(path: Path) -> None:
    whole = path.read_bytes()
    for places in (b"[8, 20]", b"[0, 12]"):
        head = whole[: 8 + int.from_bytes(whole[:8], "little")].replace(b"[8, 20]", places)
        body = whole[len(head) : -CHECKSUM]
        path.write_bytes(head + body + xxhash.xxh3_128_digest(head + body[-WORD:]))
        if places == b"[8, 20]":
            opened(path).verify()
        else:
            refused(path)


WORDS = 3 * BLOCK // WORD - 7


def in_blocks(words: np.ndarray) -> Blocks:
    parts = np.split(words, range(BLOCK // WORD, len(words), BLOCK // WORD))
    sums = np.array([block_sum(part) for part in parts], np.uint64)
    return Blocks(words, sums, np.zeros(len(sums), np.uint8), np.zeros(1, np.int64))


@given(st.integers(0, WORDS - 1), st.integers(0, 63))
def test_each_flipped_bit_damages_its_block_and_no_other(word: int, bit: int) -> None:
    words = np.arange(WORDS, dtype=np.uint64)
    file = in_blocks(words)
    words[word] ^= np.uint64(1 << bit)
    damaged = word * WORD // BLOCK
    for block in range(3):
        assert are_whole(file, block * BLOCK, block * BLOCK) is (block != damaged)
    assert file.damaged[0] == damaged + 1
    assert file.verified.tolist() == [int(block != damaged) for block in range(3)]
    assert not verify_all(file)


def test_a_range_over_several_blocks_needs_all_of_them_and_each_is_verified_once() -> None:
    assert are_whole(no_blocks(), 0, 10**9), "arrays in memory"
    words = np.arange(WORDS, dtype=np.uint64)
    assert block_sum(words) != block_sum(words[::-1].copy())
    file = in_blocks(words)
    assert verify_all(file)
    words[0] += np.uint64(1)
    assert are_whole(file, 0, 0)
    file = in_blocks(words)
    words[BLOCK // WORD] += np.uint64(1)
    assert are_whole(file, 0, BLOCK - 1)
    assert not are_whole(file, BLOCK - 1, BLOCK)
    assert not are_whole(file, 0, 3 * BLOCK), "its end is behind the blocks"
